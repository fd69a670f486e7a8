"""Flower's simulation engine: clients in Ray's processes, on this machine or on a cluster.

A process serves many clients, one after the other, so each client lives in its own folder
(`party.py`); a process keeps the last few in memory. The folders must be reachable from every
machine of a cluster.
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ofcl.config import Settings
from ofcl.data.dataset import Dataset
from ofcl.engines.flower_records import as_records, from_records, quieten
from ofcl.engines.messages import (
    Reply, Request, pack_reply, pack_request, unpack_reply, unpack_request,
)  # fmt: skip
from ofcl.engines.party import Party
from ofcl.errors import OfclError

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

KEPT = 8  # clients that a process keeps in memory
