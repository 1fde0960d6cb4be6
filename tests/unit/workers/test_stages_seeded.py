"""Samples with random numbers of their own."""

import random

import numpy as np
import pytest
import torch

from seneca.data import serialize
from seneca.data.stages import Opaque, Payload
from seneca.forms import Form
from seneca.workers.proof.examples import compare_served
from seneca.workers.stages import SeededStages


class Drawing:
    def __getitem__(self, index):
        return float(torch.rand(())), float(np.random.rand()), random.random()


class InBatches(Drawing):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Kept(Opaque):
    """Stages that draw in each stage that may, and in the label."""

    decoded = 1

    def read(self, index):
        return bytes([index])

    def decode(self, index, data):
        return Payload(data, 0, 0)

    def augment(self, index, decoded):
        return self.dataset[index]

    def augment_encoded(self, index, data):
        return self.dataset[index]

    def present(self, index, augmented):
        return augmented, self.dataset[index]


def seeded(dataset, epoch=(7, 0), kind=Opaque):
    stages = SeededStages(kind(dataset, b"source", 3))
    stages.epoch = epoch
    return stages


@pytest.mark.parametrize("dataset", [Drawing(), InBatches()])
def test_a_sample_is_the_same_whatever_was_made_before_and_beside_it(dataset):
    alone = [seeded(dataset).make([index])[0] for index in range(5)]
    assert seeded(dataset).make(range(5)) == alone
    assert seeded(dataset).make([4, 2]) == [alone[4], alone[2]]
    assert len({part for item in alone for part in item}) == 15, "and each is another"


@pytest.mark.parametrize("epoch", [(8, 0), (7, 1), (2**63 - 1, 5)])
def test_seed_and_epoch_name_the_numbers(epoch):
    here, there = seeded(Drawing()).make([3])[0], seeded(Drawing(), epoch).make([3])[0]
    assert not set(here) & set(there)


def test_a_sample_is_the_same_from_whatever_form_and_its_label_has_numbers_of_its_own():
    stages = seeded(Drawing(), kind=Kept)
    whole = stages.make([3])[0]
    assert stages.augment(3, stages.decode(3, stages.read(3))) == stages.augment_encoded(3, b"") == whole
    item, label = stages.present(3, whole)
    assert item == whole and label != whole
    assert stages.present(3, None)[1] == label


@pytest.mark.parametrize("dataset", [Drawing(), InBatches()])
def test_a_served_sample_can_be_checked(dataset):
    stages = seeded(dataset)
    right, wrong = (serialize.lay_out(stages.make([index])[0]).digest() for index in (3, 4))
    assert compare_served(stages, 3, Form.AUGMENTED, right, is_seeded=True) is True
    assert compare_served(stages, 3, Form.AUGMENTED, wrong, is_seeded=True) is False
