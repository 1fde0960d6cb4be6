"""How a cache's memory is divided among the forms of a sample. Pure functions: no torch, no native core.

::

    Profile (rates, sizes) --+
    Jobs ---------------------+--> model --> Prediction (samples/s, what limits)
    Split --------------------+
    solve: the Split that a model likes best
"""

from seneca.partition.advice import Worth, cores_that_help, curve, least_memory, worth
from seneca.partition.bottleneck import BOTTLENECK, bottleneck
from seneca.partition.drift import Adaptation, Change, Seen, Spent, profile_of
from seneca.partition.estimate import Model, Prediction
from seneca.partition.hosts import ALONE, Hosts
from seneca.partition.jobs import Jobs
from seneca.partition.paper import PAPER, paper
from seneca.partition.profile import Cost, Profile, ProfileError, Reading, Size
from seneca.partition.solve import refine, solve
from seneca.partition.split import Split, default_split, split_as_written
from seneca.partition.torch_model import TORCH, torch_loader

__all__ = [
    "ALONE",
    "BOTTLENECK",
    "PAPER",
    "TORCH",
    "Adaptation",
    "Change",
    "Cost",
    "Hosts",
    "Jobs",
    "Model",
    "Prediction",
    "Profile",
    "ProfileError",
    "Reading",
    "Seen",
    "Size",
    "Spent",
    "Split",
    "Worth",
    "bottleneck",
    "cores_that_help",
    "curve",
    "default_split",
    "least_memory",
    "paper",
    "profile_of",
    "refine",
    "solve",
    "split_as_written",
    "torch_loader",
    "worth",
]
