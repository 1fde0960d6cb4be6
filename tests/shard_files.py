"""Shards as WebDataset has them, for tests of their indexes and lists."""

import io
import tarfile

__all__ = ["write_shard"]


def write_shard(path, names, size=700):
    """A shard, and its members as ``wds2idx`` has them: sample by sample, (ending, offset, size, name)."""
    with tarfile.open(path, "w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = size if name.endswith(".jpg") else 1
            info.mtime = 0.5  # such a time needs an extended header, as the shards of WebDataset have them
            archive.addfile(info, io.BytesIO(b"7" * info.size))
    samples = {}
    with tarfile.open(path) as archive:
        for member in archive:
            key, _, ending = member.name.partition(".")
            samples.setdefault(key, []).append((ending, member.offset_data, member.size, member.name))
    return list(samples.values())
