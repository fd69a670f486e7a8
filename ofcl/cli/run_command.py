"""`ofcl run` and `ofcl resume`: one run from beginning to end, with its result printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ofcl.assembly.dealing import Loader
from ofcl.assembly.going_on import make_continued
from ofcl.assembly.replaying import read_replay
from ofcl.assembly.stages import LocalStage
from ofcl.assembly.stream_remarks import find_late_files
from ofcl.cli.progress import track as track_progress
from ofcl.cli.run_loop import drive
from ofcl.cli.run_names import default_out
from ofcl.cli.several_runs import Jobs
from ofcl.cli.several_seeds import parse_seeds, run_seeds
from ofcl.cli.shared_options import Allow, Json, Quiet, Track
from ofcl.cli.show import print_result
from ofcl.cli.terminal import err_console, out_console, say, warn
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.experiment import Run
from ofcl.report.trackers import check_trackers
from ofcl.settings import files as settings_files
from ofcl.settings.schema import NAMES, Settings
from ofcl.storage.run_directory import RunDirectory


def _values(setting: str) -> str:
    """Lists the values that a setting may have, for the help of its option: `a, b or c`."""
    *others, last = NAMES.get(setting) or get_args(Settings.model_fields[setting].annotation)
    return f"{', '.join(others)} or {last}"


def run(
    settings: Annotated[
        str | None, typer.Argument(help="A settings file, or a preset's name (ofcl list protocols)")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A name (ofcl data list), or a path.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Go on from an earlier run (its directory) or a model."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="How clients learn (ofcl list methods).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The network (ofcl list models), or module:name.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help=f"{_values('keep')}: which samples stay."),
    ] = None,
    aggregation: Annotated[str | None, typer.Option(help=f"{_values('aggregation')}.")] = None,
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
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Own table: a column to learn from; may be repeated, or a,b,…."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Own table: a column to leave out; may be repeated, or a,b,…."),
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Own images: side in pixels.")] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Texts: e5-small-v2, minilm, or a model's name or folder. Images: "
            "efficientnet-lite0, timm:NAME, hf:NAME."
        ),
    ] = None,
    on_bad: Annotated[
        str | None,
        typer.Option(
            help="Samples that cannot be read: stop, skip, or wait (several watched folders)."
        ),
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
        str | None, typer.Option(help="Several runs, one after the other or --jobs at once: 0,1,2.")
    ] = None,
    jobs: Jobs = 1,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="local, or flower-sim: Flower's simulation (Ray).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Learn at most N mini-batches per client and task: a quick try. Tests are whole: "
            "A stays comparable; --set test_per_class=N makes them smaller."
        ),
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
    replay: Annotated[
        Path | None,
        typer.Option(help="Compute a recorded run of buffered rounds again (its directory)."),
    ] = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an experiment; everything is saved, and a stopped run can be resumed."""
    named = {
        "dataset": dataset, "method": method, "model": model, "keep": keep,
        "aggregation": aggregation, "protocol": protocol, "memory": memory, "clients": clients,
        "tasks": tasks, "seed": seed,
        "device": device, "limit": limit, "data_root": data_root, "label": label, "text": text,
        "image_size": image_size, "columns": ",".join(columns or ()) or None,
        "drop": ",".join(drop or ()) or None,
        "embedder": embedder, "on_bad": on_bad, "task": task,
        "test": test, "idle": idle, "streams": stream or None, "engine": engine,
        "joint": joint or None, "start": start,
    }  # fmt: skip
    stated = {
        **(settings_files.load_settings(settings) if settings else {}),
        **{name: value for name, value in named.items() if value is not None},
        **dict(map(settings_files.parse_override, set_ or [])),
    }
    recorded = read_replay(replay) if replay is not None else None
    if recorded is not None and seeds is not None:
        raise OfclError("--replay computes one recorded run again; leave --seeds out")
    if recorded is not None and recorded.settings.engine == "flower":
        warn("another model comes out if parties added noise to their updates, as they do unless "
             "their policy.toml has update_noise = 0")  # fmt: skip
    made, begun = make_continued(stated if recorded is None else recorded.values(stated))
    check_trackers(track or ())
    if made.streams:
        say(f"waiting for the first sample of {', '.join(made.streams)}")
    if seeds is not None:
        if seed is not None:
            raise OfclError("give --seed or --seeds, not both")
        run_seeds(made, parse_seeds(seeds), out, quiet, as_json, track or (), jobs)
        return
    if jobs > 1:
        raise OfclError(f"--jobs {jobs} is for several runs: --seeds 0,1,2")
    load = Loader(track_progress, say)
    stage = LocalStage(load=load, replay=recorded) if recorded is not None else None
    started = Run(made, out=out or default_out(made), load=load, start=begun, stage=stage, tell=say)
    tell_result(started, drive(started, quiet or as_json, track or ()), as_json)


def resume(
    directory: Annotated[Path, typer.Argument(help="The directory of a run that was stopped.")],
    device: Annotated[str | None, typer.Option(help="Go on on another device.")] = None,
    on_bad: Annotated[
        str | None,
        typer.Option(help="Samples that cannot be read, from now on: stop, skip or wait."),
    ] = None,
    allow: Allow = None,
    ray: Annotated[
        str | None,
        typer.Option(help="The Ray cluster that the run's settings name, or local."),
    ] = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed, as if nothing had happened."""
    result = RunDirectory(directory).result()
    if result is not None:
        err_console.print(f"{directory} is finished", highlight=False)
        for line in find_late_files(RunDirectory(directory)):
            warn(line)
        started = None
    else:
        load = Loader(track_progress, say)
        started = Run.resume(
            directory,
            device=device,
            on_bad=on_bad,
            tell=warn,
            load=load,
            allow=allow or (),
            ray=ray,
        )
        result = drive(started, quiet or as_json, track or ())
    tell_result(started, result, as_json)


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
        spent = f"ε {cost:.2f} at δ {started.settings.dp_delta:g}"
        out_console.print(f"privacy: what each client sent, {spent}", highlight=False)
    if directory is not None:
        saved = f"saved in {directory.path}"
        out_console.print(saved, highlight=False, soft_wrap=True, markup=False)
