"""The parts of the model of a draw: handles, members, payloads."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from engine import WRITING

HOLDER, MEMBER, SUBSET = 1, 2, 3  # kinds of rows
LIST_WANT = 6  # the first list of published copies
PAGE = 4096
STEPS = 350


def pages(length):
    return -(-length // PAGE)


def pattern(*key, length):
    """Bytes that no other payload has."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=32).digest()
    return (digest * (length // 32 + 1))[:length]


class Local:
    """A handle in this process; :class:`engine.Remote` is one in another, with the same verbs."""

    def __init__(self, place, job_key):
        self.place = place
        self.segment = place.attach(job_key)
        self.members = {}

    def __call__(self, verb, *args, **options):
        if verb == "leave":
            return self.place.close(self.segment)
        if verb == "open":
            self.members[args[0]] = self.place.member(self.segment, **options)
            return None
        if verb == "close":
            return self.members.pop(args[0]).close()
        member = self.members[args[0]]
        if verb == "write":
            member.payload(args[1])[:] = args[2]
            return None
        if verb == "read":
            return bytes(member.payload(args[1]))
        return getattr(member, verb)(*args[1:], **options)


@dataclass(eq=False)
class Handle:
    do: object  # Local or Remote
    job: int
    row: int
    life: int  # the row's generation
    dead: bool = False


@dataclass(eq=False)
class Member:
    number: int
    handle: Handle
    job: int
    options: dict
    order: list  # its samples, as it would take them alone
    row: int = -1
    life: int = -1
    unseen: set = field(default_factory=set)
    served: list = field(default_factory=list)
    dead: bool = False
    batches: list = field(default_factory=list)  # drawn, not done with
    writes: set = field(default_factory=set)  # slots to be written
    offers: list = field(default_factory=list)  # to be made in the next draw
    helps: tuple = None  # in the draw at hand: what the poorest lacks, and how many copies it is short of
    accepted: dict = field(default_factory=dict)  # slot -> ledger entry
    releases: list = field(default_factory=list)  # to be let go of in the next draw

    met: list = field(default_factory=list)  # the subsets that its pipeline's members were seen to draw from
    due: list = None  # samples whose places are to come, where datasets overlap
    queues: dict = field(default_factory=dict)  # class -> samples whose places have come

    @property
    def exchanges(self):
        return self.options["shares"] and self.options["substitutes"]

    def class_of(self, sample):
        return tuple(sample in subset for subset in self.met)

    def meet(self, subsets):
        """Where datasets overlap, samples change places with those of the same datasets only."""
        new = [subset for subset in subsets if subset not in self.met]
        self.met += new
        if new:
            places = self.order if self.due is None else [*chain(*self.queues.values()), *self.due]
            self.due = [sample for sample in places if sample in self.unseen]
            self.queues = {}

    def next_in_line(self):
        """Those who may fill the next place from its own order, the first first."""
        while self.due:
            sample = self.due.pop(0)
            queue = self.queues.setdefault(self.class_of(sample), [])
            if sample in self.unseen:
                queue.append(sample)
            queue[:] = [s for s in queue if s in self.unseen]
            if queue:
                return queue
        return next([s for s in q if s in self.unseen] for q in self.queues.values() if self.unseen & set(q))

    @property
    def pipeline(self):
        return self.options["augmented"] if self.options["shares"] else 0

    @property
    def subset(self):
        """Its dataset's samples; None: all."""
        samples = self.options["samples"]
        return None if samples is None else tuple(sorted(samples))

    @property
    def says_its_subset(self):
        return self.subset is not None and self.options["shares"]

    def do(self, verb, *args, **options):
        return self.handle.do(verb, self.number, *args, **options)


@dataclass(eq=False)
class Payload:
    """What the model knows of an occupied slot."""

    sample: int
    form: int
    pipeline: int
    shape: tuple
    maker: Member
    data: bytes
    state: int = WRITING
    uses: set = field(default_factory=set)
    holders: Counter = field(default_factory=Counter)
    generation: int = -1

    def hold(self, member):
        self.holders[member] += 1

    def let_go(self, member):
        self.holders[member] -= 1
        self.holders += Counter()  # forgets zeros
