"""The model that Seneca's paper publishes: equations 1 to 9.

It is kept for comparison, and follows the paper also where the paper is odd. docs/models.md says where it
differs from measurements. Source: Desai et al., "Preparation Meets Opportunity: Enhancing Data
Preprocessing for ML Training With Seneca", FAST '26, section 5.1.

Each form has a throughput: the least of what cache, network, PCIe, CPU and GPU allow. The prediction is the
mean of these throughputs. The weights are the shares of samples that are found in each form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seneca.partition.estimate import Estimates, Model, Prediction, shares_of
from seneca.partition.hosts import ALONE
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Profile
from seneca.partition.split import Split

__all__ = [
    "PAPER",
    "Dataset",
    "Machine",
    "Throughputs",
    "paper",
    "throughputs",
]


@dataclass(frozen=True)
class Machine:
    """A training node, with the cache and the storage that it reaches. The paper's symbols are in
    parentheses.

    Args:
        gpu_per_s: Samples a second that a node's GPUs take (T_GPU).
        decode_augment_per_s: Samples a second that its CPU decodes and augments (T_D+A).
        augment_per_s: Samples a second that its CPU augments (T_A).
        nic_bytes_per_s: Bandwidth of its network (B_NIC).
        pcie_bytes_per_s: Bandwidth of its PCIe (B_PCIe).
        cache_bytes_per_s: Bandwidth of the cache, for all nodes (B_cache).
        storage_bytes_per_s: Bandwidth of storage, for all nodes (B_storage).
        cache_bytes: Size of the cache (S_cache, S_mem).
        nodes: Training nodes, all alike (n).
        nic_overhead_bytes: Bytes of gradients, for each sample's trip over the network (C_nw).
        pcie_overhead_bytes: Bytes of gradients, for each sample's trip over PCIe (C_PCIe).
    """

    gpu_per_s: float
    decode_augment_per_s: float
    augment_per_s: float
    nic_bytes_per_s: float
    pcie_bytes_per_s: float
    cache_bytes_per_s: float
    storage_bytes_per_s: float
    cache_bytes: float
    nodes: int = 1
    nic_overhead_bytes: float = 0.0
    pcie_overhead_bytes: float = 0.0


@dataclass(frozen=True)
class Dataset:
    """A dataset as the paper sees one.

    Args:
        samples: The number of samples (N_total).
        encoded_bytes: The mean size of a file (S_data).
        inflation: The size of a decoded or augmented sample divided by that of its file (M).
    """

    samples: float
    encoded_bytes: float
    inflation: float = 5.12


class Throughputs(NamedTuple):
    """Equations 1, 3, 5 and 7, in samples a second; and 2, 4, 6 and 8, in samples, as arrays of length n."""

    augmented_per_s: float
    decoded_per_s: float
    encoded_per_s: float
    storage_per_s: float
    augmented: np.ndarray
    decoded: np.ndarray
    encoded: np.ndarray
    storage: np.ndarray

    def overall(self, samples: float) -> np.ndarray:
        """Equation 9, in samples a second."""
        return (
            self.augmented * self.augmented_per_s
            + self.decoded * self.decoded_per_s
            + self.encoded * self.encoded_per_s
            + self.storage * self.storage_per_s
        ) / samples


def throughputs(machine: Machine, dataset: Dataset, shares: np.ndarray) -> Throughputs:
    """Equations 1 to 8.

    Args:
        machine: A machine of Table 5, or another.
        dataset: The dataset of the training.
        shares: float64 (n, 4), as for a :class:`Model`: x_E, 0, x_D, x_A of each split.

    Raises:
        ValueError: A split has a share for RECODED, a form that the paper does not have.
    """
    rates = _paths(machine, dataset)
    x_encoded, x_recoded, x_decoded, x_augmented = shares.T
    if np.any(x_recoded > 0):
        raise ValueError("the paper's model has no RECODED form; leave out that share, or --model")
    tensor_bytes = dataset.inflation * dataset.encoded_bytes
    augmented = np.minimum(dataset.samples, x_augmented * machine.cache_bytes / tensor_bytes)  # (2)
    decoded = np.minimum(dataset.samples - augmented, x_decoded * machine.cache_bytes / tensor_bytes)  # (4)
    encoded = np.minimum(
        dataset.samples - augmented - decoded, x_encoded * machine.cache_bytes / dataset.encoded_bytes
    )  # (6)
    storage = dataset.samples - augmented - decoded - encoded  # (8)
    least = {form: min(limits.values()) for form, limits in rates.items()}
    return Throughputs(
        least["augmented"],
        least["decoded"],
        least["encoded"],
        least["storage"],
        augmented,
        decoded,
        encoded,
        storage,
    )


def _paths(machine: Machine, dataset: Dataset) -> dict[str, dict[str, float]]:
    """The rate that each component allows on the path of each form. Equations 1, 3, 5, 7 take the least."""
    n = machine.nodes
    sample_bytes = dataset.encoded_bytes
    tensor_bytes = dataset.inflation * sample_bytes
    pcie = n * machine.pcie_bytes_per_s / (tensor_bytes + machine.pcie_overhead_bytes)
    tensor = {
        "cache": machine.cache_bytes_per_s / tensor_bytes,
        "network": n * machine.nic_bytes_per_s / (tensor_bytes + machine.nic_overhead_bytes),
        "pcie": pcie,
        "step": n * machine.gpu_per_s,
    }
    encoded = {
        "cache": machine.cache_bytes_per_s / sample_bytes,
        "network": n * machine.nic_bytes_per_s / (sample_bytes + machine.nic_overhead_bytes),
        "cpu": n * machine.decode_augment_per_s,
        "pcie": pcie,
        "step": n * machine.gpu_per_s,
    }
    return {
        "augmented": tensor,
        "decoded": {**tensor, "cpu": n * machine.augment_per_s},
        "encoded": encoded,
        "storage": {**encoded, "storage": machine.storage_bytes_per_s / sample_bytes},
    }


def paper(profile: Profile, split: Split, jobs: Jobs) -> Prediction:
    """Predict as the paper does: the pipeline of one job, with this host's rates for the paper's symbols.

    The cache is the host's own memory. Therefore B_cache is the memory's bandwidth, and network and PCIe
    are no limit. The equations have no jobs and no sharing: T_GPU is the sum of the paces of all steps.

    Args:
        profile: Rates of the host with the dataset, and the memory for payloads.
        split: Shares of that memory.
        jobs: The jobs whose steps take samples.

    Raises:
        ValueError: The split has a share for RECODED, or the jobs have several hosts.
    """
    machine, dataset = _of_profile(profile, jobs)
    found = throughputs(machine, dataset, shares_of(split))
    total = float(found.overall(dataset.samples)[0])
    mix = {
        form: float(getattr(found, form)[0]) / dataset.samples
        for form in ("storage", "encoded", "decoded", "augmented")
    }
    longest = max(mix, key=lambda form: mix[form] / getattr(found, f"{form}_per_s"))
    limits = _paths(machine, dataset)[longest]
    weights = [
        pace / sum(jobs.paces) if math.isfinite(sum(jobs.paces)) else 1 / jobs.count for pace in jobs.paces
    ]
    return Prediction(
        split=split,
        samples_per_s=total,
        per_job=tuple(total * weight for weight in weights),
        limited_by=min(limits, key=lambda name: limits[name]),
        filled_bytes={form: float(filled[0]) for form, filled in _filled_bytes(found, dataset).items()},
        mix={**mix, "recoded": 0.0},
    )


def _estimate(profile: Profile, shares: np.ndarray, jobs: Jobs) -> Estimates:
    machine, dataset = _of_profile(profile, jobs)
    found = throughputs(machine, dataset, shares)
    return Estimates(
        found.overall(dataset.samples), sum(_filled_bytes(found, dataset).values(), np.zeros(()))
    )


PAPER = Model("paper", paper, _estimate, has_recoded=False)


def _filled_bytes(found: Throughputs, dataset: Dataset) -> dict[str, np.ndarray]:
    tensor_bytes = dataset.inflation * dataset.encoded_bytes
    return {
        "encoded": found.encoded * dataset.encoded_bytes,
        "decoded": found.decoded * tensor_bytes,
        "augmented": found.augmented * tensor_bytes,
    }


def _of_profile(profile: Profile, jobs: Jobs) -> tuple[Machine, Dataset]:
    if jobs.hosts != ALONE:
        raise ValueError("the paper's model is of one host here; leave out hosts, nic and remote, or --model")
    return (
        Machine(
            gpu_per_s=sum(jobs.paces),
            decode_augment_per_s=profile.cores / (profile.prepare.all_s + profile.batch.all_s),
            augment_per_s=profile.cores / (profile.augment.all_s + profile.batch.all_s),
            nic_bytes_per_s=math.inf,
            pcie_bytes_per_s=math.inf,
            cache_bytes_per_s=profile.memory_bytes_per_s,
            storage_bytes_per_s=profile.storage_bytes_per_s,
            cache_bytes=profile.cache_bytes,
        ),
        Dataset(profile.samples, profile.encoded.mean_bytes, profile.inflation),
    )
