"""Samples in requests: JSON and uploaded files → decoded samples.

Nothing that a request says is taken for a path of this machine: an image is base64, nested lists or
an uploaded file. These functions run in threads of their own, never in the event loop.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ofcl.bundle.given_samples import UnusableSample, decode
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm
from ofcl.errors import OfclError
from ofcl.inference.service.replies import Refused
from ofcl.inference.service.uploaded_images import decode_image
from ofcl.inference.service.uploaded_tables import table_kind, table_rows

MOST_LETTERS = 1_000_000
"""The letters of a text; embedders read far fewer, but would look at all of them."""


SPARE_LISTS = 100_000
"""The brackets in a JSON body beyond those that samples need; texts may have some."""


class Upload(NamedTuple):
    """An uploaded file.

    Args:
        name: Its name, which is only used in messages and to tell its format.
        data: Its bytes.
    """

    name: str
    data: bytes


class SampleDecoder:
    """Decodes the samples of requests.

    Args:
        form: The form of the model's samples.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.
        most: The samples that a request may have.
        pixels: The pixels that an image may have.
        seconds: The time after which no further image of a request is decoded.
    """

    def __init__(
        self, form: SampleForm, resize: bool, most: int, pixels: int, seconds: float
    ) -> None:
        self._form, self._resize, self._most = form, resize, most
        self._pixels, self._seconds = pixels, seconds

    def from_json(self, body: bytes) -> Any:
        """Decodes the samples of a JSON body, `{"samples": [...]}`.

        Args:
            body: The body.

        Returns:
            An array of samples (n, …), or a list of texts or of rows.

        Raises:
            Refused: It is not JSON, or there are too many samples.
            OfclError: A sample does not fit; the message says which.
        """
        if body.count(b"[") + body.count(b"{") > self._most_lists():
            raise Refused(
                413, f"too many lists and objects; a request may have {self._most} samples"
            )
        try:
            given = json.loads(body, parse_constant=_not_json)
        except (ValueError, RecursionError):
            raise Refused(400, 'the body is not JSON; expected {"samples": [...]}') from None
        if not isinstance(given, dict) or set(given) != {"samples"}:
            raise Refused(422, 'expected an object with one key: {"samples": [...]}')
        if not isinstance(given["samples"], list):
            raise Refused(422, 'expected a list: {"samples": [...]}')
        return self._decode(given["samples"])

    def from_files(self, uploads: Sequence[Upload]) -> Any:
        """Decodes the samples of uploaded files: images, or tables with a sample in each row.

        Args:
            uploads: The files.

        Returns:
            An array of samples (n, …), or a list of texts or of rows.

        Raises:
            Refused: There are too many samples, or it is not such a file.
            OfclError: A sample does not fit; the message says which.
        """
        if isinstance(self._form, ImageForm):
            return self._decode(uploads)
        rows: list[Any] = []
        for upload in uploads:
            if table_kind(upload.name) is None:
                raise Refused(
                    415, f"'{upload.name[:80]}': expected a table (.csv, .tsv, .jsonl, .parquet)"
                )
            left = self._most - len(rows)
            rows += table_rows(upload.name, upload.data, self._columns(), left + 1)
            self._check_count(len(rows))
        return self._decode(rows)

    def _decode(self, samples: Sequence[Any]) -> Any:
        """Decodes samples one by one if they are images, else all at once."""
        self._check_count(len(samples))
        form = self._form
        if not samples:
            return []
        if isinstance(form, ImageForm):
            return self._images(samples)
        decoded = decode(samples, form)
        if isinstance(form, TableForm) and form.codes:
            return [_named(sample, form) for sample in samples]  # the model decodes them
        if isinstance(form, TextForm):
            for place, text in enumerate(decoded):
                _check_text(place, text)
        elif decoded.shape[1:] != form.shape:
            raise OfclError(f"a sample has lists in it; this model takes {form.words()}")
        return decoded

    def _images(self, samples: Sequence[Any]) -> np.ndarray:
        """Decodes images, until the time is up: nobody waits for the rest then."""
        end = time.monotonic() + self._seconds
        images = []
        for place, given in enumerate(samples):
            images.append(self._image(place, given))
            if time.monotonic() > end:
                raise Refused(504, f"{place + 1} images took too long; send fewer or smaller ones")
        return np.stack(images)

    def _image(self, place: int, given: Any) -> np.ndarray:
        """Decodes one image: an uploaded file, base64 or nested lists."""
        assert isinstance(self._form, ImageForm)
        name = f"sample {place}"
        if isinstance(given, str):
            try:
                data = base64.b64decode(given.encode("ascii"), validate=True)
            except (binascii.Error, ValueError):
                raise OfclError(
                    f"{name}: this text is not base64 of an image file; "
                    f"this model takes {self._form.words()}"
                ) from None
            given = Upload(name, data)
        if isinstance(given, Upload):
            return decode_image(given.name, given.data, self._form, self._resize, self._pixels)
        if not isinstance(given, list):
            raise OfclError(
                f"{name}: {type(given).__name__} is given; this model takes {self._form.words()}, "
                "as base64 of an image file or as nested lists"
            )
        return self._listed_image(name, given)

    def _listed_image(self, name: str, given: list[Any]) -> np.ndarray:
        """Decodes an image in nested lists."""
        assert isinstance(self._form, ImageForm)
        channels, height, width = self._form.shape
        shapes: set[tuple[int, ...]] = {(channels, height, width), (height, width, channels)}
        shapes |= {(height, width)} if channels == 1 else set()
        try:
            array = np.array(given)
        except ValueError:
            raise OfclError(f"{name}: its lists are not of one length") from None
        if array.dtype.kind not in "buif" or array.shape not in shapes:
            found = " × ".join(map(str, array.shape))
            raise OfclError(
                f"{name}: lists of shape {found} of {array.dtype}; this model takes "
                f"{self._form.words()}"
            )
        try:
            return np.asarray(decode([array], self._form)[0])
        except UnusableSample as error:
            raise OfclError(f"{name}: {error.problem}") from None

    def _columns(self) -> tuple[str, ...]:
        """The columns of a table that make a sample."""
        form = self._form
        if isinstance(form, ImageForm):
            return ()
        names = getattr(form, "columns", None)
        if names is not None:
            return tuple(names)
        column = getattr(form, "column", None)
        return (column or ("text" if isinstance(form, TextForm) else "x"),)

    def _most_lists(self) -> int:
        """How many lists and objects JSON may have; in memory an empty one is 20 times as long."""
        shape = self._form.shape if isinstance(self._form, ImageForm) else (0, 0, 0)
        lists = shape[0] * shape[1] + shape[1] * shape[2]  # channels first, or last
        return SPARE_LISTS + self._most * (3 + lists)

    def _check_count(self, count: int) -> None:
        """Refuses too many samples."""
        if count > self._most:
            raise Refused(413, f"{count} samples or more; a request may have {self._most}")


def _not_json(name: str) -> NoReturn:
    """Refuses NaN and Infinity, which Python's parser would take."""
    raise ValueError(name)


def _check_text(place: int, text: str) -> None:
    """Raises an error if a text is too long, or has half a character in it, as JSON can write."""
    if len(text) > MOST_LETTERS:
        raise OfclError(f"sample {place}: {len(text)} letters; at most {MOST_LETTERS}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise OfclError(f"sample {place} has half a character in it")


def _named(sample: Any, form: TableForm) -> dict[str, Any]:
    """Returns a row that was checked, by the names of its columns and without other columns."""
    given = sample if isinstance(sample, dict) else dict(zip(form.columns, sample, strict=True))
    return {name: given[name] for name in form.columns}
