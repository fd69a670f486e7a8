"""The card of a model: facts for people, and no more than text."""

from dataclasses import replace

from ofcl.bundle.model_card import card


def test_the_card_says_what_the_model_takes_and_answers(bundle):
    text = card(bundle.description)
    assert "vectors of 6 numbers" in text or "vectors of" in text
    assert all(label in text for label in bundle.description.labels)
    assert f"in {bundle.description.learned.rounds} rounds" in text


def test_names_cannot_be_anything_but_text(bundle):
    evil = "\x1b[2J[click](javascript:alert(1))<script>\n# heading"
    described = replace(bundle.description, labels=(evil, *bundle.description.labels[1:]))
    text = card(described)
    assert "\x1b" not in text
    assert "[click](" not in text
    assert "<script>" not in text
    assert "\n# heading" not in text


def test_the_front_matter_is_yaml_whatever_the_names_are(bundle):
    import yaml

    learned = replace(
        bundle.description.learned, data='a": [b]\n---', licence="x: y", metrics={"global_A": 91.0}
    )
    front = card(replace(bundle.description, learned=learned)).split("---\n")[1]
    values = yaml.safe_load(front)
    assert (values["license"], values["license_name"]) == ("other", "x: y")
    assert values["model-index"][0]["results"][0]["metrics"][0]["value"] == 91.0


def test_names_in_any_script_come_back_from_the_front_matter(bundle):
    import yaml

    learned = replace(bundle.description.learned, data="Hüfte 😀 股", metrics={"global_A": 91.0})
    front = card(replace(bundle.description, learned=learned)).split("---\n")[1]
    assert yaml.safe_load(front)["model-index"][0]["name"] == "Hüfte 😀 股"


def test_licences_have_the_names_of_the_hub(bundle):
    learned = replace(bundle.description.learned, licence="CC-BY-4.0")
    assert "\nlicense: cc-by-4.0\n" in card(replace(bundle.description, learned=learned))
