"""Makes ofcl/data/digits.npz: the 1,797 digits of 8 × 8 pixels that scikit-learn distributes.

    python scripts/make_digits.py

The file has the images with values from 0 to 16 and their classes, in scikit-learn's order.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

FILE = Path(__file__).parents[1] / "ofcl" / "data" / "digits.npz"

if __name__ == "__main__":
    found = load_digits()
    images, classes = found.images.astype(np.uint8), found.target.astype(np.uint8)
    assert np.array_equal(images, found.images)
    np.savez_compressed(FILE, images=images, classes=classes)
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
