"""A party's policy: limits that no server can override, in the file `policy.toml` of its folder."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from ofcl.errors import OfclError, unknown
from ofcl.federation.terms import Samples
from ofcl.methods import METHODS
from ofcl.settings.layers import make_settings
from ofcl.state import State

FILE = "policy.toml"

USUAL = """# Your limits, which the organiser of a federation cannot override. Read at every start.

min_samples = 16        # fewest new samples between two updates (batch_size x q)
min_rest = 2            # fewest behind the last update of a task; what is less is kept back
update_noise = 2.0      # noise on updates, as a multiple of their own change; 0: none
methods = []            # allowed methods, for example ["cbr", "bi"]; []: any
models = []             # allowed models; []: any
allow = []              # parts of one's own that runs may import here (docs/parts.md); []: none
generators = false      # methods that send a generator of images, or its classes (fedcil, mfcl)
features = true         # sums of features by class may leave (classifier = "nearest-mean")
class_counts = true     # the server may see how many samples of each class there are
statistics = true       # mean and deviation of columns and of images' vectors may leave
statistics_noise = 0.0  # noise on them, as a share of the deviation
most_clip = inf         # updates must be clipped to this at most (dp_clip); inf: they need not
least_noise = 0.0       # least noise on updates (dp_noise)
most_epsilon = inf      # most epsilon in all, over all runs on the same data
delta = 1e-5            # the delta for that
most_rounds = 10000     # most updates that a run may get
cross_site = true       # with --cross-site: the server may hand your model to others who agree

# Ranges of settings of the run, each as [least, most]:
[ranges]
batch_size = [2, 1000000]
"""
"""The policy that `ofcl federation init` writes."""


@dataclass(frozen=True)
class Policy:
    """The limits that a party sets to every run. The fields are those of `policy.toml`.

    Args:
        min_samples: The fewest new samples between two updates, by the settings of the run.
        min_rest: The fewest new samples behind any update. Where a task ends with fewer, the global
            model is sent back instead.
        update_noise: The noise on updates, as a multiple of their own change, tensor by tensor.
        methods: The allowed methods; empty: any.
        models: The allowed models; empty: any.
        allow: Parts of one's own that a run may ask for, by name or path, besides those that the
            party's own settings allow.
        generators: Whether methods may send more than the model.
        features: Whether sums of features by class may leave.
        class_counts: Whether the server may see counts by class.
        statistics: Whether means and deviations of the columns of tables, and of the vectors of
            images, may leave.
        statistics_noise: The noise on these, as a share of the deviation.
        most_clip: The largest `dp_clip`.
        least_noise: The smallest `dp_noise`.
        most_epsilon: The largest ε over all runs on the same data.
        delta: The δ of that ε.
        most_rounds: The most updates that a run gets.
        cross_site: Whether the party may agree to cross-site validation (`--cross-site`).
        ranges: The least and the most value of settings, by name.
        lines: The line of each entry in the file.
    """

    min_samples: int = 16
    min_rest: int = 2
    update_noise: float = 2.0
    methods: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    generators: bool = False
    features: bool = True
    class_counts: bool = True
    statistics: bool = True
    statistics_noise: float = 0.0
    most_clip: float = math.inf
    least_noise: float = 0.0
    most_epsilon: float = math.inf
    delta: float = 1e-5
    most_rounds: int = 10000
    cross_site: bool = True
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"batch_size": (2, 1000000)}
    )
    lines: Mapping[str, str] = field(default_factory=dict)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raises an error if the policy refuses a run.

        Args:
            settings: The run's settings, as the server announces them.

        Raises:
            OfclError: If it is refused; the error has the line of the file that refuses it.
        """
        method, model = settings.get("method"), settings.get("model")
        if self.methods and method not in self.methods:
            self._refuse("methods", f"the run's method is {method}")
        if self.models and model not in self.models:
            self._refuse("models", f"the run's model is {model}")
        more = method in METHODS and METHODS[str(method)].server_part is not None
        if more and not self.generators:
            self._refuse("generators", f"{method} sends more than the model")
        if settings.get("classifier") == "nearest-mean" and not self.features:
            self._refuse("features", "the run asks for sums of features")
        if method in METHODS and METHODS[str(method)].features and not self.features:
            self._refuse("features", f"{method} sends {METHODS[str(method)].sends}")
        behind = int(settings.get("batch_size", 1)) * int(settings.get("q", 1))
        if behind < self.min_samples:
            self._refuse("min_samples", f"batch_size x q of the run is {behind}")
        clip, noise = settings.get("dp_clip"), float(settings.get("dp_noise", 0.0))
        if (clip or math.inf) > self.most_clip:
            self._refuse("most_clip", f"dp_clip of the run is {clip or 'not set'}")
        if self.least_noise and (not clip or noise < self.least_noise):
            self._refuse("least_noise", f"dp_noise of the run is {noise if clip else 'not set'}")
        for name, (least, most) in self.ranges.items():
            value = settings.get(name)
            if not isinstance(value, int | float) or not least <= value <= most:
                self._refuse(name, f"{name} of the run is {value}")

    def with_parts(self, values: State) -> State:
        """Gives a party's own settings, which allow the parts of the policy, too.

        Args:
            values: The settings that the party decides for itself.
        """
        if not self.allow:
            return values
        own = make_settings({"allow": values.get("allow", ())}).allow
        return {**values, "allow": (*own, *self.allow)}

    def check_rounds(self, updates: int) -> None:
        """Raises an error if a run would get more updates than allowed.

        Args:
            updates: The updates that it would have then.
        """
        if updates > self.most_rounds:
            self._refuse("most_rounds", f"this would be update {updates} of the run")

    def check_epsilon(self, cost: float) -> None:
        """Raises an error if the privacy cost would be larger than allowed.

        Args:
            cost: The ε of all updates so far and the next one.
        """
        if cost > self.most_epsilon:
            self._refuse("most_epsilon", f"the next update would take it to {cost:.2f}")

    def released(self, samples: Samples, secret: str) -> Samples:
        """Gives the form of samples with as much of the statistics as may leave.

        Args:
            samples: The form of the party's samples.
            secret: The noise is drawn from it and the statistics: asked twice, it is the same.
        """
        if not self.statistics:
            hidden = (0.5, 0.25) if samples.kind == "image" else None
            mean, std = ((v,) * samples.shape[0] for v in hidden) if hidden else ((), ())
            return replace(samples, mean=mean, std=std, count=0)
        if not self.statistics_noise or not samples.mean:
            return samples
        noise = self.statistics_noise
        draw = _normals(f"{secret} {samples}", 2 * len(samples.mean))
        pairs = list(zip(samples.mean, samples.std, strict=True))
        mean = tuple(m + s * noise * next(draw) for m, s in pairs)
        std = tuple(s * math.exp(noise * next(draw)) for _, s in pairs)
        return replace(samples, mean=mean, std=std)

    def _refuse(self, name: str, why: str) -> None:
        """Raises the error of a refused run, with the line of the policy that refuses it."""
        line = self.lines.get(name) or f"{name} is {getattr(self, name, self.ranges.get(name))}"
        raise OfclError(f"refused by your policy: {why}; {FILE} says: {line}")


def _normals(secret: str, count: int) -> Iterator[float]:
    """Draws normal numbers from a secret by a cryptographic function (SHAKE-256).

    Args:
        secret: The same secret gives the same numbers; without it nobody can tell them.
        count: How many are drawn.
    """
    drawn = hashlib.shake_256(secret.encode()).digest(8 * count)
    for n in range(count):
        whole = int.from_bytes(drawn[8 * n : 8 * n + 8], "big") >> 11
        yield NormalDist().inv_cdf((whole + 0.5) / 2**53)


def load_policy(folder: Path) -> tuple[Policy, str]:
    """Reads the policy of a party's folder.

    Args:
        folder: The party's folder.

    Returns:
        The policy, and a remark for the log.

    Raises:
        OfclError: If the file cannot be read, or has an entry that is unknown or of another type.
    """
    path = folder / FILE
    if not path.exists():
        return Policy(), f"there is no {FILE} in '{folder}': the usual limits hold"
    text = path.read_text(encoding="utf-8")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OfclError(f"'{path}' cannot be read: {error}") from None
    known = {entry.name: entry for entry in fields(Policy) if entry.name != "lines"}
    usual = Policy()
    for name, value in values.items():
        if name not in known:
            raise unknown("entry of policy.toml", name, list(known))
        wanted = type(getattr(usual, name))
        fits = isinstance(value, list) if wanted is tuple else isinstance(value, wanted)
        if not fits and not (wanted is float and isinstance(value, int)):
            raise OfclError(f"'{path}': {name} is {value!r}; expected a {wanted.__name__}")
        if name.endswith("_noise") and not 0 <= value < math.inf:
            raise OfclError(f"'{path}': {name} is {value!r}; expected 0 or more")
    made: dict[str, Any] = {
        n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n != "ranges"
    }
    ranges = values.get("ranges", {})
    for name, bounds in ranges.items():
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise OfclError(f"'{path}': {name} is {bounds!r}; expected [least, most]")
    policy = Policy(**made, ranges={name: tuple(pair) for name, pair in ranges.items()},
                    lines=_lines(text))  # fmt: skip
    return policy, f"the limits of '{path}' hold"


def _lines(text: str) -> dict[str, str]:
    """Finds the line of each entry of the file: its number, and what it says."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, _ = line.partition("=")
        if sign and not name.lstrip().startswith("#"):
            found[name.strip()] = f"line {number}: {line.partition('#')[0].strip()}"
    return found
