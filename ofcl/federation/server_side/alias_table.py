"""The alias table of a federation: spellings that parties use for one and the same class."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from ofcl.engines.rejection import Rejected, check_label
from ofcl.errors import OfclError

FILE = "aliases.toml"  # in the federation's folder: "type1" = "Type 1"


def load_aliases(folder: Path) -> dict[str, str]:
    """Reads the alias table of a federation.

    Args:
        folder: The folder of the federation.

    Returns:
        The class by its other spellings; empty if there is no table.

    Raises:
        OfclError: If the file cannot be read, or an entry cannot be.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OfclError(f"'{path}' cannot be read: {error}") from None
    for spelling, label in table.items():
        if not isinstance(label, str):
            raise OfclError(f'\'{path}\': {spelling!r} = {label!r}; write "type1" = "Type 1"')
        if label in table:
            raise OfclError(f"'{path}': {label!r} is a class and a spelling of another; choose one")
        for name in (spelling, label):
            try:
                check_label(name)
            except Rejected as error:
                raise OfclError(f"'{path}': {error}") from None
    return table


def joined(
    known: Mapping[str, str], labels: tuple[str, ...], table: Mapping[str, str]
) -> dict[str, str]:
    """Adds new entries of the table to the aliases of a run that goes on.

    A spelling that has become a class of its own stays one: models have an output for it.

    Args:
        known: The aliases that the run has had.
        labels: The labels of the run.
        table: The alias table as it is now.
    """
    return {**{s: label for s, label in table.items() if s not in labels}, **known}
