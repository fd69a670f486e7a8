"""A run as `flwr run` describes it: its configuration, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ofcl.federation.flower_app.grid_transport import GridTransport
from ofcl.federation.server_side.hosted_run import HostedRun, HostedStage

if TYPE_CHECKING:
    from flwr.serverapp import Grid

SETTINGS = "settings."  # before the name of each of ofcl's settings in the run's configuration


def read_run(config: Mapping[str, Any]) -> HostedRun:
    """Reads a run's configuration (`[tool.flwr.app.config]`, `flwr run --run-config`).

    Args:
        config: The configuration: `parties`, `out`, and `settings.NAME` for each setting. An
            empty text stands for the usual value.

    Raises:
        OfclError: If a value is missing or cannot be used; the error says which.
    """
    values = {
        name.removeprefix(SETTINGS): value
        for name, value in config.items()
        if name.startswith(SETTINGS) and value != ""
    }
    parties, out = str(config.get("parties", "")), str(config.get("out", ""))
    return HostedRun.of("flower", parties, out, values)


def make_stage(run: HostedRun, grid: Grid, tell: Callable[[str], None] = print) -> HostedStage:
    """Makes the stage of a run whose clients are the nodes of a SuperLink.

    Args:
        run: The run.
        grid: Flower's grid.
        tell: Is given each line for the user.
    """
    again = f"flwr run … --run-config 'out=\"{run.out}\"'"
    return run.stage(GridTransport(grid, run.parties, tell), again)
