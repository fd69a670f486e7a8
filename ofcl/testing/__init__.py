"""Contracts: checks that a part of your own keeps the promises that the rest relies on.

Write a score, a memory policy, a model, an aggregation, a perturbation, a stream, a feed or a
method, and hand it to its check, for example in a test. A check makes the data that it needs, runs
within seconds on the CPU, and raises `ContractBroken`, an `AssertionError` whose message says which
promise is broken, what was expected and what came. The parts that come with this package are held
to the same checks.

>>> from ofcl.testing import ContractBroken, check_score
>>> check_score(lambda logits: 1 - logits.softmax(-1).amax(-1).mean(0))
>>> try:
...     check_score(lambda logits: logits.softmax(-1).amax(-1).mean(0))
... except ContractBroken as broken:
...     print(broken)
a larger score means less certain; copies that agree and are sure got ...

contract   reporting a broken promise, comparing values; `*_contract` has the check of each part
data       small data and settings

May import everything but `cli`, `reproduce`, `report` and `bench`; nothing else imports it.
"""

from ofcl.testing.aggregation_contract import check_aggregation
from ofcl.testing.change_contract import check_change, check_perturbation
from ofcl.testing.contract import ContractBroken, require
from ofcl.testing.data import TINY, TINY_IMAGES, make_blobs, make_images
from ofcl.testing.feed_contract import check_feed
from ofcl.testing.memory_contract import check_memory, check_policy
from ofcl.testing.method_contract import check_method
from ofcl.testing.model_contract import check_model
from ofcl.testing.run_contract import check_run
from ofcl.testing.score_contract import check_score
from ofcl.testing.stream_contract import check_stream

__all__ = [
    "TINY",
    "TINY_IMAGES",
    "ContractBroken",
    "check_aggregation",
    "check_change",
    "check_feed",
    "check_memory",
    "check_method",
    "check_model",
    "check_perturbation",
    "check_policy",
    "check_run",
    "check_score",
    "check_stream",
    "make_blobs",
    "make_images",
    "require",
]
