"""How much memory this process and others may still take."""

from __future__ import annotations

from pathlib import Path

from seneca.groups import groups_of

__all__ = ["free_memory"]

PROC = Path("/proc")

# By the version of control groups: limit, usage, what of the usage are files, what is mapped, and
# what of that may be shared memory and no file. In a group of the first version that sums up its children.
FILES_OF = {
    1: (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
        ("total_mapped_file", "total_shmem"),
    ),
    2: ("memory.max", "memory.current", ("inactive_file", "active_file"), ("file_mapped", "shmem")),
}


def free_memory() -> int:
    """What the kernel and this process's control groups still allow, in bytes.

    Memory that holds files in the page cache counts as free: the kernel gives it up. Not so, in a group,
    the files that programs run from: they are needed again at once.
    """
    with open(PROC / "meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    for group, version in groups_of("memory"):
        limit, usage, files, mapped = FILES_OF[version]
        try:
            at_most = (group / limit).read_text().strip()
            used = int((group / usage).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except OSError:
            continue  # no such controller here
        if at_most != "max":
            in_files, (in_maps, shared) = (
                [int(stat.get(name, 0)) for name in names] for names in (files, mapped)
            )
            free = min(free, int(at_most) - used + max(0, sum(in_files) - max(0, in_maps - shared)))
    return max(0, free)
