"""Settings files (TOML): reading and writing them, and the presets of the package."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w

from ofcl.errors import OfclError, unknown

VERSION = 1
"""The version of the settings file; a file of another version is refused."""

PROTOCOLS = ("strong", "sound", "published")
"""The presets that are protocols: a run starts from the values of one of them."""


BEFORE = {"features": "unit"}
"""Values that runs had before these settings came, where the default is another one."""


def preset(name: str) -> dict[str, Any]:
    """Reads a settings file of the package.

    Args:
        name: The name of the preset, one of `presets()`.

    Returns:
        The values by the setting's name; of a protocol, its own name as `protocol` too.

    Raises:
        OfclError: If there is no such preset.

    >>> preset("published")["mixing"]
    0.5
    """
    path = files("ofcl.settings").joinpath("presets", f"{name}.toml")
    if name not in presets():
        raise unknown("preset", name, presets())
    values = _parse(path.read_text(encoding="utf-8"), f"preset {name}")
    return {"protocol": name, **values} if name in PROTOCOLS else values


def dataset_preset(dataset: str, protocol: str) -> dict[str, Any]:
    """Reads the values that the paper sets for one of its datasets.

    Args:
        dataset: The name of the dataset.
        protocol: The name of the protocol, as some values differ between protocols.

    Returns:
        The values by the setting's name; empty for a dataset that is not in the paper.

    >>> dataset_preset("crc-tissue", "published")["drop_class"]
    'last'
    """
    path = files("ofcl.settings").joinpath("datasets.toml")
    values = _parse(path.read_text(encoding="utf-8"), "settings/datasets.toml").get(dataset, {})
    in_both = {name: value for name, value in values.items() if name not in PROTOCOLS}
    return {**in_both, **values.get(protocol, {})}


def presets() -> list[str]:
    """Names the settings files of the package."""
    folder = files("ofcl.settings").joinpath("presets")
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith("toml"))


def load_settings(path: str | Path) -> dict[str, Any]:
    """Reads a settings file, or a preset of the package when no such file exists.

    Args:
        path: The path of the file, or the name of a preset.

    Returns:
        The values by the setting's name. For a protocol this is only `protocol`, so that the values
        that the paper sets for a dataset still override the protocol's.

    Raises:
        OfclError: If there is no such file, or it cannot be read as a settings file.
    """
    if not Path(path).exists() and str(path) in presets():
        return {"protocol": str(path)} if str(path) in PROTOCOLS else preset(str(path))
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise OfclError(
            f"no settings file '{path}', and no preset of that name ({', '.join(presets())})"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise OfclError(f"settings file '{path}' cannot be read: {error}") from None
    values = _parse(text, f"settings file '{path}'")
    version = values.pop("version", VERSION)
    if version != VERSION:
        raise OfclError(
            f"settings file '{path}' is of version {version}; this ofcl reads version {VERSION}. "
            "Use the ofcl that wrote it, or write the settings anew"
        )
    if "made_with" in values:  # of a run, which names all settings that there were
        values = {**BEFORE, **values}
    # A run adds these to its settings file for readers; they are not settings.
    for name in ("made_with", "labels", "form", "fingerprint", "went_on", "parts"):
        values.pop(name, None)
    return values


def parse_override(text: str) -> tuple[str, Any]:
    """Reads one `key=value` of the command line; a value that is not TOML is a string.

    Args:
        text: The argument, as it was typed.

    Returns:
        The name of the setting, and its value.

    >>> parse_override("lr=0.01"), parse_override("model=mlp")
    (('lr', 0.01), ('model', 'mlp'))
    """
    key, equals, value = text.partition("=")
    key = key.strip().replace("-", "_")
    if not equals or not key:
        raise OfclError(f"'{text}' is not a setting; write it as key=value, e.g. batch_size=20")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value.strip()


def to_toml(values: dict[str, Any]) -> str:
    """Writes values as TOML.

    Args:
        values: Plain values, and dictionaries of them, which become tables; None is left out.

    >>> print(to_toml({"lr": 0.1, "limit": None, "made_with": {"torch": "2"}}))
    lr = 0.1
    <BLANKLINE>
    [made_with]
    torch = "2"
    <BLANKLINE>
    """
    return tomli_w.dumps(_without_none(values))


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what is None, also in tables: TOML has no word for it."""
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }


def _parse(text: str, source: str) -> dict[str, Any]:
    """Reads TOML.

    Args:
        text: The TOML.
        source: The name of its file, for the error.

    Raises:
        OfclError: If the text is not valid TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OfclError(f"{source} is not valid TOML: {error}") from None
