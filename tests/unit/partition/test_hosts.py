"""Several hosts on one storage, with servers and without: values worked out by hand."""

import dataclasses
import math

import pytest
from profiles import ROUND, round_profile

from seneca.partition import (
    ALONE,
    PAPER,
    Cost,
    Hosts,
    Jobs,
    Reading,
    Size,
    Split,
    bottleneck,
    solve,
    torch_loader,
)
from seneca.partition.hosts import REMOTE_CPU_S_PER_BYTE

FILE = 97_952
FILES = ROUND.samples * FILE
NOTHING = round_profile(cache_bytes=4096, free_memory_bytes=4096)
KEPT = Split(1, 0, 0)


def test_without_servers_hosts_divide_the_storage():
    one, four = (bottleneck(NOTHING, KEPT, Jobs(hosts=Hosts(count))) for count in (1, 4))
    assert one.limited_by == four.limited_by == "storage"
    assert four.ceilings["storage"] == pytest.approx(one.ceilings["storage"] / 4)
    assert four.ceilings["cpu"] == one.ceilings["cpu"] and four.ceilings["network"] == math.inf
    assert bottleneck(NOTHING, KEPT, Jobs()) == one, "a host alone is one of one"


def test_what_servers_have_room_for_is_not_read_from_storage():
    hosts = Hosts(4, nic_bytes_per_s=125e6, remote_bytes=FILES // 8)
    found = bottleneck(NOTHING, KEPT, Jobs(hosts=hosts))
    assert hosts.served(FILES) == pytest.approx(0.5)
    assert found.ceilings["storage"] == pytest.approx(50e6 / 4 / (0.5 * FILE))
    # Three quarters of what comes from servers comes from other hosts.
    assert found.ceilings["network"] == pytest.approx(125e6 / (0.5 * 0.75 * FILE))
    served_s = 0.5 * FILE * REMOTE_CPU_S_PER_BYTE
    fetch_s, prepare_s, batch_s = 1e-4, 1.6e-3, 1e-4
    assert found.ceilings["cpu"] == pytest.approx(4 / (prepare_s + 0.5 * fetch_s + batch_s + served_s))


def test_with_room_for_all_files_the_network_may_be_the_limit():
    slow = Hosts(2, nic_bytes_per_s=10e6, remote_bytes=FILES)
    found = bottleneck(NOTHING, KEPT, Jobs(hosts=slow))
    assert (found.ceilings["storage"], found.limited_by) == (math.inf, "network")
    assert found.samples_per_s == pytest.approx(10e6 / (0.5 * FILE))
    own = bottleneck(NOTHING, KEPT, Jobs(hosts=dataclasses.replace(slow, count=1)))
    assert own.ceilings["network"] == math.inf, "its own server is no network away"
    apart = bottleneck(NOTHING, KEPT, Jobs(hosts=dataclasses.replace(slow, count=1, are_apart=True)))
    assert apart.ceilings["network"] == pytest.approx(10e6 / FILE)


def test_what_a_host_keeps_itself_comes_from_no_server():
    hosts = Hosts(2, nic_bytes_per_s=125e6, remote_bytes=FILES)
    found = bottleneck(ROUND, KEPT, Jobs(hosts=hosts))
    assert found.mix == {"storage": 0.5, "encoded": 0.5, "recoded": 0.0, "decoded": 0.0}
    assert found.ceilings["network"] == pytest.approx(125e6 / (0.5 * 0.5 * FILE))


def test_the_page_cache_has_the_files_that_no_server_has():
    profile = round_profile(cache_bytes=4096, free_memory_bytes=4096 + FILES // 2)
    found = bottleneck(profile, KEPT, Jobs(hosts=Hosts(2, remote_bytes=FILES // 4)))
    assert found.page_cache == pytest.approx(1.0)


def test_items_that_are_made_whole_come_from_no_server():
    profile = round_profile(staged=False, cache_bytes=4096, free_memory_bytes=4096)
    with_servers = bottleneck(profile, KEPT, Jobs(hosts=Hosts(2, remote_bytes=FILES)))
    assert with_servers == bottleneck(profile, KEPT, Jobs(hosts=Hosts(2)))


@pytest.mark.parametrize("storage", [40e6, 200e6, 1e9])
@pytest.mark.parametrize("cores", [8, 32])
@pytest.mark.parametrize("count", [1, 4])
def test_a_split_that_counts_on_servers_gains_little(storage, cores, count):
    samples, file_bytes, decoded_bytes = 1_281_167, 110e3, 560e3  # about ImageNet's
    servers = Hosts(4, nic_bytes_per_s=3.125e9, remote_bytes=int(samples * file_bytes))
    for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8):
        memory = int(share * samples * decoded_bytes)
        profile = round_profile(
            samples=samples,
            cores=cores,
            cache_bytes=memory,
            free_memory_bytes=memory + 8 * 10**9,
            storage=(Reading(64, storage, 1e-3),),
            memory_bytes_per_s=40e9,
            encoded=Size(file_bytes),
            decoded=Size(decoded_bytes),
            fetch=Cost(25e-6, 30e-6),
            decode=Cost(0.6e-3, 0.62e-3),
            augment=Cost(0.36e-3, 0.38e-3),
            prepare=Cost(0.98e-3, 1e-3),
            batch=Cost(40e-6, 45e-6),
        )
        alone, with_servers = Jobs(count), Jobs(count, hosts=servers)
        best = solve(profile, with_servers).samples_per_s
        unaware = bottleneck(profile, solve(profile, alone).split, with_servers).samples_per_s
        assert 1.0 <= best / unaware * (1 + 1e-9) < 1.08, share


def test_torchs_loader_on_several_hosts():
    profile = round_profile(free_memory_bytes=4096, item=Cost(1e-4, 1e-4))
    one, two = (
        torch_loader(profile, KEPT, Jobs(threads=8, hosts=Hosts(n, remote_bytes=FILES))) for n in (1, 2)
    )
    assert one.limited_by == two.limited_by == "storage"
    assert two.samples_per_s == pytest.approx(one.samples_per_s / 2)


def test_the_papers_model_is_of_one_host():
    assert PAPER.predict(ROUND, KEPT, Jobs(hosts=ALONE)).samples_per_s > 0
    with pytest.raises(ValueError, match="the paper's model is of one host here"):
        PAPER.predict(ROUND, KEPT, Jobs(hosts=Hosts(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "hosts are at least 1, but got 0"),
        ({"nic_bytes_per_s": 0.0}, "nic_bytes_per_s is above 0"),
        ({"remote_bytes": -1}, "remote_bytes at least 0"),
    ],
)
def test_wrong_hosts(arguments, message):
    with pytest.raises(ValueError, match=message):
        Hosts(**arguments)
