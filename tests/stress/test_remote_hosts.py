"""One training run on several hosts: ranks divide each epoch, and all use what one of them has read.

A host here is a process with a folder of its own for its cache. Its ranks share no memory with others.
"""

import json
import os
import socket

import pytest
import ready
from redis_servers import RedisServer, needs_redis

from seneca.testing import make_pictures

pytestmark = needs_redis
COUNT = 120
EPOCHS = 3

RANK = """
import json, os, sys, time
import torch.distributed, torch.utils.data
import seneca
from seneca import transforms as T

folder, remote, caches, cache = sys.argv[1:]
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
os.environ["SENECA_DIR"] = os.path.join(caches, f"host-{rank}")
os.mkdir(os.environ["SENECA_DIR"], 0o700)
data = seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
sampler = torch.utils.data.DistributedSampler(data)
loader = seneca.DataLoader(
    data, 8, sampler=sampler, num_workers=1, remote=remote,
    cache=cache or None, cache_bytes="2MiB", split="0-100-0",
)
found = []
for epoch in range(int(os.environ["EPOCHS"])):
    sampler.set_epoch(epoch)
    before = loader.stats()["read_bytes"]
    seen = [int(index) for _ in loader for index in loader.last_indices]
    torch.distributed.barrier()
    time.sleep(0.5)  # for the servers to take what was sent last
    found.append((seen, loader.stats()["read_bytes"] - before, loader.stats()["remote"]))
with open(os.path.join(caches, f"found-{rank}.json"), "w") as file:
    json.dump(found, file)
torch.distributed.destroy_process_group()
"""


@pytest.mark.small(1)
@pytest.mark.parametrize("cache", ["mine", ""])
def test_ranks_of_hosts_divide_epochs_and_share_what_was_read(tmp_path, cache):
    folder = make_pictures(tmp_path / "pictures", count=COUNT, classes=2)
    caches, script = tmp_path / "caches", tmp_path / "rank.py"
    caches.mkdir()
    script.write_text(RANK)
    with RedisServer(tmp_path / "redis") as one, RedisServer(tmp_path / "other") as other:
        remote = f"{one.url},{other.name}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "EPOCHS": str(EPOCHS)}
        running = [
            ready.Script(script, folder, remote, caches, cache, env={**os.environ, **meeting, "RANK": rank})
            for rank in "01"
        ]
        for rank in running:
            _, errors = rank.communicate()
            assert rank.returncode == 0, errors
        stored = [int(server.ask("DBSIZE")[1:]) for server in (one, other)]
    assert sum(stored) == COUNT and min(stored) > COUNT // 4
    ranks = [json.loads((caches / f"found-{rank}.json").read_text()) for rank in range(2)]
    for epoch in range(EPOCHS):
        (mine, my_bytes, _), (others, other_bytes, _) = (rank[epoch] for rank in ranks)
        assert len(mine) == len(others) == COUNT // 2
        assert sorted(mine + others) == list(range(COUNT))
        assert (my_bytes + other_bytes == 0) == (epoch > 0), ranks
