"""What no simulated job can be."""

import pytest
from papers.simulate.jobs import Job


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 0, "epochs": 1}, "speed is above 0"),
        ({"speed": float("inf"), "epochs": 1}, "speed is above 0"),
        ({}, "give epochs, end, or both"),
        ({"epochs": 1, "jitter": -0.1}, "jitter is at least 0"),
    ],
)
def test_it_is_refused_in_words(options, message):
    with pytest.raises(ValueError, match=message):
        Job(**options)
