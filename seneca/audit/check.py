"""Checks audit logs, and nothing else, against the five invariants of sampling: see :mod:`seneca.audit.log`.

1. A completed epoch delivers each of its samples exactly once. An epoch that was left delivers no sample
   twice. A copy is delivered as the sample that it was made of.
2. One augmented copy reaches a job at most once while the job is attached.
3. Orders are random: a sample's place, its neighbours, and one epoch beside another. The last allows for
   copies that other jobs made. Where the seed alone is to decide the order, it does in each job.
4. Batches have their size, and ranks have equally many batches.
5. A resumed epoch delivers, with what was delivered before, each sample exactly once.

The report counts what could not be checked.

Logs are read epoch by epoch. Memory throughout is 32 bytes for each sample of a loader, and 24 bytes for each
copy that jobs shared.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seneca.audit.log import (
    FORM_FROM_HOST,
    FORM_UNKNOWN,
    NO_SLOT,
    SUFFIX,
    BadLog,
    Content,
    Header,
    read,
    read_header,
)
from seneca.audit.randomness import LEAST_SAMPLES, Orders, Test
from seneca.forms import Form

__all__ = ["INVARIANTS", "Report", "Violation", "check"]

INVARIANTS = {
    1: "each sample exactly once an epoch",
    2: "one copy reaches one job at most once",
    3: "orders are random",
    4: "batches are exact, and equally many a rank",
    5: "a resume continues its epoch",
}
AUGMENTED = Form.AUGMENTED
EXAMPLES = 8  # indices that a violation names
FALSE_ALARM = 1e-6  # its probability, for all tests of one check together


@dataclass(frozen=True)
class Violation:
    """A broken invariant.

    Attributes:
        invariant: The number of the invariant, 1 to 5.
        kind: A word or two, the same for all violations of the kind.
        job, loader, epoch: Where it was found. -1: a worker's log does not say.
        indices: The first of the samples that it is about.
        text: A sentence.
    """

    invariant: int
    kind: str
    job: str
    loader: int
    epoch: int
    indices: list[int]
    text: str


@dataclass
class Report:
    """The result of a check: what was checked, and what was found.

    Attributes:
        files, torn_files: The logs, and those of them that break off within a frame.
        jobs: The training runs that wrote them.
        samples: The samples delivered to all jobs.
        epochs, incomplete: The whole epochs of loaders, and those that were left half-way.
        own_order: Epochs in an order of the user's, which promises nothing.
        served: Samples by the form they were served from.
        checked: How much was checked by each invariant: epochs, copies, tests, batches, resumed epochs.
        unchecked: By invariant, what could not be checked, and how many of it.
        violations: All violations, sorted by invariant, job, loader and epoch.
    """

    files: int = 0
    torn_files: int = 0
    jobs: int = 0
    samples: int = 0
    epochs: int = 0
    incomplete: int = 0
    own_order: int = 0
    served: dict[str, int] = field(default_factory=lambda: {form.name.lower(): 0 for form in Form})
    checked: dict[int, int] = field(default_factory=lambda: dict.fromkeys(INVARIANTS, 0))
    unchecked: dict[int, dict[str, int]] = field(default_factory=lambda: {i: {} for i in INVARIANTS})
    violations: list[Violation] = field(default_factory=list)

    def leaves_out(self, invariant: int, what: str, count: int = 1) -> None:
        """Count what is not checked against an invariant."""
        if count:
            self.unchecked[invariant][what] = self.unchecked[invariant].get(what, 0) + count


@dataclass(frozen=True)
class _Entry:
    path: Path
    header: Header


def check(folder: Path) -> Report:
    """Check all logs of a folder.

    Returns:
        What was checked, and the violations. The tests of randomness of one check together raise a false
        alarm at most once in a million checks.

    Raises:
        BadLog: The folder has no log, or one that cannot be read.
    """
    if not folder.is_dir():
        raise BadLog(f"there is no folder {folder}; give the one that SENECA_AUDIT named when the jobs ran")
    report = Report()
    entries = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        report.files += 1
        header = read_header(path)
        if header is None:
            report.torn_files += 1
        else:
            entries.append(_Entry(path, header))
    if not entries:
        raise BadLog(f"there is no audit log in {folder}; SENECA_AUDIT={folder} makes jobs write them")
    report.jobs = len({entry.header.job for entry in entries})
    logs = {entry.header.log: entry for entry in entries}
    copies = _Copies(entries)
    for entry in entries:
        if entry.header.kind == "served":
            _read(entry, report, copies)
    went_on = _went_on(entries, report)
    tests: list[tuple[_Epoch, Test]] = []
    exact = _ExactOrders()
    for epochs in _epochs_by_loader(entries):
        orders = Orders(epochs[0].samples)
        judged = epochs[0]
        for epoch in epochs:
            epoch.read(report, copies)
            epoch.check(report, logs, went_on)
            report.violations += exact.differ(epoch)
            if epoch.is_whole_and_shuffled and len(epoch.sequence) >= LEAST_SAMPLES:
                judged = epoch
                found = orders.judge(epoch.header.turn, epoch.sequence, epoch.places, epoch.out_of_turn)
                tests += [(epoch, test) for test in found]
            elif epoch.is_whole_and_shuffled:
                report.leaves_out(3, f"orders of less than {LEAST_SAMPLES} samples")
            epoch.contents.clear()
        tests += [(judged, test) for test in orders.judge_all()]
        what = "epochs beside the one before by place: samples came out of turn"
        report.leaves_out(3, what, orders.uncompared)
    report.checked[2] = copies.count
    report.violations += copies.reached_twice(logs)
    report.violations += copies.of_another_sample(report, logs)
    report.checked[3] = len(tests)
    for epoch, test in tests:
        if test.p < FALSE_ALARM / len(tests):
            what = f"{test.what}: by chance one order in {1 / max(test.p, 1e-99):.0e}"
            report.violations.append(epoch.violation(3, "order", what))
    report.violations.sort(key=lambda v: (v.invariant, v.job, v.loader, v.epoch))
    return report


def _read(entry: _Entry, report: Report, copies: _Copies) -> Content:
    content = read(entry.path)
    report.torn_files += content.torn_bytes > 0
    forms = np.bincount(content.records["form"], minlength=FORM_UNKNOWN + 1)
    for form in Form:
        report.served[form.name.lower()] += int(forms[form])
    report.served["augmented"] += int(forms[FORM_FROM_HOST])
    copies.add(entry, content.records)
    if len(content.differed):
        h, of_worker = entry.header, entry.header.kind == "served"
        where = -1 if of_worker else h.loader, -1 if of_worker else h.epoch
        indices = content.differed[:EXAMPLES].tolist()
        text = (
            f"job {h.job}: {len(content.differed)} samples that it was served from the cache differed "
            f"when it made them again: {', '.join(map(str, indices))}"
        )
        report.violations.append(Violation(1, "content", h.job, *where, indices, text))
    return content


# Epochs


def _epochs_by_loader(entries: Iterable[_Entry]) -> list[list[_Epoch]]:
    """The epochs of each loader, in their order. One epoch has the logs of all its ranks."""
    by_rank: dict[tuple[Any, ...], list[_Entry]] = defaultdict(list)
    for entry in entries:
        h = entry.header
        if h.kind == "delivered":
            # A resumed run, perhaps with other ranks, or one that set another epoch, counts its turns anew.
            loader = h.job, h.dataset, h.loader, h.ranks, h.epoch - h.turn
            by_rank[loader, (h.turn, bool(h.resumed)), h.rank].append(entry)
    loaders: dict[tuple[Any, ...], dict[tuple[int, bool], list[_Entry]]]
    loaders = defaultdict(lambda: defaultdict(list))
    for (loader, turn, _), same in by_rank.items():
        # A job that runs again under the same name counts anew too.
        for run, entry in enumerate(sorted(same, key=lambda entry: entry.header.began)):
            loaders[loader, run][turn].append(entry)
    return [[_Epoch(turns[turn]) for turn in sorted(turns)] for turns in loaders.values()]


def _went_on(entries: Iterable[_Entry], report: Report) -> set[str]:
    """The logs after which the same process went on to a later epoch of the loader.

    Epochs without a log, between others of the same process, are counted in ``report``.
    """
    by_process: dict[tuple[Any, ...], list[Header]] = defaultdict(list)
    for h in (entry.header for entry in entries):
        if h.kind == "delivered":
            by_process[h.job, h.dataset, h.loader, h.rank, h.pid].append(h)
    went_on = set()
    for headers in by_process.values():
        headers.sort(key=lambda h: h.began)
        went_on |= {h.log for h, after in itertools.pairwise(headers) if after.turn > h.turn}
        turns = {h.turn for h in headers}
        gone = max(turns) - min(turns) + 1 - len(turns)
        report.leaves_out(1, "epochs whose logs are not here, between others of their loader", gone)
    return went_on


class _Epoch:
    """One epoch of a loader, with all its ranks."""

    def __init__(self, entries: list[_Entry]) -> None:
        self.entries = sorted(entries, key=lambda entry: entry.header.rank)
        self.header = self.entries[0].header
        self.samples = max(entry.header.samples for entry in entries)
        self.contents: list[Content] = []
        self.is_whole = False

    def read(self, report: Report, copies: _Copies) -> None:
        self.contents = [_read(entry, report, copies) for entry in self.entries]
        self.is_whole = len(self.entries) == self.header.ranks and all(
            _ended(entry, content) for entry, content in zip(self.entries, self.contents, strict=True)
        )
        report.samples += sum(len(content.records) for content in self.contents)
        report.epochs += self.is_whole
        report.incomplete += not self.is_whole
        if len(self.entries) < self.header.ranks:
            report.leaves_out(1, "epochs of which some ranks' logs are not here")

    @property
    def is_whole_and_shuffled(self) -> bool:
        h = self.header
        return self.is_whole and h.shuffled and h.count is not None and not h.resumed

    @property
    def out_of_turn(self) -> int:
        """How many samples may have come out of turn: all, if a log breaks off before it says."""
        return sum(
            len(content.records) if content.out_of_turn is None else content.out_of_turn
            for content in self.contents
        )

    @property
    def sequence(self) -> np.ndarray:
        """The indices in the order of delivery, rank after rank."""
        return np.concatenate([content.records["index"] for content in self.contents])

    @property
    def places(self) -> np.ndarray:
        """When in the epoch each index of :attr:`sequence` came, from 0 to 1."""
        return np.concatenate(
            [(np.arange(len(c.records)) + 0.5) / max(1, len(c.records)) for c in self.contents]
        )

    def violation(
        self, invariant: int, kind: str, what: str, indices: Any = (), rank: int | None = None
    ) -> Violation:
        h = self.header
        where = f"job {h.job}, loader {h.loader}, epoch {h.epoch}"
        if rank is not None and h.ranks > 1:
            where += f", rank {rank}"
        named = [int(index) for index in indices[:EXAMPLES]]
        return Violation(invariant, kind, h.job, h.loader, h.epoch, named, f"{where}: {what}")

    def check(self, report: Report, logs: dict[str, _Entry], went_on: set[str]) -> None:
        """Check invariants 1, 4 and 5."""
        found, h, n = report.violations, self.header, self.samples
        own = self.sequence
        if (own >= n).any():
            foreign = own[own >= n]
            what = f"{_few(foreign)} delivered, of a dataset of {n:,}"
            found.append(self.violation(1, "foreign", what, foreign))
        if h.count is None:
            report.own_order += 1
            return
        self._check_batches(report)
        self._check_that_all_end(report, went_on)
        earlier, all_known, gone = self._before(logs)
        report.checked[1] += self.is_whole and all_known
        if h.resumed:
            report.checked[5] += all_known
            what = "resumed epochs, but for their number: logs of before are not here"
            report.leaves_out(5, what, not all_known)
        if gone:
            what = f"it was resumed after {gone} batches that the logs before it do not have"
            found.append(self.violation(5, "resume lost", what))
        hits_here = _hits(_through(self.contents), n)
        before = _through(earlier)
        hits_before = _hits(before, n)
        skipped = np.unique(np.concatenate([content.skipped for content in self.contents + earlier]))
        through = len(before) + sum(len(content.skipped) for content in earlier)
        expected, extra = self._expected(found, through if all_known else None, len(skipped))

        twice = np.flatnonzero(hits_here > 1)
        again = np.flatnonzero((hits_here > 0) & (hits_before > 0))
        extra -= int((hits_here[twice] - 1).sum())
        if extra < 0:
            found.append(self.violation(1, "repeated", f"{_few(twice)} delivered more than once", twice))
        if len(again) > max(0, extra):
            what = f"{_few(again)} delivered again after the resume"
            found.append(self.violation(5, "resume repeated", what, again))
        hits_before[skipped[skipped < n]] += 1
        missing = np.flatnonzero(hits_here + hits_before == 0)
        left_out = max(0, n - len(skipped) - expected)
        if self.is_whole and len(missing) > left_out:
            what = f"{_few(missing)} not delivered"
            if left_out > 0:
                what += f", where {left_out} may be left out"
            invariant, kind = (5, "resume lost") if h.resumed else (1, "missing")
            found.append(self.violation(invariant, kind, what, missing))

    def _expected(self, found: list[Violation], before: int | None, skipped: int) -> tuple[int, int]:
        """How many samples the epoch should deliver in all, and how many repeats ranks may need to be even.

        The first number includes what was delivered before the resume, as far as it is known.
        """
        h, n, size = self.header, self.samples, self.header.batch_size or 1
        total = (before or 0) + sum(entry.header.count or 0 for entry in self.entries)
        repeats = h.ranks - 1 if h.padded else 0
        for_skipped = skipped if h.ranks > 1 else 0
        if len(self.entries) < h.ranks or before is None:
            return min(total, n - skipped), repeats + for_skipped
        if h.ranks == 1 and not h.resumed:
            may_drop = n % size if h.drop_last else 0
        elif h.drop_last:
            may_drop = h.ranks * size - 1
        else:
            may_drop = 0 if h.padded else h.ranks - 1
        if not -repeats <= n - total <= may_drop:
            what = f"its list has {total:,} samples of a dataset of {n:,}"
            found.append(self.violation(1, "length", what))
        # A rank fills up with samples that it would leave out otherwise, or repeats others if these are few.
        expected = min(total - for_skipped, n - skipped)
        if skipped and h.drop_last and h.ranks == 1 and not h.resumed:
            expected -= expected % size
        return expected, max(0, total - n) + for_skipped

    def _before(self, logs: dict[str, _Entry]) -> tuple[list[Content], bool, int]:
        """Find the deliveries of the epoch before it was resumed.

        Returns:
            The contents of the logs from before; whether all such logs are here; and how many batches they
            lack.
        """
        known: dict[str, int] = {}
        all_known = True
        for part in [part for entry in self.entries for part in entry.header.resumed]:
            if part["log"] in logs:
                known[part["log"]] = max(known.get(part["log"], 0), part["batches"])
            else:
                all_known = False
        earlier = [read(logs[log].path).first(batches) for log, batches in known.items()]
        gone = sum(known.values()) - sum(content.batches for content in earlier)
        return earlier, all_known, gone

    def _check_batches(self, report: Report) -> None:
        for entry, content in zip(self.entries, self.contents, strict=True):
            h, sizes = entry.header, content.sizes
            report.checked[4] += len(sizes)
            if h.batch_size is None:
                continue
            wrong = np.flatnonzero(sizes != h.batch_size)
            if len(wrong) == 1 and not h.drop_last and sizes[wrong[0]] < h.batch_size:
                at_end = wrong[0] == len(sizes) - 1 or not h.in_order
                if at_end and _settled(content) + len(content.skipped) >= (h.count or 0):
                    continue  # the last batch may be short
            if len(wrong):
                what = f"batch {wrong[0]} has {sizes[wrong[0]]} samples instead of {h.batch_size}"
                if len(wrong) > 1:
                    what += f", and {len(wrong) - 1} others are wrong"
                start = int(sizes[: wrong[0]].sum())
                inside = content.records["index"][start : start + int(sizes[wrong[0]])]
                report.violations.append(self.violation(4, "batch size", what, inside, h.rank))
        counts = [len(content.sizes) + len(content.failures) for content in self.contents]
        if self.is_whole and len(set(counts)) > 1:
            what = f"ranks have unequally many batches: {', '.join(map(str, counts))}"
            report.violations.append(self.violation(4, "batch count", what))

    def _check_that_all_end(self, report: Report, went_on: set[str]) -> None:
        """Check that each rank that went on to its next epoch has ended this one, if another rank has."""
        if self.is_whole:
            return
        ended = [_ended(*both) for both in zip(self.entries, self.contents, strict=True)]
        for entry, content, has_ended in zip(self.entries, self.contents, ended, strict=True):
            if any(ended) and not has_ended and entry.header.log in went_on:
                peer = self.entries[ended.index(True)].header.rank
                what = f"it went on to its next epoch after {_settled(content):,} of {entry.header.count:,} "
                what += f"samples, where rank {peer} delivered all"
                report.violations.append(self.violation(4, "ended early", what, (), entry.header.rank))


class _ExactOrders:
    """Orders that the seed alone decides, by their names, as the first whole epoch of each name had them."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int, int | None], tuple[bytes, _Entry]] = {}

    def differ(self, epoch: _Epoch) -> Iterator[Violation]:
        """A violation for each rank that had another order than an epoch of the same name.

        This leaves out epochs that were resumed or left half-way, that had bad samples, or whose batches come
        in any order. Epochs that drop their last samples are compared with their like.
        """
        for entry, content in zip(epoch.entries, epoch.contents, strict=True):
            h, indices = entry.header, content.records["index"]
            has_bad = bool(content.failures) or len(content.skipped) > 0
            if not h.exact or h.resumed or not h.in_order or has_bad or not _ended(entry, content):
                continue
            digest = hashlib.blake2b(indices.tobytes(), digest_size=16).digest()
            first, other = self._first.setdefault((h.exact, h.rank, h.count), (digest, entry))
            if digest == first:
                continue
            theirs = read(other.path).records["index"]
            place = int(np.flatnonzero(indices != theirs)[0]) if len(indices) == len(theirs) else 0
            what = f"it should have the order of job {other.header.job}, loader {other.header.loader}, epoch "
            what += f"{other.header.epoch}, which has the same seed, but differs from sample {place:,} on"
            yield epoch.violation(3, "exact order", what, indices[place:], h.rank)


def _ended(entry: _Entry, content: Content) -> bool:
    return content.done or (entry.header.count is not None and _settled(content) >= entry.header.count)


def _through(contents: list[Content]) -> np.ndarray:
    """The indices that were delivered, or for which the user got an error."""
    parts = [content.records["index"] for content in contents]
    parts += [part for content in contents for part in content.failures]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint32)


def _settled(content: Content) -> int:
    """How many samples a member is done with: delivered, or with an error in their place."""
    return len(content.records) + sum(len(part) for part in content.failures)


def _hits(indices: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(indices[indices < n], minlength=n)


def _few(indices: np.ndarray) -> str:
    """Their number and the first few, in words."""
    named = ", ".join(str(int(index)) for index in indices[:EXAMPLES])
    if len(indices) == 1:
        return f"sample {named}"
    return f"{len(indices):,} samples ({named}{', ...' if len(indices) > EXAMPLES else ''})"


# Copies


class _Copies:
    """The copies that each job was given, and as which sample each copy was made and served.

    They are kept by segment, and by the stay of a job: from when it attached until its last process left.
    """

    def __init__(self, entries: Iterable[_Entry]) -> None:
        self.count = 0
        self._parents: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._keys: dict[tuple[Any, ...], list[tuple[_Entry, np.ndarray]]] = defaultdict(list)
        self._shared: dict[tuple[Any, ...], list[tuple[_Entry, np.ndarray]]] = defaultdict(list)
        for entry in entries:  # processes that were attached together belong to one stay
            rows = [self._stay(row) for row in self._rows(entry)]
            for row in rows[1:]:
                self._parents[self._stay(row)] = self._stay(rows[0])

    @staticmethod
    def _rows(entry: _Entry) -> list[tuple[Any, ...]]:
        h = entry.header
        return [(h.job, h.segment, row) for row in h.attached]

    def _stay(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        while (parent := self._parents.get(row, row)) != row:
            row = parent
        return row

    def add(self, entry: _Entry, records: np.ndarray) -> None:
        keys = _copy_keys(records)
        if entry.header.attached and len(keys):
            self.count += len(keys)
            self._keys[self._stay(self._rows(entry)[0])].append((entry, np.sort(keys)))
            shared = np.empty(len(keys), [("key", "<u8"), ("index", "<u4"), ("made", "u1")])
            records = records[records["slot"] != NO_SLOT]
            shared["key"], shared["index"] = keys, records["index"]
            shared["made"] = records["form"] != AUGMENTED
            h = entry.header  # equal indices are the same sample only within the same part
            self._shared[h.segment, h.dataset, h.part, h.samples].append((entry, shared))

    def reached_twice(self, logs: dict[str, _Entry]) -> Iterator[Violation]:
        """A violation for each copy that a job was given more than once, at most a few for each stay."""
        for parts in self._keys.values():
            keys = np.sort(np.concatenate([keys for _, keys in parts]))
            twice = np.unique(keys[1:][keys[1:] == keys[:-1]])
            for key in twice[:EXAMPLES]:
                entries = [entry for entry, keys in parts if key in keys]
                header, epoch, indices, where = self._history(key, entries, logs)
                text = f"job {header.job}: {self._name(key)} reached it {len(where)} times: "
                text += "; ".join(where)
                text += f" ({len(twice):,} copies did so)" if len(twice) > 1 else ""
                yield Violation(2, "copy twice", header.job, header.loader, epoch, indices[:EXAMPLES], text)

    def of_another_sample(self, report: Report, logs: dict[str, _Entry]) -> Iterator[Violation]:
        """A violation for each copy that was delivered as another sample than its own, at most a few."""
        for parts in self._shared.values():
            all_of_it = np.concatenate([shared for _, shared in parts])
            all_of_it = all_of_it[np.argsort(all_of_it["key"], kind="stable")]
            keys, made = all_of_it["key"], all_of_it["made"] > 0
            of_unknown = int((~np.isin(keys[~made], keys[made])).sum())
            what = "copies, whether of the right sample: no log here of the same samples has who made them"
            report.leaves_out(1, what, of_unknown)
            differ = (keys[1:] == keys[:-1]) & (all_of_it["index"][1:] != all_of_it["index"][:-1])
            wrong = np.unique(keys[1:][differ])
            for key in wrong[:EXAMPLES]:
                entries = [entry for entry, shared in parts if (shared["key"] == key).any()]
                # The maker comes first. The last one, which the violation names, was then served the copy.
                entries.sort(key=lambda entry: not self._made(key, entry))
                header, epoch, indices, where = self._history(key, entries, logs)
                text = f"job {header.job}: {self._name(key)} is of one sample and came as another: "
                text += "; ".join(where) + (f" ({len(wrong):,} copies did so)" if len(wrong) > 1 else "")
                yield Violation(1, "wrong sample", header.job, header.loader, epoch, indices[:EXAMPLES], text)

    @staticmethod
    def _made(key: np.uint64, entry: _Entry) -> bool:
        records = read(entry.path).records
        records = records[records["slot"] != NO_SLOT]
        return bool((records["form"][_copy_keys(records) == key] != AUGMENTED).any())

    @staticmethod
    def _name(key: np.uint64) -> str:
        return f"the copy in slot {int(key) >> 32}, generation {int(key) & 0xFFFFFFFF},"

    @staticmethod
    def _history(
        key: np.uint64, entries: list[_Entry], logs: dict[str, _Entry]
    ) -> tuple[Header, int, list[int], list[str]]:
        """What logs say of a copy: the last log's header and epoch, and the indices and words of all."""
        where, indices, epoch = [], [], -1
        for entry in entries:
            header = entry.header
            if header.of in logs:
                header = logs[header.of].header
            known = header.kind == "delivered"
            epoch = header.epoch if known else epoch
            records = read(entry.path).records
            records = records[records["slot"] != NO_SLOT]
            for record in records[_copy_keys(records) == key]:
                indices.append(int(record["index"]))
                how = "served from another" if record["form"] == AUGMENTED else "made"
                when = f"in epoch {header.epoch} of loader {header.loader}" if known else "in a look-up"
                where.append(f"{how} for index {record['index']} {when}")
        return header, epoch, indices, where


def _copy_keys(records: np.ndarray) -> np.ndarray:
    """Slot and generation in one number, for the records that have a slot."""
    shared = records[records["slot"] != NO_SLOT]
    return shared["slot"].astype(np.uint64) << np.uint64(32) | shared["generation"]
