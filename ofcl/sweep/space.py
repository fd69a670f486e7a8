"""The settings that a sweep searches: choices, and ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from ofcl.errors import OfclError, unknown
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings

if TYPE_CHECKING:
    from optuna.trial import Trial

Value = str | int | float | bool

SEARCHABLE_DATA = {"embedder", "image_size", "window"}
FIXED = ({*AT_PARTY} - SEARCHABLE_DATA) | {
    "alpha", "blurry", "checkpoint_every", "class_order", "class_split", "clients", "drop_class",
    "engine", "fit", "imbalance", "input_noise", "joint", "label_noise", "licence", "limit",
    "patience", "ray", "remainder", "seed", "split", "spread", "stagger", "start", "task_order",
    "tasks", "validation",
}  # fmt: skip
"""Settings that are not searched: with another value, trials would be judged on other data."""


@dataclass(frozen=True)
class Choices:
    """A setting of which some values are tried.

    Args:
        name: The name of the setting.
        values: The values.
    """

    name: str
    values: tuple[Value, ...]

    def suggest(self, trial: Trial) -> Value:
        """Lets Optuna choose a value.

        Args:
            trial: The trial; one that has a value already keeps it.
        """
        chosen = trial.suggest_categorical(self.name, list(self.values))
        assert chosen is not None
        return chosen

    def tried(self) -> tuple[Value, ...]:
        """Lists values that must be accepted for all others to be."""
        return self.values


@dataclass(frozen=True)
class Range:
    """A setting of which any number between two ends may be tried.

    Args:
        name: The name of the setting.
        low: The lower end.
        high: The upper end.
        whole: Whether only whole numbers are tried.
        log: Whether numbers are drawn by their logarithm.
    """

    name: str
    low: float
    high: float
    whole: bool
    log: bool = False

    def suggest(self, trial: Trial) -> Value:
        """Lets Optuna choose a number.

        Args:
            trial: The trial; one that has a number already keeps it.
        """
        if self.whole:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)

    def tried(self) -> tuple[Value, ...]:
        """Lists values that must be accepted for all others to be."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)


Dimension = Choices | Range


def read_space(table: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Dimension]:
    """Reads what is searched, and checks each end and each choice beside the other settings.

    Args:
        table: For each setting, a list of choices or a table with `low`, `high` and perhaps `log`.
        settings: The other settings, by name.

    Raises:
        OfclError: If a setting is unknown or cannot be searched, or a value is not accepted.
    """
    if not table:
        raise OfclError("[search] is empty; name a setting: lr = {low=1e-4, high=1e-1, log=true}")
    space = [_dimension(name, given) for name, given in table.items()]
    if both := [name for name in table if name in settings]:
        raise OfclError(f"{both[0]} is searched and set; leave it out of one of them")
    for dimension in space:
        for value in dimension.tried():
            try:
                make_settings({**settings, dimension.name: value})
            except OfclError as error:
                raise OfclError(f"search.{dimension.name}: {error}") from None
    return space


def _dimension(name: str, given: Any) -> Dimension:
    """Reads one line of `[search]`.

    Args:
        name: The name of the setting.
        given: Its choices, or its range.
    """
    if name not in Settings.model_fields:
        raise unknown("setting", name, Settings.model_fields)
    if name in FIXED:
        raise OfclError(
            f"search.{name}: it says which data are learned and tested, or where; trials with "
            "other values could not be compared"
        )
    if isinstance(given, list):
        if len(set(map(repr, given))) < 2 or any(isinstance(v, list | dict) for v in given):
            raise OfclError(f"search.{name} = {given}; expected two or more values: [100, 200]")
        return Choices(name, tuple(given))
    if isinstance(given, dict):
        return _range(name, given)
    raise OfclError(
        f"search.{name} = {given!r}; expected choices, [100, 200], or a range, "
        "{low=1e-4, high=1e-1, log=true}. One value alone is an ordinary setting"
    )


def _range(name: str, given: Mapping[str, Any]) -> Range:
    """Reads the range of a setting.

    Args:
        name: The name of the setting.
        given: `low`, `high` and perhaps `log`.
    """
    if not {"low", "high"} <= given.keys() <= {"low", "high", "log"}:
        raise OfclError(f"search.{name} has {', '.join(given)}; expected low, high and maybe log")
    low, high, log = given["low"], given["high"], given.get("log", False)
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise OfclError(f"search.{name}: low and high are {low!r} and {high!r}; expected numbers")
    annotation = Settings.model_fields[name].annotation
    kinds = get_args(annotation) or (annotation,)
    if float not in kinds and int not in kinds:
        raise OfclError(f"search.{name}: its values are no numbers; give a list of choices")
    whole = float not in kinds
    if whole and not (isinstance(low, int) and isinstance(high, int)):
        raise OfclError(f"search.{name}: whole numbers are expected, not {low} and {high}")
    if not low < high:
        raise OfclError(f"search.{name}: low = {low} is not below high = {high}")
    if log and low <= 0:
        raise OfclError(f"search.{name}: log = true needs low above 0, not {low}")
    return Range(name, low if whole else float(low), high if whole else float(high), whole, log)
