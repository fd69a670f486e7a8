"""timm for embedders: the names that `pretrained/timm_library.py` has."""

from ofcl.pretrained.timm_library import VISION_EXTRA, import_timm

__all__ = ["VISION_EXTRA", "import_timm"]
