"""The method that settings choose, with the memory policy or score that they put in its place."""

from __future__ import annotations

from ofcl.methods import Method, find_method
from ofcl.settings.schema import Settings


def chosen_method(settings: Settings) -> Method:
    """Finds the method of a run.

    Args:
        settings: The run's settings.
    """
    return find_method(settings.method, settings.policy, settings.score)
