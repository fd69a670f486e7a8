"""Answers a run's messages at a SuperNode, as Flower's `ClientApp`.

Flower starts a new process for every message. So nothing is kept in memory: the client, its memory
and its last answer are in the party's folder (`engines/responder.py`), which the node's own
configuration names. A process that is killed loses nothing, and a message that comes twice is
learned once.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from ofcl.engines.flower.records import as_records, check_flower, from_records
from ofcl.errors import OfclError
from ofcl.federation.flower_app.grid_transport import FAILED
from ofcl.federation.party_side.kept_models import Keep
from ofcl.federation.party_side.member import Member
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import load_policy
from ofcl.state import Flat, State
from ofcl.storage.locks import wait_for_lock

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

FEDERATION = "flower"  # the name by which the models that a party keeps are called
EXAMPLE = '--node-config \'party="hospital-a" folder="/srv/ofcl" dataset="data.csv"\''


@dataclass(frozen=True)
class NodeParty:
    """A party as the configuration of its SuperNode describes it.

    Args:
        name: The name of the party.
        folder: The folder of its state, its `policy.toml`, its audit file and its models.
        values: The settings that a party decides for itself: `dataset`, and how it is read.
        share: Whether it learns only the share of the dataset that `ofcl run` would deal to it.
        class_counts: Whether answers may say how many samples of each class there are.
        keep: Which model it keeps: the one that all have learned, or its own.
        local_too: Whether a second learner learns from its data alone, to compare with.
        cross_site: Whether it agrees to cross-site validation in runs that ask for it.
        accept_loss: Whether to go on although the server knows of more than what is saved here.
    """

    name: str
    folder: Path
    values: State
    share: bool = False
    class_counts: bool = True
    keep: Keep = "global"
    local_too: bool = False
    cross_site: bool = False
    accept_loss: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> NodeParty:
        """Reads a node's configuration (`flower-supernode --node-config`).

        Args:
            config: The configuration: `party`, `folder`, `dataset`, perhaps `share`,
                `class-counts`, `keep`, `local-too`, `cross-site` and `accept-loss`; everything else
                is a setting that parties decide for themselves, as `label` or `device`.

        Raises:
            OfclError: If a value is missing or cannot be used; the error says which.
        """
        rest = dict(config)
        rest.pop("partition-id", None), rest.pop("num-partitions", None)  # Flower's own
        for name in ("party", "folder", "dataset"):
            if not str(rest.get(name, "")).strip():
                raise OfclError(
                    f"the node's configuration has no '{name}': start it with {EXAMPLE}"
                )
        if rest["dataset"] == "-":
            raise OfclError('a node cannot read standard input; use dataset="watch:FOLDER"')
        if (keep := rest.pop("keep", "global")) not in get_args(Keep):
            raise OfclError(f"keep={keep!r}; expected one of {', '.join(get_args(Keep))}")
        return cls(
            str(rest.pop("party")),
            Path(str(rest.pop("folder"))).expanduser(),
            share=bool(rest.pop("share", False)),
            class_counts=bool(rest.pop("class-counts", True)),
            keep=cast(Keep, keep),
            local_too=bool(rest.pop("local-too", False)),
            cross_site=bool(rest.pop("cross-site", False)),
            accept_loss=bool(rest.pop("accept-loss", False)),
            values=rest,
        )

    def answer(self, message: State) -> State | Flat:
        """Answers a message; one process at a time does so in the party's folder.

        Args:
            message: The party's number in this run, and the server's message.

        Returns:
            The answer. If there is none, `FAILED`: the reason stays in the node's own log.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with wait_for_lock(self.folder / "lock"):
            member = None
            try:
                member = self._member(int(message["number"]))
                return member.answer(message["content"])
            except Exception as error:
                self.tell(f"error: {error}" if isinstance(error, OfclError) else _trace())
                if member is not None:
                    member.failed()
                return FAILED

    def _member(self, number: int) -> Member:
        """Opens the party's data and its folder; its state is read when it answers."""
        policy, _ = load_policy(self.folder)
        return Member(
            self.folder,
            self.name,
            number,
            open_source(self.values, self.share, self.tell),
            class_counts=self.class_counts,
            federation=FEDERATION,
            keep=self.keep,
            local_too=self.local_too,
            cross_site=self.cross_site,
            policy=policy,
            accept_loss=self.accept_loss,
            tell=self.tell,
        )

    def tell(self, line: str) -> None:
        """Prints a line to the node's log.

        Args:
            line: The line.
        """
        print(f"{time.strftime('%H:%M:%S')} {self.name}: {line}", flush=True)


def _trace() -> str:
    """Describes an error that is not the user's: where it was raised."""
    return f"error:\n{traceback.format_exc()}"


def make_client_app(read: Callable[[Mapping[str, Any]], NodeParty] = NodeParty.of) -> ClientApp:
    """Makes the app that answers a run's messages at a SuperNode.

    Args:
        read: Reads the node's configuration.
    """
    check_flower()
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query("who")
    def who(message: Message, context: Context) -> Message:
        name = read(context.node_config).name
        return Message(as_records({"party": name}), reply_to=message)

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        reply = read(context.node_config).answer(from_records(message.content))
        return Message(as_records(reply), reply_to=message)

    return app
