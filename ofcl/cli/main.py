"""The command line: assembles the commands, each in a module of its own, and runs them."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import torch
import typer

from ofcl.cli import data_commands, federation_commands, memory_commands
from ofcl.cli.bench_command import bench
from ofcl.cli.compare_command import compare
from ofcl.cli.demo_command import demo
from ofcl.cli.evaluate_command import evaluate
from ofcl.cli.export_command import export
from ofcl.cli.list_command import list_
from ofcl.cli.logs import log_to_terminal
from ofcl.cli.new_command import new
from ofcl.cli.predict_command import predict
from ofcl.cli.report_command import report
from ofcl.cli.reproduce_command import reproduce
from ofcl.cli.run_command import resume, run
from ofcl.cli.serve_command import serve_model
from ofcl.cli.show_command import show
from ofcl.cli.sweep_command import sweep
from ofcl.cli.terminal import say, say_error
from ofcl.errors import OfclError
from ofcl.experiment import Interrupted
from ofcl.version import __version__

SMALLER = (
    "Use --set recompute=true with a pretrained model, or a smaller backbone_side, batch_size or "
    "width; or --device cpu"
)

app = typer.Typer(
    help="Online federated continual learning: several parties learn together from data that "
    "arrive once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(data_commands.app, name="data", no_args_is_help=True)
app.add_typer(memory_commands.app, name="memory", no_args_is_help=True)
app.add_typer(federation_commands.app, name="federation", no_args_is_help=True)
app.command()(bench)
app.command()(report)
app.command()(reproduce)
app.command()(run)
app.command()(sweep)
app.command()(resume)
app.command()(compare)
app.command()(predict)
app.command()(evaluate)
app.command()(show)
app.command("serve")(serve_model)
app.command("list")(list_)
app.command()(new)
app.command()(demo)
app.command()(export)


@app.callback(invoke_without_command=True)
def itself(
    context: typer.Context,
    wanted: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log as lines of JSON, as OFCL_LOG=json does.")
    ] = False,
) -> None:
    """Options of ofcl itself."""
    log_to_terminal(as_json=log_json)
    if wanted:
        print(f"ofcl {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line; a user's mistake prints one line and exits with 2, no traceback."""
    log_to_terminal()
    try:
        app()
    except Interrupted as stop:
        say(str(stop))
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # of `… | head`, which has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OfclError as error:
        say_error(" ".join(str(error).splitlines()))
        sys.exit(2)
    except torch.OutOfMemoryError as error:
        say_error(f"the GPU's memory is too small: {str(error).splitlines()[0]} {SMALLER}")
        sys.exit(2)


if __name__ == "__main__":
    main()
