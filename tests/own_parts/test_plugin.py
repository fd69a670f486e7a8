"""A package outside the tree: installed into a folder, checked, run, killed and resumed."""

import pytest

from tests.support.environments import folder_environment
from tests.support.plugin import CONTRACTS, PARTS, SMALL, assert_same_run, kill_and_resume


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a process in which the package is installed, into a folder of its own."""
    return folder_environment(tmp_path_factory.mktemp("installed"))


def test_it_keeps_the_contracts(environment, tmp_path):
    environment.run_python("-c", CONTRACTS, cwd=tmp_path)


def test_it_is_listed_with_its_package(environment, tmp_path):
    words = " ".join(environment.ofcl("list", "models", cwd=tmp_path).split())
    assert "two-layers from ofcl-example-plugin 0.1.0" in words
    everything = " ".join(environment.ofcl("list", cwd=tmp_path).split())
    for kind, part in (("losses", "smooth"), ("scores", "surprise"), ("policies", "quietest")):
        assert f"{part} from ofcl-example-plugin 0.1.0" in everything.partition(kind)[2]


@pytest.mark.long
def test_a_killed_run_is_resumed_to_the_same_result(environment, tmp_path):
    environment.ofcl("run", *SMALL, *PARTS, "--out", tmp_path / "whole", cwd=tmp_path)
    killed = kill_and_resume(environment, tmp_path)
    assert_same_run(tmp_path / "whole", killed)
    environment.ofcl("evaluate", killed, cwd=tmp_path)


@pytest.mark.long
def test_processes_of_the_simulation_have_the_parts_too(environment, tmp_path):
    out = tmp_path / "a"
    environment.ofcl(
        "run", *SMALL, *PARTS, "--engine", "flower-sim", "--out", out, cwd=tmp_path
    )  # fmt: skip
    assert (out / "model.safetensors").exists()
