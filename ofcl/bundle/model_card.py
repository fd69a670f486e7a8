"""The card of a model: `README.md` of its bundle, with the front matter of Hugging Face's hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ofcl.bundle.description import Description

SHOWN_LABELS = 50
METRICS = {
    "global_A": "accuracy A of this model, mean over tasks (%)",
    "global_F": "forgetting F of this model (%)",
    "A": "accuracy A of the clients' models (%)",
    "F": "forgetting F of the clients' models (%)",
}
OF_PARTY = {
    "party_global": "accuracy of the global model on the party's test data (%)",
    "party_own": "accuracy of the party's own model there (%)",
    "party_alone": "accuracy there of a model learned from the party's data alone (%)",
    "party_samples": "test samples of the party",
}
"""Figures of the party that keeps the model, if it is one of a federation."""
_KINDS = {"image": "image-classification", "text": "text-classification",
          "table": "tabular-classification", "vector": "tabular-classification"}  # fmt: skip

HUB_LICENCES = frozenset((
    "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd-2-clause", "bsd-3-clause",
    "bsd-3-clause-clear", "bsl-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0",
    "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
    "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0",
    "cc-by-sa-4.0", "cc0-1.0", "ecl-2.0", "epl-1.0", "epl-2.0", "eupl-1.1", "eupl-1.2", "gpl-2.0",
    "gpl-3.0", "isc", "lgpl-2.1", "lgpl-3.0", "mit", "mpl-2.0", "ms-pl", "ncsa", "ofl-1.1",
    "osl-3.0", "postgresql", "unlicense", "wtfpl", "zlib",
))  # fmt: skip
"""The licences that the hub knows, under its names; it refuses a card with another one."""


def card(description: Description) -> str:
    """Writes the card of a model in Markdown.

    Args:
        description: The description of the model.
    """
    return "\n".join([*_front_matter(description), "", *_body(description)]) + "\n"


def _front_matter(description: Description) -> Iterator[str]:
    """Yields the lines that Hugging Face's hub reads; values are JSON, which YAML takes."""
    learned = description.learned
    yield "---"
    yield "library_name: ofcl"
    yield f"pipeline_tag: {_KINDS[description.samples.kind]}"
    if learned.licence.lower() in HUB_LICENCES:
        yield f"license: {learned.licence.lower()}"
    elif learned.licence:
        yield "license: other"
        yield f"license_name: {_quoted(_printable(learned.licence))}"
    yield "tags: [federated-learning, continual-learning, online-learning]"
    accuracy = learned.metrics.get("global_A")
    if accuracy is not None:
        data = _printable(learned.data)
        result = {
            "task": {"type": _KINDS[description.samples.kind]},
            "dataset": {"name": data, "type": data},
            "metrics": [{"type": "accuracy", "value": round(accuracy, 2)}],
        }
        yield f"model-index: {_quoted([{'name': data, 'results': [result]}])}"
    yield "---"


def _body(description: Description) -> Iterator[str]:
    """Yields the lines for people."""
    learned, labels = description.learned, description.labels
    shown = ", ".join(_plain(label) for label in labels[:SHOWN_LABELS])
    more = f" and {len(labels) - SHOWN_LABELS} more" if len(labels) > SHOWN_LABELS else ""
    yield f"# A model of {_plain(learned.data)}"
    yield ""
    state = "" if learned.finished else " The run was not over when this was saved."
    yield (f"Learned by {learned.clients} client{'s' if learned.clients > 1 else ''} together, "
           f"from data that arrived once, in {learned.rounds} rounds.{state}")  # fmt: skip
    yield ""
    yield f"- **Takes**: {_plain(description.samples.words())}"
    yield f"- **Answers**: {len(labels)} labels: {shown}{more}"
    yield f"- **Network**: {_plain(description.network.name)}, classifier: {description.classifier}"
    yield f"- **Licence**: {_plain(learned.licence) or 'not said'}"
    if learned.epsilon is not None:
        yield f"- **Privacy**: what each client sent costs ε = {learned.epsilon:.2f}"
    yield ""
    yield "    ofcl predict THIS_FOLDER INPUT"
    yield ""
    yield "| figure | value |"
    yield "| --- | --- |"
    for name, words in METRICS.items():
        value = learned.metrics.get(name)
        yield f"| {words} | {'–' if value is None else f'{value:.1f}'} |"
    for name, words in OF_PARTY.items():
        if (value := learned.metrics.get(name)) is not None:
            yield (
                f"| {words} | {value:.0f} |"
                if name == "party_samples"
                else (f"| {words} | {value:.1f} |")
            )
    method = {name: learned.settings.get(name) for name in ("method", "protocol", "memory", "seed")}
    yield ""
    yield "Settings: " + ", ".join(f"{k} = {_plain(str(v))}" for k, v in method.items()) + "."
    versions = ", ".join(f"{_plain(k)} {_plain(str(v))}" for k, v in learned.made_with.items())
    yield f"Made with {versions}. All facts are in `model.json`."


def _plain(text: str) -> str:
    """Writes somebody's text so that it can be nothing but text, in Markdown and on a terminal."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in _printable(text))


def _printable(text: str) -> str:
    """Replaces the characters of a text that cannot be seen, such as ends of lines."""
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def _quoted(value: Any) -> str:
    """Writes a value as JSON that is YAML too; its texts must be printable."""
    return json.dumps(value, ensure_ascii=False)
