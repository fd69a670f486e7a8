"""Ways to code the numbers of a difference in fewer bytes, each with some loss.

A codec turns named tensors into other named tensors, which travel, and these back into tensors of
the first names and shapes. Decoding gives the same numbers on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.state import Tensors

NAMES = "none, fp16, int8, int4, topk:SHARE (such as topk:0.05)"

MASK, VALUES = "topk.mask", "topk.values"
SCALE = ".scale"


class Codec(Protocol):
    """A way to code differences."""

    def encode(self, values: Tensors) -> Tensors:
        """Codes numbers in fewer bytes.

        Args:
            values: The tensors by name, of float32.
        """

    def decode(self, coded: Tensors, like: Tensors) -> Tensors:
        """Turns what `encode` gave into numbers again.

        Args:
            coded: The coded tensors.
            like: Tensors of the names, shapes and device that the result has.

        Raises:
            ValueError: If `coded` cannot come from such tensors.
        """


@dataclass(frozen=True)
class Half:
    """Codes each number in 16 bits (`fp16`)."""

    def encode(self, values: Tensors) -> Tensors:
        """Rounds to half precision; what is too large for it becomes its largest number."""
        most = torch.finfo(torch.float16).max
        return {name: value.clamp(-most, most).half() for name, value in values.items()}

    def decode(self, coded: Tensors, like: Tensors) -> Tensors:
        """Widens to single precision."""
        _check_names(coded, set(like))
        return {
            name: _checked(coded[name], torch.float16, value.shape).to(value)
            for name, value in like.items()
        }


@dataclass(frozen=True)
class Integers:
    """Codes each number as a small integer, times a scale that its tensor has (`int8`, `int4`).

    Args:
        bits: The bits of an integer: 8, or 4, of which two share a byte.
    """

    bits: int

    @property
    def most(self) -> int:
        """The largest integer."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, values: Tensors) -> Tensors:
        """Divides by a share of the largest number of each tensor, and rounds."""
        coded: Tensors = {}
        for name, value in values.items():
            largest = value.abs().amax() if value.numel() else value.new_zeros(())
            scale = torch.where(largest > 0, largest / self.most, torch.ones_like(largest))
            whole = (value / scale).round().clamp(-self.most, self.most).to(torch.int8)
            coded[name] = whole if self.bits == 8 else _paired(whole)
            coded[name + SCALE] = scale.reshape(1)
        return coded

    def decode(self, coded: Tensors, like: Tensors) -> Tensors:
        """Multiplies by the scales."""
        _check_names(coded, {name + end for name in like for end in ("", SCALE)})
        decoded: Tensors = {}
        for name, value in like.items():
            scale = _checked(coded[name + SCALE], torch.float32, torch.Size([1])).to(value)
            if self.bits == 8:
                whole = _checked(coded[name], torch.int8, value.shape)
            else:
                pairs = torch.Size([math.ceil(value.numel() / 2)])
                whole = _single(_checked(coded[name], torch.uint8, pairs), value.shape)
            decoded[name] = whole.to(value) * scale
        return decoded


@dataclass(frozen=True)
class TopK:
    """Sends the largest numbers of all tensors alone, in 16 bits, and a bit for each place.

    Args:
        share: The share of all numbers that is sent.
    """

    share: float

    def encode(self, values: Tensors) -> Tensors:
        """Chooses the numbers that are largest without their signs."""
        flat = torch.cat([values[name].flatten() for name in sorted(values)])
        count = math.ceil(self.share * len(flat))
        places = flat.abs().topk(count).indices.sort().values
        chosen = torch.zeros(len(flat), dtype=torch.bool, device=flat.device)
        chosen[places] = True
        most = torch.finfo(torch.float16).max
        return {MASK: _packed(chosen), VALUES: flat[places].clamp(-most, most).half()}

    def decode(self, coded: Tensors, like: Tensors) -> Tensors:
        """Puts the numbers in their places; all others are zero."""
        _check_names(coded, {MASK, VALUES})
        first = next(iter(like.values()))
        total = sum(value.numel() for value in like.values())
        mask = _checked(coded[MASK], torch.uint8, torch.Size([math.ceil(total / 8)]))
        chosen = _unpacked(mask, total).to(first.device)
        values = coded[VALUES]
        count = int(chosen.sum())
        if count > math.ceil(self.share * total):
            raise ValueError(f"{count} of {total} numbers came; expected a share of {self.share}")
        flat = torch.zeros(total, dtype=first.dtype, device=first.device)
        flat[chosen] = _checked(values, torch.float16, torch.Size([count])).to(flat)
        parts = flat.split_with_sizes([like[name].numel() for name in sorted(like)])
        return {
            name: part.reshape(like[name].shape)
            for name, part in zip(sorted(like), parts, strict=True)
        }


def find_codec(name: str) -> Codec | None:
    """Finds the codec that a setting names.

    Args:
        name: The value of the setting `compress`.

    Returns:
        The codec; None: models travel as they are.

    Raises:
        OfclError: If there is no such codec.

    >>> find_codec("topk:0.05")
    TopK(share=0.05)
    """
    if name == "none":
        return None
    if name == "fp16":
        return Half()
    if name in ("int8", "int4"):
        return Integers(int(name[3:]))
    kind, _, share = name.partition(":")
    try:
        if kind == "topk" and 0 < float(share) <= 1:
            return TopK(float(share))
    except ValueError:
        pass
    raise OfclError(f"compress is {name!r}; expected one of {NAMES}, with 0 < SHARE ≤ 1")


def _check_names(coded: Tensors, expected: set[str]) -> None:
    """Raises ValueError if other tensors came than expected."""
    if wrong := set(coded) ^ expected:
        raise ValueError(f"coded tensors do not fit the model: '{min(wrong)}'")


def _checked(tensor: Tensor, dtype: torch.dtype, shape: torch.Size) -> Tensor:
    """Gives a tensor back if it has this type and shape; raises ValueError if not."""
    if tensor.dtype != dtype or tensor.shape != shape:
        raise ValueError(
            f"a coded tensor is {tensor.dtype} of shape {tuple(tensor.shape)}; "
            f"expected {dtype} of shape {tuple(shape)}"
        )
    return tensor


def _paired(whole: Tensor) -> Tensor:
    """Packs integers from −7 to 7 into bytes, two in each: (⌈n / 2⌉,)."""
    shifted = (whole.flatten() + 8).to(torch.uint8)  # 1 to 15
    padded = torch.nn.functional.pad(shifted, (0, len(shifted) % 2))
    return padded[0::2] | (padded[1::2] << 4)


def _single(pairs: Tensor, shape: torch.Size) -> Tensor:
    """Unpacks what `_paired` gave into integers of a shape."""
    both = torch.stack([pairs & 15, pairs >> 4], dim=1).flatten()[: math.prod(shape)]
    return (both.to(torch.int8) - 8).reshape(shape)


_BITS = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)


def _packed(bits: Tensor) -> Tensor:
    """Packs truth values (n,) into bytes (⌈n / 8⌉,)."""
    padded = torch.nn.functional.pad(bits.to(torch.uint8), (0, -len(bits) % 8))
    return (padded.reshape(-1, 8) * _BITS.to(bits.device)).sum(1, dtype=torch.uint8)


def _unpacked(packed: Tensor, count: int) -> Tensor:
    """Unpacks what `_packed` gave: truth values (count,)."""
    bits = (packed[:, None] & _BITS.to(packed.device)) > 0  # (bytes, 8)
    return bits.flatten()[:count]
