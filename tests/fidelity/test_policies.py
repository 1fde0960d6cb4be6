"""The pairs of AutoAugment are torchvision's."""

import re

import pytest
from oracle.policies import PAIRS
from torchvision_here import torchvision


@pytest.mark.parametrize("policy", PAIRS)
def test_pairs_are_torchvisions(policy):
    kind = torchvision.transforms.AutoAugmentPolicy(policy)
    theirs = torchvision.transforms.AutoAugment(kind).policies
    ours = [[(re.sub("_(.)", lambda m: m[1], name), p, k) for name, p, k in pair] for pair in PAIRS[policy]]
    assert ours == [[(name.lower(), p, k or 0) for name, p, k in pair] for pair in theirs]
