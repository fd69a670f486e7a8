"""The facts of a federation in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ofcl.inference.watch.server_facts import facts_of_parties

COUNTERS = {"bytes_sent", "bytes_received", "batches", "round", "messages", "failures"}
"""Numbers that only grow while a run goes on; they begin anew with the next run."""

RUN = ("round", "round_seconds", "last_round_seconds", "anytime", "A", "F", "bytes_sent",
       "bytes_received", "epsilon", "seconds")  # fmt: skip
OF_PARTY = ("batches", "classes", "task", "anytime", "A", "F", "waited", "took")
OWN = ("learned", "exchange", "bytes_sent", "bytes_received", "messages", "failures", "epsilon",
       "anytime", "A", "F", "busy", "certificate_days")  # fmt: skip
MODELS = ("global", "own", "alone")


def metrics_text(facts: Mapping[str, Any]) -> str:
    """Writes the facts of a server or a party in Prometheus's text format.

    Args:
        facts: The facts.

    >>> facts = {"kind": "party", "name": 'a "b"', "state": "connected", "learned": 3}
    >>> print(metrics_text(facts))
    # TYPE ofcl_party_connected gauge
    ofcl_party_connected{party="a \\"b\\""} 1
    # TYPE ofcl_party_learned gauge
    ofcl_party_learned{party="a \\"b\\""} 3
    <BLANKLINE>
    """
    lines = _of_server(facts) if facts["kind"] == "server" else _of_party(facts)
    return "\n".join(lines) + "\n"


def _of_server(facts: Mapping[str, Any]) -> list[str]:
    """Writes the facts of a server."""
    run, parties = facts["run"], facts_of_parties(facts)
    lines = _metric("server_up", [({}, facts["server_up"])])
    lines += _metric("certificate_days", [({}, facts["certificate_days"])])
    lines += _metric("run_running", [({}, run["state"] == "running")])
    lines += _metric("run_rejected", [({}, facts["refused"])], counter=True)
    for name in RUN:
        lines += _metric(f"run_{name}", [({}, run.get(name))], counter=name in COUNTERS)
    for name in ("connected", *OF_PARTY):
        values = [({"party": party["name"]}, party[name]) for party in parties]
        lines += _metric(f"party_{name}", values, counter=name in COUNTERS)
    answered = [
        ({"party": party["name"]}, facts["now"] - party["answered"])
        for party in parties
        if party["answered"] is not None
    ]
    return lines + _metric("party_last_answer_seconds", answered)


def _of_party(facts: Mapping[str, Any]) -> list[str]:
    """Writes the facts of a party."""
    label = {"party": facts["name"]}
    lines = _metric("party_connected", [(label, facts["state"] == "connected")])
    for name in OWN:
        lines += _metric(f"party_{name}", [(label, facts.get(name))], counter=name in COUNTERS)
    last = (facts.get("helps") or {}).get("tasks", [])[-1:]
    values = [({**label, "model": m}, row.get(m)) for row in last for m in MODELS]
    new = (facts.get("helps") or {}).get("new", {})
    on_new = [({**label, "model": m}, new.get(m)) for m in ("own", "alone")]
    lines += _metric("party_model_accuracy", values)
    return lines + _metric("party_new_samples_accuracy", on_new)


def _metric(
    name: str, values: Iterable[tuple[Mapping[str, str], float | None]], counter: bool = False
) -> list[str]:
    """Writes a metric with its values; those that nobody knows are left out.

    Args:
        name: Its name, without `ofcl_`.
        values: The labels and the value of each of its series.
        counter: Whether it only grows.
    """
    known = [(labels, float(value)) for labels, value in values if value is not None]
    if not known:
        return []
    full = f"ofcl_{name}_total" if counter else f"ofcl_{name}"
    lines = [f"# TYPE {full} {'counter' if counter else 'gauge'}"]
    for labels, value in known:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{{{inside}}} {value:.10g}" if inside else f"{full} {value:.10g}")
    return lines


def _escaped(text: str) -> str:
    """Escapes the value of a label."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
