"""What bench_sources loads is the same pictures, in each kind of container; what is missing is named."""

import sys

import bench_sources
import links
import pytest
import source_peers

import seneca


def test_shards_have_the_pictures_and_labels_of_the_folder(picture_folder, tmp_path):
    folder = seneca.ImageFolder(picture_folder)
    source_peers.write_shards(links.pictures_of(picture_folder), tmp_path / "shards")
    shards = seneca.open(str(tmp_path / "shards" / "train-*.tar"))
    assert len(shards.listing.containers) == source_peers.SHARDS
    place_of = {int(name.partition(".")[0]): place for place, name in enumerate(shards.listing.names)}
    assert sorted(place_of) == list(range(len(folder)))
    for number, (_, label) in enumerate(folder.samples):
        assert shards.read(place_of[number]) == folder.read(number)
        assert shards.targets[place_of[number]] == label


def test_all_containers_have_as_many_pictures(picture_folder, tmp_path):
    for what, where in bench_sources.pack(picture_folder, tmp_path).items():
        if what not in source_peers.PEERS and "://" not in where:
            assert len(bench_sources.loader_of(what, where).dataset) == 48, what


@pytest.mark.parametrize(("peer", "package"), [(peer, of[0]) for peer, of in source_peers.PEERS.items()])
def test_a_loader_that_is_not_installed_is_named(
    picture_folder, tmp_path, monkeypatch, capsys, peer, package
):
    for _, module in source_peers.PEERS.values():
        monkeypatch.setitem(sys.modules, module, None)
    assert source_peers.missing(peer) == package
    assert peer not in bench_sources.pack(picture_folder, tmp_path)
    assert f"{peer}: left out; pip install {package}\n" in capsys.readouterr().out
