"""Models of images that a pretrained network embeds: evaluated, asked, served; all take images."""

import base64
import csv
import json
from importlib.util import find_spec

import httpx
import pytest

import ofcl
from ofcl.storage.run_directory import RunDirectory
from tests.inference.service.conftest import served
from tests.support.commands import in_one_process
from tests.support.commands import ofcl as command
from tests.support.embedded_images import SMALL, weights_file, write_arrays, write_files

pytestmark = [
    pytest.mark.skipif(find_spec("timm") is None, reason="needs timm"),
    in_one_process,
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A folder with a run, its data and image files; and the name of the embedder."""
    folder = tmp_path_factory.mktemp("learned")
    name = weights_file(folder / "net.safetensors")
    write_arrays(folder / "data.npz", 40, 16)
    write_files(folder / "scans", 8, 3)
    ofcl.run(dataset=str(folder / "data.npz"), embedder=name, data_root=str(folder), clients=2,
             closing_round="task", out=folder / "run", **SMALL)  # fmt: skip
    return folder, name


def test_it_is_evaluated_asked_and_served_with_images(learned, tmp_path):
    folder, name = learned
    run, files = folder / "run", sorted((folder / "scans").rglob("*.png"))
    expected = ofcl.load(run, embedder=name).predict(files).tolist()

    code, out, problem = command("evaluate", run, "--embedder", name, "--json", "-")
    assert code == 0, problem
    assert json.loads(out)["accuracy"] == pytest.approx(RunDirectory(run).result().global_A)

    code, out, problem = command("predict", run, folder / "scans", "--embedder", name)
    assert code == 0, problem
    assert [row["label"] for row in csv.DictReader(out.splitlines())] == expected

    with served(run, "--embedder", name) as service, service.client() as client:
        facts = client.get("/model").json()
        assert facts["samples"]["embedder"]["name"] == "timm:test_efficientnet@net.safetensors"
        images = [base64.b64encode(path.read_bytes()).decode() for path in files]
        answer = client.post("/predict", json={"samples": images})
        assert answer.status_code == httpx.codes.OK, answer.text
        assert [row["label"] for row in answer.json()] == expected


def test_it_asks_for_an_embedder_that_is_not_well_known(learned):
    folder, _ = learned
    code, _, problem = command("predict", folder / "run", folder / "scans")
    assert code == 2
    assert "this model was learned with the embedder 'timm:test_efficientnet@net." in problem
    assert "give its name with --embedder" in problem
