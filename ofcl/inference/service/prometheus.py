"""Numbers about the service in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import accumulate

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram of seconds."""


class Numbers:
    """Counts requests, samples, batches and seconds."""

    def __init__(self) -> None:
        self._gauges: dict[str, Callable[[], float]] = {}
        self._lock = threading.Lock()  # the model's thread counts too
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, tuple[Counter[int], float]] = {}
        self._batches = self._samples = 0

    def gauge(self, name: str, value: Callable[[], float]) -> None:
        """Adds a number that goes up and down.

        Args:
            name: Its name, without `ofcl_`.
            value: Returns its current value.
        """
        self._gauges[name] = value

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts a request that was answered.

        Args:
            route: The route, one of few.
            status: The HTTP status of the answer.
            seconds: How long it took.
        """
        with self._lock:
            self._requests[route, status] += 1
            buckets, total = self._seconds.get(route, (Counter(), 0.0))
            buckets[sum(seconds > bound for bound in BOUNDS)] += 1
            self._seconds[route] = buckets, total + seconds

    def batch(self, samples: int) -> None:
        """Counts a batch that was predicted.

        Args:
            samples: The samples in it.
        """
        with self._lock:
            self._batches += 1
            self._samples += samples

    def text(self) -> str:
        """Returns all numbers in Prometheus's text format."""
        with self._lock:
            lines = ["# TYPE ofcl_requests_total counter"]
            for (route, status), count in sorted(self._requests.items()):
                lines.append(f'ofcl_requests_total{{route="{route}",status="{status}"}} {count}')
            lines.append("# TYPE ofcl_request_seconds histogram")
            for route, (buckets, total) in sorted(self._seconds.items()):
                lines += _histogram(route, buckets, total)
            for name, value in (("samples", self._samples), ("batches", self._batches)):
                lines += [f"# TYPE ofcl_{name}_total counter", f"ofcl_{name}_total {value}"]
        for name, gauge in self._gauges.items():
            lines += [f"# TYPE ofcl_{name} gauge", f"ofcl_{name} {gauge():g}"]
        return "\n".join(lines) + "\n"


def _histogram(route: str, buckets: Counter[int], total: float) -> list[str]:
    """Writes the lines of a route's histogram of seconds."""
    name = "ofcl_request_seconds"
    sums = list(accumulate(buckets[place] for place in range(len(BOUNDS) + 1)))
    bounds = [*map(str, BOUNDS), "+Inf"]
    lines = [
        f'{name}_bucket{{route="{route}",le="{bound}"}} {count}'
        for bound, count in zip(bounds, sums, strict=True)
    ]
    lines.append(f'{name}_sum{{route="{route}"}} {total:.6f}')
    return [*lines, f'{name}_count{{route="{route}"}} {sums[-1]}']
