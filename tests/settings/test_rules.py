"""Settings that would have no effect are refused."""

import pytest

from ofcl import OfclError, make_settings
from ofcl.settings.rules import check_noise


@pytest.mark.parametrize("values", [{"dp_noise": 4.0}, {"dp_delta": 1e-6}])
def test_noise_that_nobody_adds_is_refused(values):
    with pytest.raises(OfclError, match="would do nothing without dp_clip"):
        check_noise(make_settings(values))  # older runs that have it can still be read
    check_noise(make_settings({**values, "dp_clip": 1.0}))
    check_noise(make_settings({}))
