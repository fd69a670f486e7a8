"""The library timm, imported with or without torchvision.

timm imports torchvision when it is itself imported, but the networks need none of it. Where
torchvision is missing, or does not fit the installed PyTorch, empty stand-ins take its place while
timm is imported, and are removed again. This is the only module that knows of it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ofcl.errors import OfclError

VISION_EXTRA = "install it with: pip install 'ofcl[vision]'"


@functools.cache
def import_timm() -> Any:
    """Imports timm.

    Raises:
        OfclError: It is not installed.
    """
    if importlib.util.find_spec("timm") is None:
        raise OfclError(f"pretrained networks for images need the package timm; {VISION_EXTRA}")
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):  # RuntimeError: it was built for another PyTorch
        return _import_without_torchvision()
    return importlib.import_module("timm")


def _import_without_torchvision() -> ModuleType:
    """Imports timm while stand-ins take the place of torchvision."""
    finder = _StandIns()
    _forget_torchvision()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("timm")
    finally:
        sys.meta_path.remove(finder)
        _forget_torchvision()


def _forget_torchvision() -> None:
    """Removes all modules of torchvision, so that others do not take stand-ins for the real one."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


class _StandIn(ModuleType):
    """A module in which every name is an empty class."""

    __path__: list[str] = []  # noqa: RUF012 (importlib expects a list)

    def __getattr__(self, name: str) -> type:
        # timm has code of its own for a torchvision without InterpolationMode.
        if name.startswith("__") or name == "InterpolationMode":
            raise AttributeError(name)
        return type(name, (), {})


class _StandIns:
    """Finds a stand-in for torchvision and every module below it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "torchvision":
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
