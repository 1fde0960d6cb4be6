"""Policies to compare with, under the clock of ``papers.simulate``: each a model of a published system.

All get the same memory, in samples. Where a model is kinder than the system, or less kind, its docstring
says so. All but ``shade`` deliver each sample once an epoch, also where the published artifact does not.
"""

from papers.policies.belady import Belady
from papers.policies.coordinated import Coordinated
from papers.policies.joader import Joader
from papers.policies.minio import MinIO
from papers.policies.nopfs import NoPFS
from papers.policies.page_cache import PageCache
from papers.policies.quiver import Quiver
from papers.policies.shade import Shade
from papers.policies.tensorsocket import TensorSocket
from papers.policies.threshold import Threshold

POLICIES = {
    "threshold": Threshold,
    "quiver": Quiver,
    "joader": Joader,
    "page-cache": PageCache,
    "minio": MinIO,
    "nopfs": NoPFS,
    "belady": Belady,
    "coordinated": Coordinated,
    "tensorsocket": TensorSocket,
    "shade": Shade,
}
