"""The hub: one question before a model is downloaded from it."""

from __future__ import annotations

from collections.abc import Sequence

from ofcl.errors import OfclError

SECONDS_FOR_HUB = 5  # after which the hub counts as out of reach


def check_hub() -> None:
    """Asks the hub once for a sign of life, before a model is downloaded from it.

    The hub's own functions try again and again, file by file, which takes minutes without network.

    Raises:
        OfclError: There is no answer.
    """
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS_FOR_HUB)
    except Exception as error:  # of the network, a proxy, or the hub's offline mode
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise OfclError(f"no answer from {constants.ENDPOINT}: {reason}") from None


def is_downloaded(model: str, files: Sequence[str] = ("modules.json", "config.json")) -> bool:
    """Tells whether a model of the hub is in the hub's cache on this machine.

    Args:
        model: Its name on the hub.
        files: Files of which one is in the cache if the model is.
    """
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(model, name), str) for name in files)
