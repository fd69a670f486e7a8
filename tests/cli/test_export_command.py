"""`ofcl export`."""

import onnxruntime
import pytest

import ofcl
from ofcl.bundle.bundle_files import write_folder
from tests.support import commands
from tests.support.made_up_bundles import GREY, LABELS, made_up_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "model"
    write_folder(made_up_bundle("convnet", GREY), path)
    return path


def test_several_at_once_say_nothing_but_their_own(bundle, tmp_path):
    arguments = ["--onnx", "new/a.onnx", "--zip", "a.zip", "--hub", "clinic/scans", "--dry-run"]
    code, out, err = commands.ofcl("export", bundle, *arguments, cwd=tmp_path)
    assert code == 0, err
    assert out.splitlines() == ["new/a.onnx", "a.zip", "scans"]
    first, second = err.splitlines()  # and no warnings of libraries
    assert first.startswith("ONNX Runtime answers as PyTorch does (probabilities differ by ")
    assert second.startswith("nothing was uploaded")
    assert onnxruntime.InferenceSession(tmp_path / "new" / "a.onnx").get_inputs()[0].shape[0] == "n"
    assert ofcl.load(tmp_path / "a.zip").labels == ofcl.load(tmp_path / "scans").labels == LABELS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to make: --onnx FILE"),
        (["--dry-run", "--zip", "a.zip"], "are for --hub"),
        (["--hub", "clinic/scans", "--out", "a"], "--out is the folder of --dry-run"),
        (["--hub", "scans"], "expected ORG/NAME"),
        (["--onnx", "{bundle}/model.json/a.onnx"], "cannot be written"),
        (["--zip", "."], "'.' is a folder"),
    ],
)
def test_mistakes(bundle, tmp_path, arguments, said):
    arguments = [argument.format(bundle=bundle) for argument in arguments]
    code, _, err = commands.ofcl("export", bundle, *arguments, cwd=tmp_path)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
