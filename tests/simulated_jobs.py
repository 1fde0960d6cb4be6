"""Jobs under a virtual clock."""

import numpy as np
from papers.simulate import Batch

N = 3000


class Alone:
    """A policy without any sharing: each job prepares its own, in order."""

    def __init__(self, n_samples):
        self.n_samples = n_samples
        self.at = {}
        self.known = []
        self.here = set()

    def join(self, job):
        self.here.add(job)

    def leave(self, job):
        self.here.remove(job)

    def begin(self, job, epoch):
        self.at[job] = 0

    def end(self, job):
        del self.at[job]

    def draw(self, job, wanted):
        first, self.at[job] = self.at[job], min(self.at[job] + wanted, self.n_samples)
        if first == self.at[job]:
            return None
        indices = np.arange(first, self.at[job], dtype=np.uint32)
        return Batch(indices, np.zeros(len(indices), np.uint8))

    def prepared(self, job, batch, first, end):
        self.known += batch.indices[batch.misses[first:end]].tolist()
