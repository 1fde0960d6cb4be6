"""What a small job was given, and what it was warned of."""

import warnings

MiB = 1 << 20


def epoch_of(loader):
    """The samples of an epoch, sorted, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = sorted(int(index) for _ in loader for index in loader.last_indices)
    return samples, [str(warning.message) for warning in caught]
