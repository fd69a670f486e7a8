"""Repositories on the hub, with a hub that is not there."""

from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub import HfApi, ModelCard

import ofcl
from ofcl.bundle.open_bundle import open_bundle
from ofcl.errors import OfclError
from ofcl.inference.hub_export import check_name, upload, write_repository
from ofcl.inference.prepared_network import made_up_samples
from tests.support.made_up_bundles import GREY, TABLE, TEXTS, VECTORS, made_up_bundle

FILES = ["README.md", "model.json", "weights.safetensors"]


class Hub:
    """A hub in memory: whether each repository is private, and its files."""

    def __init__(self, **private):
        self.private, self.files = private, {}

    def create_repo(self, name, *, repo_type, private, exist_ok):
        assert (repo_type, exist_ok) == ("model", True)
        self.private.setdefault(name, private)
        return f"https://hub/{name}"

    def model_info(self, name):
        return SimpleNamespace(private=self.private[name])

    def upload_folder(self, *, repo_id, repo_type, folder_path, commit_message):
        self.files[repo_id] = {p.name: p.read_bytes() for p in folder_path.iterdir()}


def test_an_upload_is_private_unless_somebody_says_otherwise():
    hub = Hub()
    assert upload(made_up_bundle(), "clinic/scans", api=hub) == "https://hub/clinic/scans"
    upload(made_up_bundle(), "clinic/open", public=True, api=hub)
    assert hub.private == {"clinic/scans": True, "clinic/open": False}
    assert sorted(hub.files["clinic/scans"]) == FILES


def test_a_public_repository_is_refused_unless_somebody_says_public():
    hub = Hub(**{"clinic/scans": False})
    with pytest.raises(OfclError, match="'clinic/scans' is public; nothing was uploaded"):
        upload(made_up_bundle(), "clinic/scans", api=hub)
    assert hub.files == {}
    upload(made_up_bundle(), "clinic/scans", public=True, api=hub)
    assert sorted(hub.files["clinic/scans"]) == FILES


def test_a_hub_that_cannot_be_reached():
    api = HfApi(endpoint="http://127.0.0.1:9", token="hf_secret")
    with pytest.raises(OfclError, match="cannot be uploaded to 'clinic/scans'") as error:
        upload(made_up_bundle(), "clinic/scans", api=api)
    assert "hf_secret" not in str(error.value)


def test_nobody_is_logged_in(monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(OfclError, match="hf auth login"):
        upload(made_up_bundle(), "clinic/scans")


@pytest.mark.parametrize("name", ["scans", "a/b/c", "clinic/", "/scans", "clinic/s cans", "", ".."])
def test_names_that_no_repository_can_have(name):
    with pytest.raises(OfclError, match=r"cannot be the name|names no owner"):
        check_name(name)


@pytest.mark.parametrize("form", [GREY, TABLE, VECTORS, TEXTS], ids=lambda form: form.kind)
def test_the_hub_understands_the_card(tmp_path, form):
    write_repository(made_up_bundle(form=form, licence="Apache-2.0"), tmp_path / "repository")
    facts = ModelCard.load(tmp_path / "repository" / "README.md").data
    task = {"image": "image-classification", "text": "text-classification"}
    assert facts.pipeline_tag == task.get(form.kind, "tabular-classification")
    assert (facts.library_name, facts.license) == ("ofcl", "apache-2.0")
    assert "federated-learning" in facts.tags
    (result,) = facts.eval_results
    assert (result.metric_type, result.metric_value) == ("accuracy", 91.0)
    assert (facts.model_name, result.dataset_name) == ("trial", "trial")


def test_the_repository_is_a_bundle(tmp_path):
    bundle = made_up_bundle("convnet", GREY)
    write_repository(bundle, tmp_path / "repository")
    write_repository(bundle, tmp_path / "repository")  # its own files are replaced
    assert sorted(p.name for p in tmp_path.rglob("*.*")) == FILES
    samples = made_up_samples(GREY, 5)
    found = ofcl.load(tmp_path / "repository").predict_proba(samples)
    assert np.array_equal(found, open_bundle(bundle).predict_proba(samples))


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OfclError, match="has 'thesis.tex'"):
        write_repository(made_up_bundle(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
