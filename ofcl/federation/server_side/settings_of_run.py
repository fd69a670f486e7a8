"""The settings of a run between parties: what the organiser may set, and who is there for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ofcl.data.tasks import usual_tasks
from ofcl.errors import OfclError
from ofcl.federation.server_side.agreement import Agreement
from ofcl.federation.setup.folders import Federation
from ofcl.secure_sum.masking import FEWEST
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY, check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State

AT_EACH_PARTY = "at each party"  # stands in the settings for the name of a party's stream


def run_settings(federation: Federation, values: State) -> Settings:
    """Makes the settings of a run between parties.

    Args:
        federation: The federation.
        values: The values of a settings file and of the command line.

    Raises:
        OfclError: If a value is each party's to decide, or does not fit the federation.
    """
    if own := [name for name in values if name in AT_PARTY and name != "device"]:
        raise OfclError(
            f"{own[0]} is decided by each party: ofcl federation client … --set {own[0]}=…; leave "
            "it out of the settings of the run"
        )
    clients = len(federation.parties)
    if values.get("clients", clients) != clients:
        left = (
            f", those that have left included ({len(federation.left)})" if federation.left else ""
        )
        raise OfclError(f"'{federation.name}' has {clients} parties{left}; leave clients out")
    fixed = {"dataset": federation.name, "clients": clients, "engine": "flower"}
    return make_settings(values, fixed)


def settled(settings: Settings, agreement: Agreement) -> Settings:
    """Fills in the settings that depend on the parties' data.

    If parties have streams: a name for each stream, and no dataset. If they have datasets: the
    number of tasks, unless the settings give it.

    Args:
        settings: The settings of the run.
        agreement: The agreement of the run, with the form of the samples and the labels.
    """
    found: dict[str, Any] = {}
    if agreement.samples.way == "stream":
        found["streams"] = (AT_EACH_PARTY,) * settings.clients
        found["dataset"] = Settings.model_fields["dataset"].default  # there is none
    elif "tasks" not in settings.model_fields_set:
        found["tasks"] = min(settings.tasks, usual_tasks(agreement.base))
    settings = settings.model_copy(update=found)
    check_combination(settings)
    return settings


def fewest_parties(settings: Settings, federation: Federation) -> int:
    """Gives `min_clients`, or the number of parties that have not left if that is smaller.

    Args:
        settings: The settings of the run.
        federation: The federation.
    """
    return min(settings.min_clients, _present(settings, federation))


def _present(settings: Settings, federation: Federation) -> int:
    """Counts the parties of the run that have not left the federation."""
    return settings.clients - sum(number < settings.clients for number in federation.gone)


def for_those_present(
    settings: Settings, federation: Federation, tell: Callable[[str], None], *, new: bool
) -> Settings:
    """Lowers `min_clients` and `participation` if parties have left the federation.

    Args:
        settings: The settings of the run.
        federation: The federation.
        tell: Is given a line if `min_clients` is lowered.
        new: Whether the run is new. If too few parties are left for a round, a new run is
            refused with an error, and the user of a resumed one is warned.

    Returns:
        The settings for the server; unchanged if no party has left.
    """
    present, clients = _present(settings, federation), settings.clients
    if settings.secure_aggregation and present < FEWEST:
        raise OfclError(
            f"secure_aggregation needs {FEWEST} parties, and {present} are left: a sum of "
            "fewer would show single updates; begin a run without it, or add parties"
        )
    if present == clients:
        return settings
    fewest = min(settings.min_clients, max(2, present))
    if present < fewest:
        problem = f"{present} party takes part, and min_clients is {settings.min_clients}"
        if new:
            raise OfclError(f"{problem}: no round could ever happen; set min_clients = {present}")
        tell(f"warning: {problem}: no round will happen any more")
    elif fewest < settings.min_clients:
        tell(f"min_clients is {settings.min_clients}; as parties have left, it is {fewest} now")
    share = settings.participation * present / clients  # the server takes it of all parties
    return settings.model_copy(update={"min_clients": fewest, "participation": share})
