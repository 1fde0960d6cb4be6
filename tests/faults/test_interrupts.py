"""A Ctrl-C at an unhappy moment: nothing is swallowed, and nothing complains."""

import gc
import sys

import pytest
import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

import seneca
from seneca.workers import messages


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return index


def interrupt(*_, **__):
    raise KeyboardInterrupt


MOMENTS = {
    "the first queue": (messages.Context, "Queue"),
    "the event": (messages.Context, "Event"),
    "the workers": (messages.Context, "Process"),
    "their first batches": (_MultiProcessingDataLoaderIter, "_reset"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while_torch_s_workers_are_begun_is_raised_and_that_is_all(name, moment, monkeypatch):
    monkeypatch.setattr(*MOMENTS[moment], interrupt, raising=False)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: unraisable.append(found.exc_value))
    loader = seneca.DataLoader(Rows(), 4, cache=name, cache_bytes="2MiB", num_workers=2)
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    gc.collect()
    assert unraisable == []
    monkeypatch.undo()
    assert sorted(torch.cat(list(loader)).tolist()) == list(range(16))
