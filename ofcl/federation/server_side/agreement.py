"""The agreement at the beginning of a run: its name, all labels, the form of the samples."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ofcl.data.dataset import Dataset
from ofcl.data.files.embedders import EMBEDDERS, Embedder
from ofcl.data.files.image_embedders import embeds_images
from ofcl.data.sample_forms import SampleForm, TextForm, VectorForm
from ofcl.errors import OfclError
from ofcl.federation.image_vectors import agreed_scaling
from ofcl.federation.server_side.alias_table import joined
from ofcl.federation.terms import Introduction, Samples, agree, unpack_samples
from ofcl.pretrained.tokens import TOKENS, find_tokeniser
from ofcl.settings.schema import Settings
from ofcl.state import State


@dataclass(frozen=True)
class Agreement:
    """The agreement between server and parties at the beginning of a run.

    Args:
        run: The name of the run, drawn at random.
        labels: All labels so far, in the order of their places.
        base: How many of the labels were known when the run began; tasks are made of these.
        samples: The form of the samples.
        odd: The numbers of parties whose samples have another form; they are left out.
        aliases: Labels by other spellings of them.
    """

    run: str
    labels: tuple[str, ...]
    base: int
    samples: Samples
    odd: tuple[int, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_run(cls, known: State, table: Mapping[str, str]) -> Agreement:
        """Reads the agreement of a run that is resumed.

        Args:
            known: The participants' state in the run's checkpoint.
            table: The alias table as it is now.
        """
        samples, labels = unpack_samples(known["samples"]), tuple(known["labels"])
        aliases = joined(known.get("aliases", {}), labels, table)
        return cls(known["run"], labels, known["base"], samples, aliases=aliases)


def make_agreement(
    introductions: Mapping[int, Introduction],
    names: Sequence[str],
    settings: Settings,
    fewest: int,
    tell: Callable[[str], None],
    aliases: Mapping[str, str],
) -> Agreement:
    """Makes the agreement of a new run from the parties' introductions.

    Args:
        introductions: The introductions by the numbers of the parties.
        names: The names of all parties.
        settings: The settings of the run.
        fewest: How many parties the run needs.
        tell: Is given a line for each party that is left out.
        aliases: Labels by other spellings of them.

    Raises:
        OfclError: If too few have samples of one form, or there are more labels than a memory has
            places; the error names the parties.
    """
    named = {names[k]: introductions[k] for k in sorted(introductions)}
    agreed = agree(named, fewest, tell, aliases)
    _check_memory(settings, agreed.labels, named)
    odd = tuple(names.index(name) for name in agreed.odd)
    run = secrets.token_hex(8)
    return Agreement(run, agreed.labels, len(agreed.labels), agreed.samples, odd, aliases)


def _check_memory(
    settings: Settings, labels: Sequence[str], introductions: Mapping[str, Introduction]
) -> None:
    """Raises an error if there are more labels than a memory has places; says who brings them."""
    if len(labels) <= settings.memory:
        return
    brought = ", ".join(f"{name} {len(said.labels)}" for name, said in introductions.items())
    raise OfclError(
        f"memory = {settings.memory} is smaller than the number of classes: there are "
        f"{len(labels)} ({brought}). Set memory to more, or ask whose labels these are"
    )


def empty_dataset(name: str, samples: Samples, labels: tuple[str, ...]) -> Dataset:
    """Makes a dataset without samples, from which the model is built.

    Args:
        name: The name of the dataset.
        samples: The form of the parties' samples.
        labels: The labels of its classes.
    """
    dtype = torch.uint8 if samples.kind == "image" else torch.float
    x, y = torch.empty(0, *samples.shape, dtype=dtype), torch.empty(0, dtype=torch.long)
    scaling = (samples.mean, samples.std) if samples.kind == "image" else ((), ())
    return Dataset(name, samples.kind, x, y, x, y, labels, *scaling, form=samples.images)


def sample_form(samples: Samples, dataset: Dataset, settings: Settings) -> SampleForm:
    """Describes the parties' samples as far as the server knows them.

    It does not know the columns of tables and how each party standardises them.

    Args:
        samples: The form of the parties' samples.
        dataset: A dataset of that form.
        settings: The settings of the run.
    """
    if samples.images is not None:
        scaling = agreed_scaling(settings.model_dump(), samples.mean, samples.std)
        if scaling is not None or settings.features == "unit":
            mean, scale = scaling.plain() if scaling is not None else ((), ())
            return replace(samples.images, resized=True, feature_mean=mean, feature_scale=scale)
        return VectorForm(samples.shape[0], by_parties=True)
    if samples.embedder is None or embeds_images(samples.embedder.partition(" (")[0]):
        # Parties of an earlier version tell of embedded images the vectors alone.
        form = dataset.sample_form
        return replace(form, by_parties=True) if isinstance(form, VectorForm) else form
    if samples.kind == "tokens":
        name = samples.embedder.partition(" (")[0].removeprefix(TOKENS)
        known = find_tokeniser(settings.model, settings.weights)
        embedder = Embedder(name, tokens=samples.shape[0], version=known.checksum)
        return TextForm(embedder, samples.shape[0], as_tokens=True)
    embedder = EMBEDDERS.get(samples.embedder, Embedder(samples.embedder))
    return TextForm(embedder, samples.shape[0])
