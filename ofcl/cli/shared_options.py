"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from ofcl.report.trackers import TRACKERS

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(help="Import this code, module:name, which the files name; may be repeated."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help=f"Log to a tracker: {', '.join(TRACKERS)}; may be repeated."),
]
