"""Online federated continual learning: several parties learn together from data that arrive once.

>>> import ofcl
>>> result = ofcl.run(dataset="digits", method="bi", memory=100, model="mlp", limit=5, burn_in=0)
>>> result.rounds > 0
True
"""

__version__ = "0.1.0"

from ofcl.aggregation import Server
from ofcl.algorithm import federate
from ofcl.client import Client
from ofcl.config import Settings, make_settings
from ofcl.data import load_dataset
from ofcl.data.dataset import Dataset
from ofcl.data.feeds import JsonLines, WatchedFolder
from ofcl.data.reading import Reading
from ofcl.data.scenario import build_scenario
from ofcl.data.stream import ArrayStream, Batch
from ofcl.engines.local import LocalEngine
from ofcl.errors import OfclError
from ofcl.experiment import Run, resume, run
from ofcl.memory import Memory, Policy
from ofcl.results import Result
from ofcl.uncertainty import bregman_information

__all__ = [
    "ArrayStream",
    "Batch",
    "Client",
    "Dataset",
    "JsonLines",
    "LocalEngine",
    "Memory",
    "OfclError",
    "Policy",
    "Reading",
    "Result",
    "Run",
    "Server",
    "Settings",
    "WatchedFolder",
    "bregman_information",
    "build_scenario",
    "federate",
    "load_dataset",
    "make_settings",
    "resume",
    "run",
]
