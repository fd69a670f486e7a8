"""The workflow of a run at NVFlare's server: one job is one run, or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from ofcl.errors import OfclError
from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.nvflare_app.task_payload import Payload
from ofcl.federation.nvflare_app.task_transport import TaskTransport
from ofcl.federation.server_side.hosted_run import HostedRun, in_words

TASK = "ofcl"  # the name of every task


class JobStopped(OfclError):
    """Raised when NVFlare stops the job before the run is over."""


class RunController(Controller):  # type: ignore[misc]
    """Begins a run, or goes on with the one in its directory (`config_fed_server.json`).

    Args:
        parties: The names of the parties, with commas between them: the names of NVFlare's sites.
        out: The run directory, on the server's machine.
        settings: The settings of the run that are not the usual ones.
    """

    def __init__(self, parties: str, out: str, settings: dict[str, Any]) -> None:
        super().__init__()
        self._parties, self._out, self._settings = parties, out, settings

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Does nothing: what can go wrong is said by `control_flow`."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Lets the parties learn until their data have ended.

        Args:
            abort_signal: Is triggered when the job is stopped.
            fl_ctx: NVFlare's context.
        """
        try:
            self._learn(abort_signal, fl_ctx)
        except JobStopped as stopped:
            self.log_info(fl_ctx, str(stopped))
        except OfclError as error:
            self.system_panic(str(error), fl_ctx)

    def _learn(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Opens the run and goes through its events, which are recorded in its directory."""

        def tell(line: str) -> None:
            self.log_info(fl_ctx, line)

        asked = HostedRun.of("nvflare", self._parties, self._out, self._settings)
        sites = ControllerSites(self, abort_signal, fl_ctx)
        stage = asked.stage(TaskTransport(sites, asked.parties), "submit the job again")
        if asked.begun:
            run = Run.resume(asked.out, stage=stage, tell=tell)
        else:
            run = Run(asked.settings, out=asked.out, stage=stage, tell=tell)
        try:
            for event in run:
                if isinstance(event, Round):
                    tell(f"round {event.round}: {len(event.clients)} parties")
            result = run.result()
        finally:
            run.close()
        tell(in_words(result, asked.out))

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Does nothing: an answer to a task that has been given up is asked for again.

        Args:
            client: The site.
            task_name: The name of the task.
            client_task_id: NVFlare's number of the task.
            result: The answer.
            fl_ctx: NVFlare's context.
        """

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Takes back the tasks that nobody has answered.

        Args:
            fl_ctx: NVFlare's context.
        """
        self.cancel_all_tasks(fl_ctx=fl_ctx)


class ControllerSites:
    """The sites of a job, as a controller reaches them (`task_transport.Sites`).

    Args:
        controller: The controller.
        abort_signal: Is triggered when the job is stopped.
        fl_ctx: NVFlare's context.
    """

    def __init__(self, controller: Controller, abort_signal: Signal, fl_ctx: FLContext) -> None:
        self._controller, self._abort_signal, self._fl_ctx = controller, abort_signal, fl_ctx

    def check(self) -> None:
        """Looks whether the job goes on.

        Raises:
            JobStopped: If NVFlare has stopped it.
        """
        if self._abort_signal.triggered:
            raise JobStopped("the job is stopped; submitted again, the run goes on")

    def present(self) -> Collection[str]:
        """Names the sites at which the job has a process now."""
        names = [client.name for client in self._fl_ctx.get_engine().get_clients()]
        return [name for name in names if not self._controller.get_client_disconnect_time(name)]

    def ask(self, site: str, payload: Payload, answered: Callable[[Payload | None], None]) -> None:
        """Gives a site a task.

        Args:
            site: The name of the site.
            payload: What the task carries.
            answered: Is called, in any thread, with what the site answers; None: it could not.
        """

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            result, client_task.result = client_task.result, None  # it may be large
            fine = result is not None and result.get_return_code() == ReturnCode.OK
            answered(result if fine else None)

        task = Task(TASK, Shareable(payload), result_received_cb=received)
        self._controller.send(task, self._fl_ctx, targets=[site])
