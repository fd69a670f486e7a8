"""The description of a model: what cannot be is refused when it is read, not when it is used."""

from dataclasses import replace

import pytest

from ofcl.bundle.bundle_files import read_bundle
from ofcl.bundle.description import Curve, from_json, to_json
from ofcl.errors import OfclError

WHOLE = Curve((0.1, 0.2), (0.5, 1.0), (0.0, 0.25), 4)


def test_it_is_read_as_it_was_written(bundle):
    description = replace(bundle.description, abstention={"probability": WHOLE})
    assert from_json(to_json(description)) == description


@pytest.mark.parametrize(
    "curve",
    [
        replace(WHOLE, coverage=(0.5,)),
        replace(WHOLE, errors=()),
        replace(WHOLE, samples=-1),
        replace(WHOLE, thresholds=(0.1, float("inf"))),
    ],
)
def test_a_curve_that_is_none(bundle, curve):
    description = replace(bundle.description, abstention={"uncertainty": curve})
    with pytest.raises(OfclError, match="its model.json"):
        from_json(to_json(description))


def test_a_perturbation_of_images_that_nobody_knows(run_of_images):
    description = read_bundle(run_of_images / "model").description
    copies = replace(description.uncertainty, perturbations=("hflip", "melt"))
    with pytest.raises(OfclError, match="a perturbation 'melt' that is unknown"):
        from_json(to_json(replace(description, uncertainty=copies)))
