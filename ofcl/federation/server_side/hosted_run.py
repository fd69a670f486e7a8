"""A run on somebody's own network: its parties, its settings, its directory, its stage.

Another system, Flower or NVFlare, starts the processes, and says with whom and how to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ofcl.assembly.stages import Hooks, Prepared
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation
from ofcl.federation.transport import Transport
from ofcl.own_parts.permission import code_in
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class HostedRun:
    """A run whose messages another system carries.

    Args:
        network: The name of that system: "flower" or "nvflare".
        parties: The names of the parties; their places are the parties' numbers.
        settings: The settings of the run.
        out: The run directory, on the server's machine.
    """

    network: str
    parties: tuple[str, ...]
    settings: Settings
    out: Path

    @classmethod
    def of(cls, network: str, parties: str, out: str, values: State) -> HostedRun:
        """Checks what a run is to be, as somebody has written it down.

        Args:
            network: The name of the system: "flower" or "nvflare".
            parties: The names of the parties, with commas between them.
            out: The run directory, on the server's machine.
            values: The settings of the run that are not the usual ones.

        Raises:
            OfclError: If a value is missing or cannot be used; the error says which.
        """
        names = tuple(name.strip() for name in parties.split(",") if name)
        if not all(names) or len(set(names)) < max(len(names), 1):
            raise OfclError(
                f"parties = {parties!r}; expected the names of the parties, each once: "
                'parties = "hospital-a,hospital-b"'
            )
        if not out.strip():
            raise OfclError("there is no 'out': name a directory for the run, on this machine")
        if values.get("secure_aggregation"):
            raise OfclError(
                f"secure_aggregation needs the parties' keys, which are not there on {network}; "
                "run it with ofcl federation, or leave it out"
            )
        if network == "nvflare":  # whoever submits a job sends no code; its settings name none
            _refuse_code(values)
        settings = run_settings(_federation(network, names), values)
        return cls(network, names, settings, Path(out.strip()).expanduser().resolve())

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

    def stage(self, transport: Transport, again: str) -> HostedStage:
        """Makes the stage of the run: its clients are the parties that the system reaches.

        Args:
            transport: Carries messages to the parties.
            again: The command that resumes the run when it has been stopped.
        """
        return HostedStage(_federation(self.network, self.parties), transport, again)


def _refuse_code(values: State) -> None:
    """Raises an error if a job's settings name code, or a run, at the server's machine.

    Args:
        values: The settings that have come with the job.
    """
    named = {**code_in(values), **({"start": values["start"]} if values.get("start") else {})}
    for setting, name in named.items():
        raise OfclError(
            f"the job's settings have {setting} = {name!r}, which would be read and run at the "
            "server; a job cannot ask for that. Install the part at the server and at the sites "
            "as a plug-in (docs/parts.md), and name it as it is installed"
        )


def in_words(result: Result, out: Path) -> str:
    """Describes the result of a run in a line for the log of another system.

    Args:
        result: The result; a run of one task has no F, one without test samples no A.
        out: The run directory.
    """
    numbers = {"A": result.A, "F": result.F}
    known = [f"{name} {value:.1f}" for name, value in numbers.items() if value is not None]
    return f"{', '.join(known) or 'the run is over'}; saved in {out}"


class HostedStage:
    """A stage whose clients are parties that another system reaches.

    Args:
        federation: The parties.
        transport: Carries messages to them.
        again: The command that resumes the run when it has been stopped.
    """

    def __init__(self, federation: Federation, transport: Transport, again: str) -> None:
        self._stage, self._again = FederationStage(federation, Path(), transport), again

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the server, and the engine that asks the parties (`FederationStage.prepare`).

        Args:
            settings: The settings of the run.
            known: The participants' state in the checkpoint of a resumed run; None: a new run.
            hooks: How to wait, to save and to tell the user.
        """
        return self._stage.prepare(settings, known, hooks)

    def resume_command(self, directory: Path) -> str:
        """Gives the command that resumes the stopped run.

        Args:
            directory: The run directory, which the command names already.
        """
        return self._again


def _federation(network: str, parties: tuple[str, ...]) -> Federation:
    """Describes the parties as a federation; their server's address is the system's business."""
    return Federation(network, parties, ("",), 0)
