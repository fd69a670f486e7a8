"""Imports timm, for a process of which others are forked that need it."""

from importlib.util import find_spec

from ofcl.pretrained.timm_library import import_timm

if find_spec("timm") is not None:
    import_timm()
