"""Checks of memory: who may take how much, who is charged for it, where it goes when it is short."""

from __future__ import annotations

import platform
import re

from seneca._runtime.cgroups import oom_kills
from seneca._runtime.memory import limits, meminfo, until_throttled
from seneca.cli.checks.finding import Finding, ok, problem, unknown, warning
from seneca.cli.checks.host import Host
from seneca.cli.planning.what_if import show_bytes

__all__ = ["huge_pages", "kills", "limit", "overcommit", "pressure", "swapped", "throttled"]

LITTLE_BYTES = 512 << 20
MUCH_SWAP = 1 / 20  # of all memory
MUCH_PRESSURE = 10.0  # percent of a minute in which some task waited for memory
COLLAPSE_SINCE = (6, 1)  # Linux
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"


def limit(host: Host) -> Finding:
    """Whether a control group allows less memory than the cache's folder offers."""
    if host.folder_fault is not None:
        return unknown("SENECA_DIR cannot hold a cache")
    if not host.caches_in_memory:
        return ok(
            f"the cache lies on a disk ({host.folder}): the kernel takes its memory back when it is short"
        )
    this_host, *all_groups = limits(host.root)
    of_groups = [one for one in all_groups if one.most < this_host.most]
    if not of_groups:
        return ok("no control group limits memory")
    least, free = min(of_groups, key=lambda one: one.most), host.space(host.folder).free_bytes
    most = max(0, least.most)
    found = f"{least.name} allows {show_bytes(most)} more, {host.folder} {show_bytes(free)}"
    who_pays = "The job that first writes a page of the cache pays for it"
    if most < LITTLE_BYTES:
        return problem(f"{found}. {who_pays}, and the kernel kills it at the limit", _more_memory(host))
    if most < free:
        give = f'give the loader cache_bytes="{show_bytes(most // 2)}" or less, or the group more memory'
        return warning(f"{found}. {who_pays}, and the kernel kills it at the limit", give)
    return ok(f"{found}. {who_pays}")


def _more_memory(host: Host) -> str:
    if host.in_kubernetes:
        return "in the pod, raise resources.limits.memory by the size of the cache"
    if host.in_container:
        return "docker run --memory=... with the size of the cache added"
    return "in Slurm: sbatch --mem=...; with systemd: systemd-run --user --scope -p MemoryMax=..."


def throttled(host: Host) -> Finding:
    """Whether memory.high of a control group is near, where the kernel slows a job down without a word."""
    left = until_throttled(host.root)
    if left is None:
        return ok("no control group has memory.high set")
    if left < LITTLE_BYTES:
        return warning(
            f"{show_bytes(max(0, left))} are left below memory.high: beyond it the kernel slows jobs down",
            "raise memory.high, with systemd: sudo systemctl set-property UNIT MemoryHigh=infinity",
        )
    return ok(f"{show_bytes(left)} are left below memory.high")


def kills(host: Host) -> Finding:
    """Whether the kernel has killed processes of this control group for lack of memory."""
    count = oom_kills(host.root)
    if count == 0:
        return ok("the kernel has killed no process of this control group for lack of memory")
    return warning(
        f"the kernel has killed {count:,} {'process' if count == 1 else 'processes'} of this control group "
        "for lack of memory",
        "give the loader a smaller cache_bytes or fewer num_workers",
    )


def swapped(host: Host) -> Finding:
    """Whether much of memory is swapped out: the cache is memory that may be."""
    fields = meminfo(host.root)
    total = fields.get("SwapTotal", 0)
    used = total - fields.get("SwapFree", 0)
    if total == 0:
        return ok("there is no swap: the cache stays in memory")
    found = f"{show_bytes(used)} of {show_bytes(total)} of swap are in use"
    if used > MUCH_SWAP * fields["MemTotal"]:
        return warning(
            f"{found}: samples that were swapped out come back slower than from their files",
            "give the loader a smaller cache_bytes, then: sudo swapoff -a && sudo swapon -a",
        )
    return ok(found)


def overcommit(host: Host) -> Finding:
    """Whether the kernel refuses memory that it has, because too much is promised."""
    mode = host.read("/proc/sys/vm/overcommit_memory")
    if mode is None:
        return unknown("the kernel does not say vm.overcommit_memory")
    if mode == "2" and host.caches_in_memory:
        fields, free = meminfo(host.root), host.space(host.folder).free_bytes
        left = max(0, fields["CommitLimit"] - fields["Committed_AS"])
        found = f"vm.overcommit_memory=2: the kernel promises {show_bytes(left)} more"
        if left < free:
            return warning(
                f"{found}, though {host.folder} has room for {show_bytes(free)}",
                "sudo sysctl vm.overcommit_memory=0",
            )
        return ok(found)
    return ok(f"vm.overcommit_memory={mode}")


def huge_pages(host: Host) -> Finding:
    """Whether the cache can use huge pages, with which records are found faster."""
    chosen = re.search(r"\[(\w+)\]", host.read(HUGE_PAGES) or "")
    if chosen is None:
        return unknown("the kernel does not say what it does about huge pages in shared memory")
    if chosen[1] not in ("never", "deny"):
        return ok(f"shmem_enabled is {chosen[1]}: the cache may lie in huge pages")
    release = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
    by_hand = release >= COLLAPSE_SINCE
    what = "the records alone lie in them" if by_hand and chosen[1] == "never" else "the cache has none"
    return ok(f"shmem_enabled is {chosen[1]}: {what}", f"echo advise | sudo tee {HUGE_PAGES}")


def pressure(host: Host) -> Finding:
    """Whether tasks wait for memory, and whether the kernel says what they wait for."""
    waits = {}
    for what in ("memory", "io", "cpu"):
        if found := re.search(r"some .*avg60=([\d.]+)", host.read(f"/proc/pressure/{what}") or ""):
            waits[what] = float(found[1])
    scheduling = "" if host.read("/proc/self/schedstat") else "; it keeps no schedstat"
    if "memory" not in waits:
        return unknown(f"the kernel does not say what tasks wait for{scheduling}", "boot Linux with psi=1")
    shares = ", ".join(f"{what} {share:.0f} %" for what, share in waits.items())
    found_text = f"of the last minute, some task waited for {shares}{scheduling}"
    if waits["memory"] >= MUCH_PRESSURE:
        return warning(found_text, "give the loader a smaller cache_bytes, or start fewer jobs")
    return ok(found_text)
