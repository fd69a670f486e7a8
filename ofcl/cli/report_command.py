"""`ofcl report`: shows runs as a page, as figures and as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ofcl.cli.terminal import out_console, say
from ofcl.errors import OfclError
from ofcl.report import follow as following
from ofcl.report.page import DRAWN, SAMPLES, Report, as_html, make_report, save_figures


def report(
    directories: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(help="Also save the figures (SVG, PDF) and tables (LaTeX, Markdown, CSV)."),
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Shown of each memory, at most.")] = SAMPLES,
    drawn: Annotated[
        int, typer.Option(min=0, help="Runs with figures and memories, at most; others: numbers.")
    ] = DRAWN,
    follow: Annotated[
        bool, typer.Option("--follow", help="Serve it to this machine, with news as they come.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="For --follow; 0: any that is free.")
    ] = 0,
) -> None:
    """Make one page of runs, finished or not: accuracy, forgetting, memories, communication."""
    if follow:
        if figures is not None:
            raise OfclError("--figures is for a page that is saved; --follow saves nothing")
        _follow(directories, samples, drawn, port)
        return
    content = make_report(directories, samples, drawn)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(as_html(content), encoding="utf-8")
        paths = save_figures(content, figures) if figures is not None else []
    except OSError as error:
        raise OfclError(f"the report cannot be written: {error}") from None
    out_console.print(str(out), highlight=False, soft_wrap=True, markup=False)
    if paths:
        say(f"{len(paths)} files in {figures}")
    _say_what_is_not_drawn(content)


def _say_what_is_not_drawn(content: Report) -> None:
    """Says how many runs are on the page without figures, and how to see them."""
    all_runs = len(content.runs)
    drawn = sum(run.drawn for run in content.runs)
    if drawn < all_runs:
        say(f"{drawn} of {all_runs} runs have figures and memories, the others their accuracies: "
            f"--drawn {all_runs} draws all")  # fmt: skip


def _follow(directories: list[Path], samples: int, drawn: int, port: int) -> None:
    """Serves the page to this machine and keeps it up to date, until Ctrl-C.

    Args:
        directories: Run directories, or folders of them.
        samples: How many samples of each memory are shown, at most.
        drawn: How many runs have figures and memories, at most.
        port: The port to listen on; 0: any that is free.
    """
    follower = following.Follower(
        directories, lambda: as_html(make_report(directories, samples, drawn), live=True)
    )
    follower.page()  # raises errors about the directories here, not in a browser
    try:
        server = following.serve(follower, port)
    except OSError as error:
        raise OfclError(f"port {port} cannot be used: {error}") from None
    host, chosen = server.server_address[:2]
    out_console.print(f"http://{host!s}:{chosen}/ (Ctrl-C ends it)", highlight=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("ended")
    finally:
        server.server_close()
