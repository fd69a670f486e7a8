"""`ofcl show`: the card of a model in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ofcl.bundle.description import to_json
from ofcl.bundle.model_card import card
from ofcl.bundle.open_bundle import find_bundle
from ofcl.cli.model_options import KeyFile, Model
from ofcl.cli.terminal import out_console
from ofcl.errors import printable
from ofcl.inference.answer_files import escaped


def show(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print model.json.")] = False,
    key_file: KeyFile = None,
) -> None:
    """Show the card of a model: what it takes and answers, how it was learned."""
    description = find_bundle(Path(model), key_file, allow=None).description
    if as_json:
        print(escaped(to_json(description)), end="")
        return
    # The card is made anew: the file beside the model may say anything.
    text = printable(card(description).split("---\n", 2)[2].strip())
    if not out_console.is_terminal:
        print(text)
        return
    from rich.markdown import Markdown

    out_console.print(Markdown(text, hyperlinks=False))
