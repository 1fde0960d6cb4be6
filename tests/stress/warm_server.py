"""What a server that forks jobs has done before the first of them: as ``loaded`` of the tests' conftest."""

import torch

import seneca.loader  # noqa: F401
from seneca.identity import fingerprint

fingerprint(torch.relu)
