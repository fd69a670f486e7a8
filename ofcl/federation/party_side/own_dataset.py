"""A party's dataset, which it learns task by task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ofcl.assembly.checks import check_run, check_settings, find_oddities
from ofcl.assembly.dealing import build_reading, deal
from ofcl.assembly.make_client import build_dataset_client
from ofcl.assembly.resolve import find_device, resolve
from ofcl.assembly.step_path import find_step_path
from ofcl.data.dataset import Dataset
from ofcl.data.live.vocabulary import AssignedVocabulary, Vocabulary
from ofcl.data.loading import read_raw
from ofcl.data.preparation import make_dataset
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm
from ofcl.federation.image_vectors import agreed_scaling
from ofcl.federation.party_side.own_source import (
    OwnClient,
    Unnamed,
    check_form,
    embedder_name,
    is_embedded,
    settings_here,
)
from ofcl.federation.scaling import rescaled
from ofcl.federation.terms import Samples, Terms
from ofcl.settings.layers import make_settings
from ofcl.state import State


class OwnDataset:
    """A party's dataset, learned task by task.

    Tasks are made of the labels that were known when the run began; labels that came later belong
    to the last task.

    Args:
        values: The party's own settings; `dataset` is a name or a path.
        share: Whether the party learns only the share of the dataset that `ofcl run` would deal to
            the client of its number.
        tell: Is given each line of the party's log.
    """

    def __init__(self, values: State, share: bool, tell: Callable[[str], None]) -> None:
        self._values, self._share, self._tell = values, share, tell
        here = make_settings(values)
        # Vectors of images are scaled later, as all parties agree (`_placed`).
        reading = replace(build_reading(here), features="unit")
        raw = read_raw(here.dataset, reading, tell)
        self._embedder = embedder_name(here) if is_embedded(raw.content, here) else None
        self._dataset = make_dataset(raw, reading)
        self.labels, self.fingerprint = self._dataset.labels, self._dataset.fingerprint()

    def samples(self) -> Samples:
        """Describes the form of the dataset's samples."""
        return Samples.of(self._dataset, "dataset", self._embedder)

    def client(
        self,
        terms: Terms,
        number: int,
        vocabulary: AssignedVocabulary,
        *,
        accompanied: bool = False,
    ) -> OwnClient:
        """Makes a client that learns the dataset, or the party's share of it.

        Args:
            terms: The terms of the run.
            number: The number of the party, which is also that of the client.
            vocabulary: The places that the server has given to labels.
            accompanied: Whether a second learner learns the same without rounds (`Accompanied`).

        Raises:
            Unnamed: If labels of the dataset have no place yet.
            OfclError: If the samples or the settings do not fit the run.
        """
        if unnamed := [label for label in self.labels if label not in vocabulary]:
            raise Unnamed(unnamed)
        check_form(self.samples(), terms)
        clients = terms.clients if self._share else 1
        settings = settings_here(terms, self._values, clients=clients)
        dataset = _placed(self._dataset, vocabulary, terms)
        settings = resolve(settings, dataset)
        validation = dataset.y_validation
        shares = deal(
            settings,
            dataset.y_train.numpy(),
            dataset.y_test.numpy(),
            terms.base,
            None if validation is None else validation.numpy(),
        )
        alone = settings.model_copy(update={"min_clients": 1})  # rounds are the server's business
        check_settings(alone)
        check_run(alone, dataset, len({c for s in shares for task in s.tasks for c in task}))
        for warning in find_oddities(alone, shares):
            self._tell(warning)
        dataset = dataset.to(find_device(settings.device))
        own_share = shares[number if self._share else 0]
        client = build_dataset_client(
            settings, dataset, number, own_share, classes=terms.base, accompanied=accompanied
        )
        self._tell(find_step_path([client.learner]).in_words())
        return OwnClient(client, settings, lambda: _normalised(dataset.sample_form, terms))


def _placed(dataset: Dataset, vocabulary: Vocabulary, terms: Terms) -> Dataset:
    """Gives a dataset the classes and the normalisation that all parties of the run share.

    Args:
        dataset: The party's dataset, with classes numbered by its own labels.
        vocabulary: The place of each label in the run, which becomes its class.
        terms: The terms of the run, with the mean and deviation that normalise images.
    """
    places = torch.tensor([vocabulary.place(label) for label in dataset.labels])

    def placed(y: Tensor | None) -> Tensor | None:
        return None if y is None else places[y]

    changed: dict[str, Any] = {
        name: placed(getattr(dataset, name)) for name in ("y_train", "y_test", "y_validation")
    }
    agreed = terms.samples
    if dataset.kind == "image":
        changed |= {"mean": agreed.mean, "std": agreed.std}
    elif isinstance(dataset.form, TableForm) and agreed.mean:
        for name in ("x_train", "x_test", "x_validation"):
            if (x := getattr(dataset, name)) is not None:
                changed[name] = rescaled(x, dataset.form, agreed.mean, agreed.std)
    elif isinstance(dataset.form, ImageForm):
        scaling = agreed_scaling(terms.settings, agreed.mean, agreed.std)
        for name in ("x_train", "x_test", "x_validation"):
            if scaling is not None and (x := getattr(dataset, name)) is not None:
                changed[name] = scaling.of_tensor(x)
    return replace(dataset, labels=vocabulary.labels, **changed)


def _normalised(form: SampleForm, terms: Terms) -> SampleForm:
    """Gives the form of a party's samples the scaling that all parties of the run share."""
    if isinstance(form, TableForm) and terms.samples.mean:
        return replace(form, mean=terms.samples.mean, scale=terms.samples.std)
    if not isinstance(form, ImageForm):
        return form
    if form.embedder is not None:
        scaling = agreed_scaling(terms.settings, terms.samples.mean, terms.samples.std)
        mean, scale = scaling.plain() if scaling is not None else ((), ())
        return replace(form, feature_mean=mean, feature_scale=scale)
    return replace(form, mean=terms.samples.mean, std=terms.samples.std)
