"""How a client sends updates and takes the global model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ofcl.compression.codecs import Codec
from ofcl.privacy import Privacy


@dataclass(frozen=True)
class Sharing:
    """The way a client sends updates and takes the global model.

    Args:
        class_counts: Whether an update tells how many samples of each class there were.
        mixing: The share of the global model in the model that a client goes on with.
        batchnorm: What happens to BatchNorm statistics. `average`: they are averaged like
            parameters. `reset`: they are never sent; in the global model they are always 0 and
            1, which are mixed in like parameters.
            `local`: each client keeps its own.
        privacy: How updates are clipped and made noisy; None: they are sent as they are.
        features: Whether a client reports the sums of the features of its remembered samples, class
            by class, when the server asks for them (`classifier = "nearest-mean"`); if not, it
            reports zeros.
        codec: How updates are coded to travel in fewer bytes; None: they travel as they are.
        summed: Whether updates leave by secure sums alone, which code them (`Sender.for_sum`).
    """

    class_counts: bool = False
    mixing: float = 1.0
    batchnorm: Literal["average", "reset", "local"] = "average"
    privacy: Privacy | None = None
    features: bool = False
    codec: Codec | None = None
    summed: bool = False
