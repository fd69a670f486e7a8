"""Images of four classes, and a tiny pretrained network with random weights that embeds them."""

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from ofcl.pretrained.timm_library import import_timm

TINY = "test_efficientnet"  # 0.4 M parameters, at 160 pixels
LABELS = ("0", "1", "2", "3")
SMALL = {"protocol": "sound", "method": "er", "memory": 12, "burn_in": 1, "q": 2, "hidden": 16,
         "tasks": 2, "lr": 0.01, "window": 10}  # fmt: skip


def weights_file(path, seed=0):
    """Writes random weights of a tiny network, and returns the embedder's name."""
    torch.manual_seed(seed)
    network = import_timm().create_model(TINY, num_classes=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({n: v.contiguous() for n, v in network.state_dict().items()}, path)
    return f"timm:{TINY}@{path}"


def pictures(count, seed):
    """Noisy copies (n, 8, 8, 3) of four pictures, and the class of each."""
    y = np.arange(count) % 4
    plain = np.random.default_rng(9).integers(0, 180, (4, 8, 8, 3))
    noise = np.random.default_rng(seed).integers(0, 75, (count, 8, 8, 3))
    return (plain[y] + noise).astype(np.uint8), y


def write_arrays(path, train=48, test=24, seed=0):
    """Writes an npz file with a train and a test part."""
    x, y = pictures(train + test, seed)
    np.savez(path, x_train=x[:train], y_train=y[:train], x_test=x[train:], y_test=y[train:])
    return path


def write_files(folder, count, seed, first=0):
    """Writes image files: folder/CLASS/number.png."""
    for n, (image, y) in enumerate(zip(*pictures(count, seed), strict=True), first):
        path = folder / str(y) / f"{n:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder
