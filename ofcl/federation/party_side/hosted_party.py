"""A party on somebody's own network, as it is described at its own machine.

Another system, Flower or NVFlare, starts the processes and brings the messages. What is the party's
own to decide is in a configuration that nobody else writes.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from ofcl.errors import OfclError
from ofcl.federation.party_side.kept_models import Keep
from ofcl.federation.party_side.member import Member
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import load_policy
from ofcl.federation.transport import FAILED
from ofcl.state import Flat, State


def printed(line: str) -> None:
    """Prints a line of a party's log.

    Args:
        line: The line.
    """
    print(line, flush=True)


@dataclass(frozen=True)
class HostedParty:
    """A party whose messages another system carries.

    Args:
        network: The name of that system, by which the models that the party keeps are called.
        name: The name of the party.
        folder: The folder of its state, its `policy.toml`, its audit file and its models.
        values: The settings that a party decides for itself: `dataset`, and how it is read.
        share: Whether it learns only the share of the dataset that `ofcl run` would deal to it.
        class_counts: Whether answers may say how many samples of each class there are.
        keep: Which model it keeps: the one that all have learned, or its own.
        local_too: Whether a second learner learns from its data alone, to compare with.
        cross_site: Whether it agrees to cross-site validation in runs that ask for it.
        accept_loss: Whether to go on although the server knows of more than what is saved here.
        log: Is given each line of the party's log; default: it is printed.
    """

    network: str
    name: str
    folder: Path
    values: State
    share: bool = False
    class_counts: bool = True
    keep: Keep = "global"
    local_too: bool = False
    cross_site: bool = False
    accept_loss: bool = False
    log: Callable[[str], None] = printed

    @classmethod
    def of(
        cls,
        network: str,
        config: Mapping[str, Any],
        advice: str,
        log: Callable[[str], None] = printed,
    ) -> HostedParty:
        """Reads a party's configuration.

        Args:
            network: The name of the system: "flower" or "nvflare".
            config: The configuration: `party`, `folder`, `dataset`, perhaps `share`,
                `class-counts`, `keep`, `local-too`, `cross-site` and `accept-loss`; everything else
                is a setting that parties decide for themselves, as `label` or `device`.
            advice: Ends the error that names a missing value: what to write, and where.
            log: Is given each line of the party's log; default: it is printed.

        Raises:
            OfclError: If a value is missing or cannot be used; the error says which.
        """
        rest = dict(config)
        for name in ("party", "folder", "dataset"):
            if not str(rest.get(name, "")).strip():
                raise OfclError(f"the party's configuration has no '{name}': {advice}")
        if rest["dataset"] == "-":
            raise OfclError('standard input cannot be read here; use dataset="watch:FOLDER"')
        if (keep := rest.pop("keep", "global")) not in get_args(Keep):
            raise OfclError(f"keep={keep!r}; expected one of {', '.join(get_args(Keep))}")
        return cls(
            network,
            str(rest.pop("party")),
            Path(str(rest.pop("folder"))).expanduser(),
            share=_truth(rest, "share", False),
            class_counts=_truth(rest, "class-counts", True),
            keep=cast(Keep, keep),
            local_too=_truth(rest, "local-too", False),
            cross_site=_truth(rest, "cross-site", False),
            accept_loss=_truth(rest, "accept-loss", False),
            log=log,
            values=rest,
        )

    def member(self, number: int) -> Member:
        """Opens the party's data and its folder; its state is read when it answers.

        Args:
            number: The number of the party in this run.
        """
        policy, _ = load_policy(self.folder)
        return Member(
            self.folder,
            self.name,
            number,
            open_source(policy.with_parts(self.values), self.share, self.tell),
            class_counts=self.class_counts,
            federation=self.network,
            keep=self.keep,
            local_too=self.local_too,
            cross_site=self.cross_site,
            policy=policy,
            accept_loss=self.accept_loss,
            tell=self.tell,
        )

    def tell(self, line: str) -> None:
        """Adds a line to the party's log, with the time and the party's name.

        Args:
            line: The line.
        """
        self.log(f"{time.strftime('%H:%M:%S')} {self.name}: {line}")

    def failed(self, error: Exception, member: Member | None) -> State | Flat:
        """Notes why the party could not answer: the reason stays in its own log.

        Args:
            error: The error.
            member: The party's member; None: it could not be made.

        Returns:
            The answer that tells the server no more than that there is none.
        """
        known = isinstance(error, OfclError)
        self.tell(f"error: {error}" if known else f"error:\n{traceback.format_exc()}")
        if member is not None:
            member.failed()
        return FAILED


def _truth(config: dict[str, Any], name: str, usual: bool) -> bool:
    """Takes a truth value out of a configuration; the text "false" would count as true.

    Args:
        config: The configuration.
        name: The name of the value.
        usual: The value where there is none.
    """
    value = config.pop(name, usual)
    if not isinstance(value, bool):
        raise OfclError(f"{name} = {value!r}; expected true or false, without quotation marks")
    return value
