"""Online federated continual learning: several parties learn together from data that arrive once.

>>> import ofcl
>>> result = ofcl.run(dataset="digits", method="bi", memory=100, model="mlp", limit=5, burn_in=0)
>>> result.rounds > 0
True
"""

import os

from ofcl.algorithm import federate
from ofcl.bundle.open_bundle import load
from ofcl.bundle.trained_model import TrainedModel
from ofcl.client import Client
from ofcl.communication.schedule import Schedule
from ofcl.communication.sharing import Sharing
from ofcl.data.dataset import Dataset
from ofcl.data.live.json_lines import JsonLines
from ofcl.data.live.watched_folder import WatchedFolder
from ofcl.data.loading import load_dataset
from ofcl.data.options import Reading
from ofcl.data.scenario import build_scenario
from ofcl.data.stream import ArrayStream, Batch
from ofcl.engines.local import LocalEngine
from ofcl.errors import OfclError
from ofcl.evaluation.held_out import HeldOut, HeldOutParts
from ofcl.evaluation.results import Result
from ofcl.experiment import Run, resume, run
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy
from ofcl.server import Server
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.uncertainty.scores import bregman_information
from ofcl.version import __version__

__all__ = [
    "ArrayStream",
    "Batch",
    "Client",
    "Dataset",
    "HeldOut",
    "HeldOutParts",
    "JsonLines",
    "LocalEngine",
    "Memory",
    "OfclError",
    "Policy",
    "Reading",
    "Result",
    "Run",
    "Schedule",
    "Server",
    "Settings",
    "Sharing",
    "TrainedModel",
    "WatchedFolder",
    "__version__",
    "bregman_information",
    "build_scenario",
    "federate",
    "load",
    "load_dataset",
    "make_settings",
    "resume",
    "run",
]

# Libraries that are imported where they are needed report their use unless they are told not to.
# Who wants that sets these variables.
for _name, _value in (
    ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ("MLFLOW_DISABLE_TELEMETRY", "true"),
    ("WANDB_ERROR_REPORTING", "false"),
):
    os.environ.setdefault(_name, _value)
