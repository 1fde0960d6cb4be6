"""Fixtures of the tests of faults: caches and jobs of a test's own, of which nothing may be left."""

import pytest

import seneca
from seneca import transforms as T


@pytest.fixture
def load(picture_folder, name):
    """Makes loaders of 48 pictures, in batches of 8, that share the test's own cache."""

    def make(**options):
        dataset = seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(32)]))
        options = {"batch_size": 8, "shuffle": True, "cache": name, "cache_bytes": "2MiB"} | options
        return seneca.DataLoader(dataset, **options)

    return make
