"""Image files of one colour."""

from PIL import Image


def paint(path, value, size=(4, 4), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)
