"""An extension of Griffe: examples in docstrings (`>>>`) are shown as code.

Google's style knows examples in a section of their own only; ours stand where they explain
something. What an example prints must not be read as text with links.
"""

import griffe


def fenced(text):
    """Puts fences around the examples of a docstring.

    Args:
        text: The docstring.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nEnd."))
    Adds.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    End.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```python\n{paragraph.strip(chr(10))}\n```"
        if paragraph.strip().startswith(">>>")
        else paragraph
        for paragraph in paragraphs
    )


class FencedDoctests(griffe.Extension):
    """Rewrites every docstring that is shown."""

    def on_object(self, *, obj, **_):
        """Fences the examples of one object's docstring."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
