"""The version of the package."""

__version__ = "0.2.0"


def agrees(other: str, own: str = __version__) -> bool:
    """Tells whether another version speaks as this one does: the first two numbers are the same.

    Args:
        other: The other version; "": one of the time before versions were told, which does.
        own: This version.

    >>> agrees("0.2.9", "0.2.0"), agrees("0.3.0", "0.2.0"), agrees("", "0.2.0")
    (True, False, True)
    """
    return not other or other.split(".")[:2] == own.split(".")[:2]
