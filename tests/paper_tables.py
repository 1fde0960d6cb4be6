"""What Desai et al. (FAST '26) print: the machines of Table 5, the datasets and splits of Table 6."""

from seneca.partition.paper import Dataset, Machine

GIGABIT = 1e9 / 8  # bytes

MACHINES = {
    "in-house": Machine(4550, 2132, 4050, 10 * GIGABIT, 32e9, 10 * GIGABIT, 500e6, 64e9),
    "aws": Machine(9989, 3432, 6520, 10 * GIGABIT, 32e9, 10 * GIGABIT, 256e6, 64e9),
    "azure": Machine(14301, 9783, 12930, 80 * GIGABIT, 64e9, 30 * GIGABIT, 250e6, 64e9),
}
"""Table 5: the in-house server (2 x RTX 5000), AWS p3.8xlarge (4 x V100), Azure NC96ads_v4 (4 x A100)."""

DATASETS = {
    "imagenet-1k": Dataset(1.3e6, 114.62e3),
    "openimages-v7": Dataset(1.9e6, 315.84e3),
    "imagenet-22k": Dataset(14e6, 91.39e3),
}
"""Table 6, columns Images and Avg. Image size. The inflation is from Table 5."""

EVALUATION_CACHE_BYTES = {"in-house": 115e9, "aws": 400e9, "azure": 400e9}
"""Section 7: the remote caches of the evaluation. The splits of Table 6 are for these."""

TABLE_6 = {
    "imagenet-1k": {
        ("in-house", 1): "58-42-0",
        ("in-house", 2): "40-59-1",
        ("aws", 1): "0-81-19",
        ("azure", 1): "0-48-52",
        ("azure", 2): "0-53-47",
    },
    "openimages-v7": {
        ("in-house", 1): "62-37-1",
        ("in-house", 2): "58-41-1",
        ("aws", 1): "52-48-0",
        ("azure", 1): "5-95-0",
        ("azure", 2): "6-93-1",
    },
    "imagenet-22k": {
        ("in-house", 1): "100-0-0",
        ("in-house", 2): "100-0-0",
        ("aws", 1): "100-0-0",
        ("azure", 1): "100-0-0",
        ("azure", 2): "100-0-0",
    },
}
"""Table 6, columns MDP: from machine and number of nodes to the split that the paper prints."""


def ring_reduce_bytes(participants: int, model_bytes: float) -> float:
    """The bytes that ring-reduce moves for a batch: 2 (n - 1) / n times the model.

    In C_nw the paper takes the GPUs of a node for n; in C_PCIe it takes the nodes. It prints the result as
    bytes a batch, and adds it to the bytes of one sample (equations 1, 3, 5). For bytes a sample, divide by
    the samples of a batch.
    """
    return 2 * (participants - 1) / participants * model_bytes
