"""A run as `flwr run` describes it: its parties, its settings, its directory, its stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ofcl.assembly.stages import Hooks, Prepared
from ofcl.errors import OfclError
from ofcl.federation.flower_app.grid_transport import GridTransport
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from flwr.serverapp import Grid

SETTINGS = "settings."  # before the name of each of ofcl's settings in the run's configuration


@dataclass(frozen=True)
class AppRun:
    """A run on somebody's SuperLink.

    Args:
        parties: The names of the parties; their places are the parties' numbers.
        settings: The settings of the run.
        out: The run directory, on the SuperLink's machine.
    """

    parties: tuple[str, ...]
    settings: Settings
    out: Path

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AppRun:
        """Reads a run's configuration (`[tool.flwr.app.config]`, `flwr run --run-config`).

        Args:
            config: The configuration: `parties`, `out`, and `settings.NAME` for each setting. An
                empty text stands for the usual value.

        Raises:
            OfclError: If a value is missing or cannot be used; the error says which.
        """
        names = tuple(name.strip() for name in str(config.get("parties", "")).split(",") if name)
        if not all(names) or len(set(names)) < max(len(names), 1):
            raise OfclError(
                f"parties = {config.get('parties', '')!r}; expected the names of the nodes' "
                'parties, each once: parties = "hospital-a,hospital-b"'
            )
        if not (out := str(config.get("out", "")).strip()):
            raise OfclError("there is no 'out': name a directory for the run, on this machine")
        values = {
            name.removeprefix(SETTINGS): value
            for name, value in config.items()
            if name.startswith(SETTINGS) and value != ""
        }
        if values.get("secure_aggregation"):
            raise OfclError(
                "secure_aggregation needs the parties' keys, which a Flower app has not; run it "
                "with ofcl federation, or leave it out"
            )
        settings = run_settings(_federation(names), values)
        return cls(names, settings, Path(out).expanduser().resolve())

    @property
    def begun(self) -> bool:
        """Whether the directory has a run that was stopped or killed, and can go on.

        Raises:
            OfclError: If the run in the directory is finished.
        """
        directory = RunDirectory(self.out)
        if not directory.started():
            return False
        if directory.result() is not None:
            raise OfclError(f"the run in '{self.out}' is finished; name another directory: out")
        return True

    def stage(self, grid: Grid, tell: Callable[[str], None] = print) -> AppStage:
        """Makes the stage of the run: its clients are the nodes of a SuperLink.

        Args:
            grid: Flower's grid.
            tell: Is given each line for the user.
        """
        return AppStage(self.parties, GridTransport(grid, self.parties, tell))


class AppStage:
    """A stage whose clients are the nodes of a SuperLink.

    Args:
        parties: The names of the parties.
        transport: Carries messages to them.
    """

    def __init__(self, parties: tuple[str, ...], transport: GridTransport) -> None:
        self._stage = FederationStage(_federation(parties), Path(), transport)

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the server, and the engine that asks the nodes (`FederationStage.prepare`).

        Args:
            settings: The settings of the run.
            known: The participants' state in the checkpoint of a resumed run; None: a new run.
            hooks: How to wait, to save and to tell the user.
        """
        return self._stage.prepare(settings, known, hooks)

    def resume_command(self, directory: Path) -> str:
        """Gives the command that resumes the stopped run.

        Args:
            directory: The run directory.
        """
        return f"flwr run … --run-config 'out=\"{directory}\"'"


def _federation(parties: tuple[str, ...]) -> Federation:
    """Describes the parties as a federation; their server's address is Flower's business."""
    return Federation("flower", parties, ("",), 0)
