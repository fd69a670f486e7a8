"""The executor of a run at a site of NVFlare: hands tasks to the site's party."""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from ofcl.errors import OfclError
from ofcl.federation.nvflare_app.site_party import SiteParty, read_site
from ofcl.federation.nvflare_app.task_payload import as_payload, from_payload
from ofcl.federation.transport import FAILED

FILE = "ofcl.toml"  # in the folder `local` of the site's workspace
FOLDER = "ofcl"  # in the site's workspace: the party's folder, if the file names none


class SiteExecutor(Executor):  # type: ignore[misc]
    """Answers the tasks of a run (`config_fed_client.json`); it takes no arguments from the job."""

    def __init__(self) -> None:
        super().__init__()
        self._party: SiteParty | None = None

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Lets the party answer a message.

        Args:
            task_name: The name of the task.
            shareable: What the task carries.
            fl_ctx: NVFlare's context.
            abort_signal: Is not looked at: what is learned is saved, whenever the process ends.

        Returns:
            The answer.
        """
        if self._party is None:
            try:
                self._party = self._open(fl_ctx)
            except OfclError as error:
                self.log_error(fl_ctx, f"error: {error}")
                return Shareable(as_payload(FAILED))
        return Shareable(as_payload(self._party.answer(from_payload(shareable))))

    def _open(self, fl_ctx: FLContext) -> SiteParty:
        """Reads the site's own configuration."""
        workspace = fl_ctx.get_engine().get_workspace()
        file = Path(workspace.get_site_config_dir()) / FILE
        folder = Path(workspace.get_root_dir()) / FOLDER
        return SiteParty(read_site(file, fl_ctx.get_identity_name(), folder, self.logger.info))

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Frees the party's folder when the job ends.

        Args:
            event_type: The name of the event.
            fl_ctx: NVFlare's context.
        """
        if event_type == EventType.END_RUN and self._party is not None:
            self._party.close()
            self._party = None
