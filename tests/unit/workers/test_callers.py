"""Who of torch's asks a dataset for items is found on the stack."""

from torch.utils.data import DataLoader, Dataset

from seneca.workers.callers import asking_fetcher, init_of_worker


class Asked(Dataset):
    """Each item says who asks: the fetcher's number of the epoch, and the worker_init_fn's name."""

    def __init__(self):
        self.fetchers = []

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.ask()

    def ask(self):
        fetcher, init = asking_fetcher(), init_of_worker()
        if not any(one is fetcher for one in self.fetchers):
            self.fetchers.append(fetcher)
        return len(self.fetchers), fetcher is not None, getattr(init, "__name__", None)


def begin(worker):
    pass


def same(batch):
    return batch


def epoch_of(loader):
    return [item for batch in loader for item in batch]


def test_each_epoch_has_a_fetcher_of_its_own():
    loader = DataLoader(Asked(), 2, collate_fn=same)
    assert epoch_of(loader) == [(1, True, None)] * 4
    assert epoch_of(loader) == [(2, True, None)] * 4


def test_in_workers_that_stay_too_and_their_init_function_is_known():
    options = {"num_workers": 1, "persistent_workers": True, "worker_init_fn": begin}
    loader = DataLoader(Asked(), 2, collate_fn=same, multiprocessing_context="fork", **options)
    assert epoch_of(loader) == [(1, True, "begin")] * 4
    assert epoch_of(loader) == [(2, True, "begin")] * 4


def test_items_that_are_asked_for_by_hand_have_no_caller():
    assert Asked()[0] == (1, False, None)
