"""Parts are found by name, by path, among installed packages, or among those handed over."""

import pytest
import torch

from ofcl import OfclError, make_settings
from ofcl.methods.losses import find_loss
from ofcl.own_parts import kinds
from ofcl.own_parts.handed_over import find_handed_over, hand_over
from ofcl.own_parts.lookup import find_part, required_parameters
from ofcl.uncertainty.scores import find_score, is_labelled


def sharp(logits, y):
    """A loss of one's own: the logits' distance from a hundred times the class."""
    return (logits.argmax(-1) - 100 * y).float().abs().mean()


def surprise(logits, y):
    """A score of one's own that knows the label."""
    return -logits.mean(0).log_softmax(-1).gather(1, y[:, None])[:, 0]


def test_a_name_of_the_package_comes_first():
    assert find_part("loss", "ce", {"ce": 7}) == 7


def test_a_function_of_a_module_goes_by_its_path():
    path = hand_over("loss", sharp)
    assert path == "tests.own_parts.test_lookup:sharp"
    assert find_part("loss", path, {}) is sharp


def test_a_lambda_goes_by_a_name_of_its_own_and_two_do_not_mix():
    first, second = (lambda: 1), (lambda: 2)
    names = [hand_over("model", first), hand_over("model", second), hand_over("model", first)]
    assert names[0] == names[2] != names[1]
    assert find_handed_over("model", names[1]) is second


def test_an_object_that_nobody_handed_over_is_asked_for():
    with pytest.raises(OfclError, match=r"give it again: ofcl.resume\(…, model=…\)"):
        find_handed_over("model", "python:Nobody")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:net", "there is no module 'no_such_module' here"),
        ("math:net", "the module math has no 'net'"),
        ("mlpp", "unknown model 'mlpp'.*Did you mean 'mlp'"),
    ],
)
def test_what_cannot_be_found_is_said(name, message):
    with pytest.raises(OfclError, match=message):
        find_part("model", name, {"mlp": 1})


def test_a_module_that_fails_is_said(tmp_path, monkeypatch):
    (tmp_path / "broken_part.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OfclError, match="cannot be imported: ZeroDivisionError"):
        find_part("model", "broken_part:net", {})


def test_installed_packages_announce_parts(monkeypatch):
    point = kinds.EntryPoint("sharp", "tests.own_parts.test_lookup:sharp", "ofcl.losses")
    monkeypatch.setattr(kinds, "installed", lambda kind: {"sharp": point})
    monkeypatch.setattr("ofcl.own_parts.lookup.installed", kinds.installed)
    monkeypatch.setattr("ofcl.settings.schema.installed", kinds.installed)
    assert find_part("loss", "sharp", {}) is sharp
    assert make_settings({"loss": "sharp"}).loss == "sharp"


@pytest.mark.parametrize("name", ["loss", "augment", "optimizer", "aggregation"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(OfclError, match=f"unknown {name} 'nothing'; expected one of"):
        make_settings({name: "nothing"})


def test_settings_take_python_objects():
    settings = make_settings({"loss": sharp, "optimizer": torch.optim.AdamW})
    assert settings.loss == "tests.own_parts.test_lookup:sharp"
    assert settings.optimizer == "torch.optim.adamw:AdamW"


def test_a_loss_of_logits_and_classes_sees_one_client_at_a_time():
    loss = find_loss("tests.own_parts.test_lookup:sharp")
    logits = torch.eye(3).expand(2, 4, 3, 3)  # the prediction of sample k is k
    y = torch.tensor([[[0, 0, 0]] * 4, [[0, 0, 1]] * 4])
    values = loss(logits, y, 3, torch.ones(2, 1, 3, dtype=torch.bool))
    assert values.tolist() == [[1.0] * 4, [(0 + 1 + 98) / 3] * 4]


def test_a_loss_must_return_one_number():
    with pytest.raises(OfclError, match="must return one number"):
        find_loss(hand_over("loss", lambda logits, y: logits))(
            torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), 2, torch.ones(2, dtype=torch.bool)
        )


def test_a_score_with_two_arguments_is_given_the_label():
    name = hand_over("score", surprise)
    assert is_labelled(name)
    assert not is_labelled("bi")
    logits = torch.log(torch.tensor([[[0.25, 0.75]]]))
    score = find_score(name, "scores")(logits, torch.tensor([1]))
    assert score.item() == pytest.approx(-torch.tensor(0.75).log().item())


def test_parameters_are_counted():
    assert required_parameters(surprise) == 2
    assert required_parameters(lambda: 0) == 0
