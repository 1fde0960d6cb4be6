"""Shards that WebDataset writes: Seneca has the samples that WebDataset's own loader has."""

import pytest
import torch
from torchvision_here import v1

import seneca
from seneca.testing import make_pictures

webdataset = pytest.importorskip(
    "webdataset", reason="webdataset is not here; `make test-frameworks` installs it"
)

import links  # noqa: E402
import source_peers  # noqa: E402


def test_samples_are_those_that_webdataset_reads(tmp_path):
    folder = seneca.ImageFolder(make_pictures(tmp_path / "train", count=40, classes=4))
    with webdataset.ShardWriter(str(tmp_path / "train-%03d.tar"), maxcount=15, verbose=0) as shards:
        for number, (_, label) in enumerate(folder.samples):
            shards.write({"__key__": f"some/{number:06}", "jpg": folder.read(number), "cls": label})
    urls = sorted(str(path) for path in tmp_path.glob("train-*.tar"))
    theirs = {
        sample["__key__"]: (sample["jpg"], int(sample["cls"]))
        for sample in webdataset.WebDataset(urls, shardshuffle=False)
    }
    opened = seneca.open(str(tmp_path / "train-{000..002}.tar"))
    ours = {
        name.removesuffix(".jpg"): (opened.read(place), opened.targets[place])
        for place, name in enumerate(opened.listing.names)
    }
    assert ours == theirs and len(ours) == 40


def test_the_loader_that_is_compared_delivers_each_sample_once_an_epoch(tmp_path):
    pictures = links.pictures_of(make_pictures(tmp_path / "train", count=40, classes=40))
    source_peers.write_shards(pictures, tmp_path / "shards")
    own = v1.Compose([v1.RandomResizedCrop(32), v1.ToTensor()])
    loader = source_peers.loader_of_peer("webdataset", str(tmp_path / "shards"), own, 8, 2)
    for _ in range(2):
        batches = list(loader)
        assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == list(range(40))
        assert {images.shape[1:] for images, _ in batches} == {(3, 32, 32)}
