"""`ofcl demo`: four methods on the embedded images, as a table."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ofcl.assembly.dealing import Loader
from ofcl.cli.run_loop import drive
from ofcl.cli.shared_options import Quiet
from ofcl.cli.show import print_comparison
from ofcl.cli.terminal import err_console, out_console
from ofcl.experiment import Run
from ofcl.report.comparison import compare
from ofcl.settings import files as settings_files
from ofcl.settings.layers import make_settings


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder of the four runs.")] = None,
    quiet: Quiet = False,
) -> None:
    """Four methods on the embedded images, in about a minute: a table to start from."""
    folder = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    load = Loader()
    err_console.print(
        "5 clients, 5 tasks of 2 classes, data that arrive once. What is remembered of old tasks?",
        highlight=False,
    )
    for method in ("none", "er", "cbr", "bi"):
        made = make_settings(settings_files.preset("demo"), {"method": method})
        drive(Run(made, out=folder / method, load=load), quiet)
    lines, _ = compare([folder])
    print_comparison(out_console, lines)
    out_console.print(
        f"\nNext, for example{_first()}:\n"
        "  ofcl run demo --method bi --keep top --seed 1\n"
        "  ofcl run demo --method loss --set label_noise=0.2\n"
        f"  ofcl evaluate {folder / 'cbr'}\n"
        "  ofcl compare runs\n"
        "  ofcl list settings",
        highlight=False,
        soft_wrap=True,
    )


def _first() -> str:
    """Says where `ofcl` is, if the shell does not know it: the demo was called by its path."""
    return "" if shutil.which("ofcl") else f" (with {Path(sys.executable).parent} on the path)"
