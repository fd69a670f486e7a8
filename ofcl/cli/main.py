"""The command line: `ofcl run`, `resume`, `compare`, `report`, `reproduce` and others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.assembly.dealing import Loader
from ofcl.cli import data_commands, federation_commands, memory_commands
from ofcl.cli.bench_command import bench
from ofcl.cli.progress import track as track_progress
from ofcl.cli.report_command import report
from ofcl.cli.reproduce_command import reproduce
from ofcl.cli.run_loop import complete, drive
from ofcl.cli.show import comparison_table, print_result
from ofcl.cli.terminal import err_console, out_console, say, warn
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import OfclError, unknown
from ofcl.evaluation.results import Result
from ofcl.experiment import Interrupted, Run
from ofcl.methods import METHODS
from ofcl.models import MODELS
from ofcl.report.comparison import compare as compare_runs
from ofcl.report.trackers import TRACKERS, check_trackers
from ofcl.settings import files as settings_files
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory
from ofcl.version import __version__

app = typer.Typer(
    help="Online federated continual learning: several parties learn together from data that "
    "arrive once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_commands.app, name="data", no_args_is_help=True)
app.add_typer(memory_commands.app, name="memory", no_args_is_help=True)
app.add_typer(federation_commands.app, name="federation", no_args_is_help=True)
app.command()(bench)
app.command()(report)
app.command()(reproduce)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Track = Annotated[
    list[str] | None,
    typer.Option(help=f"Log to a tracker: {', '.join(TRACKERS)}; may be repeated."),
]


@app.command()
def run(
    settings: Annotated[
        str | None, typer.Argument(help="A settings file, or a preset's name (ofcl list protocols)")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A name (ofcl data list), or a path.")] = None,
    method: Annotated[
        str | None, typer.Option(help="How clients learn (ofcl list methods).")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="bottom or top: which uncertainty stays.")
    ] = None,
    aggregation: Annotated[
        str | None, typer.Option(help="fedavg, weighted, fedprox, trimmed-mean or median.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="strong (default), sound or published.")
    ] = None,
    memory: Annotated[int | None, typer.Option(help="Samples a client remembers.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks.")] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="All tasks at once: a bound that compare prints.")
    ] = False,
    data_root: Annotated[
        str | None,
        typer.Option(help="Folder of the named datasets; default: OFCL_DATA or a cache."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Own table: column of the labels.")] = None,
    text: Annotated[str | None, typer.Option(help="Own table: column of the texts.")] = None,
    image_size: Annotated[int | None, typer.Option(help="Own images: side in pixels.")] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Texts: e5-small-v2, minilm, or a model's name or folder.")
    ] = None,
    on_bad: Annotated[
        str | None, typer.Option(help="stop or skip: samples that cannot be read.")
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(help="Instead of a dataset, one a client: watch:FOLDER, or - (JSONL)."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Streams: column that says the task.")] = None,
    test: Annotated[str | None, typer.Option(help="Streams: a file or folder to test on.")] = None,
    idle: Annotated[
        float | None, typer.Option(help="Watched folders end after so many quiet seconds.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything drawn.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Several runs one after the other: 0,1,2.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="local, or flower-sim: Flower's simulation (Ray).")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most N mini-batches per client and task: a quick try.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; default: a new one in runs/.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any setting as key=value; may be repeated (ofcl list settings)."
        ),
    ] = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an experiment; everything is saved, and a stopped run can be resumed."""
    named = {
        "dataset": dataset, "method": method, "keep": keep, "aggregation": aggregation,
        "protocol": protocol, "memory": memory, "clients": clients, "tasks": tasks, "seed": seed,
        "device": device, "limit": limit, "data_root": data_root, "label": label, "text": text,
        "image_size": image_size, "embedder": embedder, "on_bad": on_bad, "task": task,
        "test": test, "idle": idle, "streams": stream or None, "engine": engine,
        "joint": joint or None,
    }  # fmt: skip
    made = make_settings(
        settings_files.load_settings(settings) if settings else {},
        {name: value for name, value in named.items() if value is not None},
        dict(map(settings_files.parse_override, set_ or [])),
    )
    check_trackers(track or ())
    if made.streams:
        say(f"waiting for the first sample of {', '.join(made.streams)}")
    if seeds is not None:
        if seed is not None:
            raise OfclError("give --seed or --seeds, not both")
        run_seeds(made, parse_seeds(seeds), out, quiet, as_json, track or ())
        return
    started = Run(made, out=out or default_out(made), load=Loader(track_progress, say))
    tell_result(started, drive(started, quiet or as_json, track or ()), as_json)


@app.command()
def resume(
    directory: Annotated[Path, typer.Argument(help="The directory of a run that was stopped.")],
    device: Annotated[str | None, typer.Option(help="Go on on another device.")] = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed, as if nothing had happened."""
    result = RunDirectory(directory).result()
    if result is not None:
        err_console.print(f"{directory} is finished", highlight=False)
        started = None
    else:
        load = Loader(track_progress, say)
        started = Run.resume(directory, device=device, tell=warn, load=load)
        result = drive(started, quiet or as_json, track or ())
    tell_result(started, result, as_json)


@app.command()
def compare(
    directories: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    as_json: Json = False,
) -> None:
    """Put runs side by side: a table of A and F, mean ± std over seeds."""
    lines, unfinished = compare_runs(directories)
    for path in unfinished:
        warn(f"{path} is not finished: ofcl resume {path}")
    if left_out := sum(line.left_out for line in lines):
        warn(
            f"left out: {left_out} of a seed that was run before, with the same settings and "
            "another result (other data? a GPU?); the last one in the order of names counts"
        )
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
    elif lines:
        out_console.print(comparison_table(lines))


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="datasets, methods, protocols, models or settings")],
) -> None:
    """List what can be chosen by name."""
    tables = {
        "datasets": lambda: {n: source.summary for n, source in DATASETS.items()},
        "methods": lambda: {name: method.summary for name, method in METHODS.items()},
        "protocols": lambda: {name: _preset_summary(name) for name in settings_files.presets()},
        "models": lambda: {name: model.summary for name, model in MODELS.items()},
        "settings": _settings_help,
    }
    if what not in tables:
        raise unknown("list", what, tables)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, summary in tables[what]().items():
        table.add_row(name, summary)
    out_console.print(table, highlight=False)


@app.command()
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
    lines, _ = compare_runs([folder])
    out_console.print(comparison_table(lines))
    out_console.print(
        "\nNext, for example (with .venv/bin on the path: source .venv/bin/activate):\n"
        "  ofcl run demo --method bi --keep top --seed 1\n"
        "  ofcl run demo --method loss --set label_noise=0.2\n"
        "  ofcl compare runs\n"
        "  ofcl list settings",
        highlight=False,
        soft_wrap=True,
    )


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Options of ofcl itself."""
    if show:
        print(f"ofcl {__version__}")
        raise typer.Exit


def parse_seeds(text: str) -> list[int]:
    """Reads a list of seeds from a text such as `0,1,2`; a seed that comes twice counts once.

    Args:
        text: The text, as it was typed.

    Raises:
        OfclError: If the text is not a list of numbers.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise OfclError(f"seeds = '{text}'; expected numbers with commas between them: 0,1,2")
    return list(dict.fromkeys(map(int, parts)))


def run_seeds(
    settings: Settings,
    seeds: list[int],
    out: Path | None,
    quiet: bool,
    as_json: bool,
    track: Sequence[str] = (),
) -> None:
    """Runs an experiment with several seeds, and prints their mean.

    The dataset is read once. Called again with the same folder, it goes on where it was stopped.

    Args:
        settings: The settings of the runs; their seed is replaced.
        seeds: The seeds.
        out: The folder of the runs, which get a directory each; None: a new folder.
        quiet: Whether to show no progress.
        as_json: Whether to print the results as JSON.
        track: The names of trackers to which every run is logged.
    """
    if settings.streams:
        raise OfclError("a stream comes once, for one seed: use --seed")
    folder, load = out or default_out(settings, "seeds"), Loader(track_progress, say)
    for seed in seeds:
        chosen = settings.model_copy(update={"seed": seed})
        complete(folder / f"seed{seed}", chosen, load, quiet or as_json, track)
    lines, _ = compare_runs([folder / f"seed{seed}" for seed in seeds])
    if as_json:
        print(json.dumps({"directory": str(folder), "lines": [asdict(line) for line in lines]}))
        return
    out_console.print(comparison_table(lines))
    out_console.print(f"saved in {folder}", highlight=False, soft_wrap=True, markup=False)


def tell_result(started: Run | None, result: Result, as_json: bool) -> None:
    """Prints the result of a run, what its privacy costs, and where it is saved.

    Args:
        started: The run; None: it was finished before, and its result was only read.
        result: The result.
        as_json: Whether to print JSON.
    """
    directory = started.directory if started else None
    if as_json:
        where: dict[str, Any] = {"directory": str(directory.path)} if directory else {}
        private = {"epsilon": started.epsilon()} if started else {}
        print(json.dumps({**where, **result.to_json(), **private}))
        return
    print_result(out_console, result)
    if started is not None and (cost := started.epsilon()) is not None:
        told = f"ε {cost:.2f} at δ {started.settings.dp_delta:g}"
        out_console.print(f"privacy: what each client sent, {told}", highlight=False)
    if directory is not None:
        saved = f"saved in {directory.path}"
        out_console.print(saved, highlight=False, soft_wrap=True, markup=False)


def default_out(settings: Settings, of: str | None = None) -> Path:
    """Names a directory in `runs/` that does not exist yet, by data, method, seed and time.

    Args:
        settings: The settings of the run.
        of: A word that stands in the name instead of the seed; None: the seed stands there.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    data = "stream" if settings.streams else Path(settings.dataset).name.split(".")[0]
    method = f"{settings.method}-joint" if settings.joint else settings.method
    name = f"{data}-{method}-{of or f'seed{settings.seed}'}-{stamp}"
    path, again = Path("runs") / name, 1
    while path.exists():
        path, again = Path("runs") / f"{name}-{again}", again + 1
    return path


def _preset_summary(name: str) -> str:
    """Lists the values of a preset in one line."""
    values = settings_files.preset(name)
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _settings_help() -> dict[str, str]:
    """Gives a line of help for each setting, with its default, by the setting's name."""
    return {
        name: f"{field.description} (default {field.default!r})"
        for name, field in Settings.model_fields.items()
    }


def main() -> None:
    """Runs the command line; a user's mistake prints one line and exits with 2, no traceback."""
    try:
        app()
    except Interrupted as stop:
        err_console.print(str(stop), highlight=False, soft_wrap=True)
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except OfclError as error:
        say(f"error: {' '.join(str(error).splitlines())}")
        sys.exit(2)


if __name__ == "__main__":
    main()
