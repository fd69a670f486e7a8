"""The demo's runs and the page of a report, read back by tests."""

import base64
import io
import json
import re

import numpy as np
import torch
from PIL import Image

from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory

METHODS = ("none", "er", "cbr", "bi")


SECTIONS = ("accuracy", "memory", "communication", "made")


def result_of(path):
    return json.loads((path / "result.json").read_text())


def decoded(uri):
    with Image.open(
        io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))
    ) as image:
        return np.array(image)


def pixels_of(path, client):
    """The images in a client's memory as they came, by the number of their arrival."""
    state = load_checkpoint(path / "checkpoint", print).state["engine"]["clients"][client]
    memory, form = state["learner"]["memory"], RunDirectory(path).description()["form"]
    mean, std = (torch.tensor(form[name]).view(-1, 1, 1) for name in ("mean", "std"))
    images = ((memory["x"] * std + mean) * 255).round().byte().numpy()
    return dict(zip(memory["samples"]["id"].tolist(), images[:, 0], strict=True))


def values_of(html):
    return [float(value) for value in re.findall(r'data-value="([^"]+)"', html)]


def numbers_in(matrices):
    return [value for rows in matrices for row in rows for value in row if value is not None]
