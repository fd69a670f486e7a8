"""The scripts of docs/use.md that need an ONNX file and neither ofcl nor PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ofcl.bundle.open_bundle import open_bundle
from ofcl.inference.onnx_export import export_onnx
from tests.support.made_up_bundles import COLOUR, GREY, TABLE, made_up_bundle

PAGE = (Path(__file__).parent.parent.parent / "docs" / "use.md").read_text()
SCRIPTS = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
ALONE = "import sys\nfor name in ('ofcl', 'torch', 'onnx'):\n    sys.modules[name] = None\n"


def only(word):
    (script,) = [script for script in SCRIPTS if word in script]
    return script


def run(script, folder):
    """What a script prints: a label and its probability."""
    found = subprocess.run([sys.executable, "-c", ALONE + script], cwd=folder, check=True,
                           capture_output=True, text=True)  # fmt: skip
    label, probability = found.stdout.split()
    return label, float(probability)


@pytest.mark.parametrize("form", [GREY, COLOUR], ids=["grey", "colour"])
def test_an_image(tmp_path, form):
    bundle = made_up_bundle("convnet", form)
    export_onnx(bundle, tmp_path / "images.onnx")
    pixels = np.random.default_rng(0).integers(0, 256, (30, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "scan.png")
    model = open_bundle(bundle, resize=True)
    label, probability = run(only("scan.png"), tmp_path)
    assert label == model.predict(tmp_path / "scan.png")
    assert probability == pytest.approx(model.predict_proba(tmp_path / "scan.png").max(), abs=1e-5)


def test_a_row_of_a_table(tmp_path):
    bundle = made_up_bundle(form=TABLE)
    export_onnx(bundle, tmp_path / "table.onnx")
    model, patient = open_bundle(bundle), {"pulse": 81, "age": 52}
    label, probability = run(only("patient"), tmp_path)
    assert label == model.predict(patient)
    assert probability == pytest.approx(model.predict_proba(patient).max(), abs=1e-5)


def test_they_are_about_ten_lines():
    lengths = [len([line for line in script.splitlines() if line]) for script in SCRIPTS]
    assert lengths == [12, 9]
