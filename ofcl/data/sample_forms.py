"""The form of samples: all that one must know to turn a new sample into a model's input.

A dataset or stream has the form of the samples that it was read from. It is saved with a model, so
that samples that come later are read in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.embedders import Embedder
from ofcl.data.files.image_embedders import ImageEmbedder


@dataclass(frozen=True)
class ImageForm:
    """Images, in files or as arrays.

    Args:
        shape: Channels (1 or 3), height and width.
        mean: The mean of each channel on the scale [0, 1], for normalisation.
        std: The standard deviation of each channel, in the same way.
        resized: Whether image files of another size are resized; else they are refused.
        white: The largest value in grey image files with more than 8 bits, which sets their scale;
            0: there were none; None: nobody knows, and 16 bits are assumed.
        embedder: The pretrained network that turns them into vectors, which the model learns from;
            None: it learns from the pixels.
        feature_mean: The value that is subtracted from each number of such a vector; empty: vectors
            stay as the network gives them, of length 1.
        feature_scale: The value by which each number is then divided; empty: it is not divided.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resized: bool = False
    white: float | None = 0.0
    embedder: ImageEmbedder | None = None
    feature_mean: tuple[float, ...] = ()
    feature_scale: tuple[float, ...] = ()
    kind: Literal["image"] = "image"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a model's input: of the image, or of its vector."""
        return self.shape if self.embedder is None else (self.embedder.length,)

    def words(self) -> str:
        """Describes the form in words, for messages and the model's card."""
        channels, height, width = self.shape
        by = f", embedded by {self.embedder.name}" if self.embedder is not None else ""
        return f"{'grey' if channels == 1 else 'colour'} images of {width} × {height} pixels{by}"


def embedded_form(
    embedder: ImageEmbedder,
    shape: tuple[int, ...] = (),
    *,
    resized: bool = True,
    white: float | None = None,
    scaling: tuple[tuple[float, ...], tuple[float, ...]] = ((), ()),
) -> ImageForm:
    """Describes images that a pretrained network turns into vectors, and nobody else normalises.

    Args:
        embedder: The network.
        shape: Channels, height and width of the images; (): they are not known, and the network's
            own are taken.
        resized: Whether image files of another size are resized.
        white: The largest value in grey image files with more than 8 bits; None: nobody knows.
        scaling: The values that are subtracted from the numbers of a vector, and those by which
            they are then divided; empty: vectors keep length 1.
    """
    channels, height, width = shape or (3, embedder.side, embedder.side)
    plain = (0.0,) * channels, (1.0,) * channels
    return ImageForm((channels, height, width), *plain, resized, white, embedder, *scaling)


@dataclass(frozen=True)
class TableForm:
    """Rows of a table, whose numbers are standardised.

    Args:
        columns: The names of the columns, in the order of the model's inputs.
        mean: The value that is subtracted from each number.
        scale: The value by which each number is then divided.
        label: The column of the labels in the table that was learned; None: it is not known.
        codes: How the cells of each column become numbers; empty: each cell is one number.
    """

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    label: str | None = None
    codes: tuple[ColumnCode, ...] = ()
    kind: Literal["table"] = "table"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a model's input."""
        return (len(self.mean),)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The same."""
        return self.shape

    def words(self) -> str:
        """Describes the form in words, for messages and the model's card."""
        kind = "rows" if self.codes else "rows of numbers"
        return f"{kind} with the columns {', '.join(self.columns)}"


@dataclass(frozen=True)
class VectorForm:
    """Vectors, which a model takes as they are, or standardised.

    Args:
        length: The numbers of a vector.
        column: The column of a table with the vector as a list; None: vectors come as arrays.
        label: The column of the labels in the table that was learned; None: it is not known.
        mean: The value that is subtracted from each number; empty: nothing is.
        scale: The value by which each number is then divided; empty: it is not divided.
        by_parties: Whether each party of a federation prepares them in its own way: columns and
            standardisation are then not known here.
    """

    length: int
    column: str | None = None
    label: str | None = None
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    by_parties: bool = False
    kind: Literal["vector"] = "vector"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a model's input."""
        return (self.length,)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The same."""
        return self.shape

    def words(self) -> str:
        """Describes the form in words, for messages and the model's card."""
        prepared = ", as each party has prepared them" if self.by_parties else ""
        return f"vectors of {self.length} numbers{prepared}"


@dataclass(frozen=True)
class TextForm:
    """Texts, which an embedder turns into vectors.

    Args:
        embedder: The embedder; its version must be the same when samples are predicted.
        length: The numbers of a vector.
        column: The column of the texts in the table that was learned; None: it is not known.
        label: The column of the labels there; None: it is not known.
        as_tokens: Whether the model takes the ids of a text's tokens; the embedder is then the
            pretrained network whose tokeniser makes them, and its version that one's checksum.
    """

    embedder: Embedder
    length: int
    column: str | None = None
    label: str | None = None
    as_tokens: bool = False
    kind: Literal["text"] = "text"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a model's input."""
        return (self.length,)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The same."""
        return self.shape

    def words(self) -> str:
        """Describes the form in words, for messages and the model's card."""
        if self.as_tokens:
            return f"texts, of which {self.length} tokens are read by {self.embedder.model}"
        return f"texts, embedded by {self.embedder.model}"


SampleForm = ImageForm | TableForm | VectorForm | TextForm
