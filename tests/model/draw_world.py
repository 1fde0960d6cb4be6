"""The model of the engine: a segment, everybody in it, and what each step must lead to."""

import random
from collections import Counter

import numpy as np
from draw_parts import HOLDER, LIST_WANT, MEMBER, PAGE, SUBSET, Handle, Local, Member, Payload, pages, pattern
from engine import AUGMENTED, DECODED, ENCODED, FAILED, NONE, READY, RECODED, STORAGE, WRITING, Place, Remote

KEPT = (DECODED, RECODED, ENCODED)  # the best first


class World:
    """A segment, everybody in it, and the model of both."""

    def __init__(self, seed):
        self.random = r = random.Random(seed)
        self.side = r.choice([(8, 8), (8, 8), (64, 43)])
        self.copy_bytes = 3 * self.side[0] * self.side[1]
        self.copy_pages = pages(self.copy_bytes)
        n = r.choice([1, 2, 7, 20, 65, 150, 150, 300])
        granules = self.copy_pages * r.choice([1, 3, 8, 20, 60, 400])
        self.place = Place(n, granules * PAGE, split=self.random_split())
        self.n = n
        self.payloads = {}  # slot -> Payload
        self.members = []
        self.handles = []
        self.counter = 0
        self.done = Counter()

    def random_split(self):
        encoded, recoded, decoded = self.random.choice(
            [
                (0, 0, 0),
                (0, 0, 0),
                (2000, 2000, 2000),
                (10000, 0, 0),
                (0, 10000, 0),
                (2000, 2000, 6000),
                (0, 0, 5000),
            ]
        )
        return (0, encoded, decoded, 10000 - encoded - recoded - decoded, recoded)

    def begin(self):
        self.anchor = Local(self.place, 1000)  # keeps the segment, and draws nothing
        self.records = self.place.records()
        self.handles.append(Handle(self.anchor, 1000, *self.new_row(HOLDER, 1000)))

    # What the model says.

    def rows(self):
        """Who has a row: the dead too, until they are reaped."""
        return [*self.handles, *self.members]

    def has_row(self, who):
        row = self.records.rows[who.row]
        return row["state"] == 1 and row["generation"] == who.life

    def can_use(self, member, payload):
        return (
            payload.form == AUGMENTED
            and payload.pipeline == member.pipeline
            and member.job not in payload.uses
            and payload.sample in member.unseen
            and (payload.maker.exchanges or not member.exchanges)
        )

    def want(self, payload):
        return sum(self.can_use(member, payload) for member in self.members)

    def eligible(self, member):
        return {s for s, p in self.payloads.items() if p.state == READY and self.can_use(member, p)}

    def is_on_its_way(self, member, sample):
        copies = (p for p in self.payloads.values() if p.sample == sample and p.state == WRITING)
        return any(self.can_use(member, p) for p in copies)

    def expected_want(self, member, sample):
        """How many members of other jobs would want a copy, and have none to come by."""
        return sum(
            other.job != member.job
            and other.pipeline == member.pipeline
            and sample in other.unseen
            and (member.exchanges or not other.exchanges)
            and not any(self.payloads[slot].sample == sample for slot in self.eligible(other))
            for other in self.members
        )

    def poorest(self, member):
        """What the member of another job that is shortest of copies lacks, and how many it is short of."""
        others = [m for m in self.members if m.job != member.job and m.pipeline == member.pipeline]
        enough = min(member.options["in_flight"], member.options["places"]) // 2
        poorest = min(others, key=lambda m: (len(self.eligible(m)), m.row), default=None)
        if poorest is None or not member.exchanges or member.met:
            return set(), 0
        return set(poorest.unseen), enough - len(self.eligible(poorest))

    def held(self, member):
        return sum(p.holders[member] for p in self.payloads.values())

    def settle(self):
        """What nobody holds goes, unless it is kept or wanted."""
        for slot, p in list(self.payloads.items()):
            if not p.holders and (p.state != READY or (p.form == AUGMENTED and self.want(p) == 0)):
                del self.payloads[slot]

    def reaped(self):
        """Take note of the dead whose rows were freed."""
        for gone in [x for x in self.rows() if x.dead and not self.has_row(x)]:
            if isinstance(gone, Handle):
                self.handles.remove(gone)
            else:
                self.forget(gone)
            self.done["reaped"] += 1
        self.settle()

    def forget(self, member):
        self.members.remove(member)
        for p in self.payloads.values():
            del p.holders[member]

    # Holding the records against it.

    def new_row(self, kind, job):
        """The row that was claimed just now, and its generation."""
        rows = self.records.rows
        known = {x.row for x in self.rows() if self.has_row(x)}
        new = [
            r
            for r in range(len(rows))
            if rows[r]["state"] == 1 and r not in known and rows[r]["kind"] != SUBSET
        ]
        assert len(new) == 1 and (rows[new[0]]["kind"], rows[new[0]]["job_key"]) == (kind, job)
        return new[0], int(rows[new[0]]["generation"])

    def audit(self, evicts=False):
        check = self.random.random() < 0.7  # else the next draw has to fold by itself
        if check:
            assert self.anchor.segment.check() is None
        rows = self.records.rows
        live = [r for r in range(len(rows)) if rows[r]["state"] == 1]
        assert sorted(x.row for x in self.rows()) == [r for r in live if rows[r]["kind"] != SUBSET]
        self.audit_subsets([r for r in live if rows[r]["kind"] == SUBSET])
        jobs = {}
        for x in self.rows():
            assert jobs.setdefault(int(rows[x.row]["job"]), x.job) == x.job, "two jobs share a bit"
        for member in self.members:
            seen = self.records.seen(member.row)
            assert {s for s in range(self.n) if not seen[s]} == member.unseen

        slots = self.records.slots
        for slot, p in list(self.payloads.items()):
            record = slots[slot]
            if record["state"] == 0 or record["generation"] != p.generation:
                assert evicts and p.state == READY and not p.holders, f"{p} went from slot {slot}"
                self.done["evicted"] += 1
                del self.payloads[slot]
        assert set(slots["state"].nonzero()[0].tolist()) == set(self.payloads)
        for slot, p in self.payloads.items():
            record = slots[slot]
            found = tuple(
                int(record[name]) for name in ("state", "sample", "form", "pipeline", "length", "pins")
            )
            assert found == (p.state, p.sample, p.form, p.pipeline, len(p.data), sum(p.holders.values()))
            shape = (0, 0) if p.form == AUGMENTED else p.shape  # a copy names what its job has seen: nothing
            assert (record["height"], record["width"]) == shape
            if p.form == AUGMENTED:
                assert {jobs[bit] for bit in jobs if int(record["uses"]) >> bit & 1} == p.uses & set(
                    jobs.values()
                )
                if (check and p.state == READY) or record["list"] >= LIST_WANT:
                    assert int(self.records.wants[slot]) == record["list"] - LIST_WANT == self.want(p)

    def audit_subsets(self, rows):
        """Each member on a subset says which samples that has, in a row that never changes."""
        said = Counter()
        for row in rows:
            record = self.records.rows[row]
            own = (~self.records.seen(row)).nonzero()[0].tolist()
            said[int(record["job_key"]), int(record["pipeline"]), tuple(own)] += 1
        assert said == Counter((m.job, m.pipeline, m.subset) for m in self.members if m.says_its_subset)

    # What can happen.

    def attach(self):
        if len(self.handles) > 6:
            return
        job = self.random.choice([1, 2, 3, 4])
        remote = self.random.random() < 0.5
        handle = Handle((Remote if remote else Local)(self.place, job), job, -1, -1)
        self.reaped()
        handle.row, handle.life = self.new_row(HOLDER, job)
        self.job_arrives(job)
        self.handles.append(handle)
        self.settle()
        self.audit()

    def job_arrives(self, job):
        """One that is new, or was away, has used nothing."""
        if job not in {x.job for x in self.rows()}:
            for p in self.payloads.values():
                p.uses.discard(job)

    def living(self):
        return [h for h in self.handles[1:] if not h.dead]

    def leave(self):
        handles = [h for h in self.living() if not any(m.handle is h for m in self.members)]
        if handles and self.random.random() < 0.3:
            handle = self.random.choice(handles)
            handle.do("leave")
            if isinstance(handle.do, Remote):
                handle.do.process.kill()
            self.handles.remove(handle)
            self.reaped()
            self.audit()

    def die(self):
        handles = [h for h in self.living() if isinstance(h.do, Remote)]
        if handles and self.random.random() < 0.7:
            handle = self.random.choice(handles)
            handle.do.process.kill()
            handle.dead = True
            for member in self.members:
                if member.handle is handle:
                    member.dead = True
                    self.done["died writing"] += bool(member.writes)
            self.audit()

    def open(self, **changes):
        handles = self.living()
        if not handles or len(self.members) > 7:
            return
        r = self.random
        handle = changes.pop("handle", None) or r.choice(handles)
        samples = None
        if r.random() < 0.25:
            samples = sorted(r.sample(range(self.n), r.randint(1, self.n)))
            r.shuffle(samples)
        count = self.n if samples is None else len(samples)
        options = {
            "samples": samples, "places": count if r.random() < 0.7 else r.randint(0, count),
            "seed": r.randrange(1 << 64), "epoch": r.randrange(5), "fixed": r.random() < 0.1,
            "decoded": r.choice([11, 11, 12]), "augmented": r.choice([22, 22, 22, 22, 33]),
            "height": self.side[0], "width": self.side[1], "in_flight": r.choice([1, 4, 32]),
            "shares": r.random() < 0.9, "keeps": r.random() < 0.6, "recodes": r.random() < 0.7,
            "substitutes": r.random() < 0.9,
        } | changes  # fmt: skip
        self.counter += 1
        member = Member(self.counter, handle, handle.job, options, [])
        if options["samples"] is not None:
            options = options | {"samples": np.array(options["samples"], np.uint32)}
        member.order = self.alone(options)
        assert len(set(member.order)) == len(member.order) == min(options["places"], count)
        assert samples is None or set(member.order) <= set(samples)
        if options["fixed"]:
            assert member.order == (samples or list(range(self.n)))[: options["places"]]
        member.unseen = set(member.order)
        member.do("open", **options)
        self.reaped()
        member.row, member.life = self.new_row(MEMBER, handle.job)
        self.members.append(member)
        self.audit()

    def alone(self, options):
        """The order of a member that has nobody to share with."""
        twin = self.place.member(None, **options)
        items, _, _ = twin.draw(self.n + 1)
        twin.close()
        assert all(items["source"] == STORAGE) and all(items["target_slot"] == NONE)
        return items["sample"].tolist()

    def pick(self):
        members = [m for m in self.members if not m.dead]
        return self.random.choice(members) if members else None

    def close(self, member=None):
        member = member or self.pick()
        if member is None:
            return
        member.do("close")
        self.forget(member)
        self.settle()
        self.audit()
        if self.random.random() < 0.6:
            self.open(handle=member.handle, epoch=member.options["epoch"] + 1)

    def draw(self):
        member = self.pick()
        if member is None:
            return
        wanted = self.random.choice([0, 1, 2, 5, 16, 40])
        offers, member.offers = member.offers, []
        head = self.records.head
        budget, used = int(head["budget_of"][AUGMENTED]), int(head["granules_of"][AUGMENTED])
        room = int(head["granules_free"]) - sum(pages(offer[2]) for offer in offers)
        records = int(head["n_stage"]) - sum(p.form == AUGMENTED for p in self.payloads.values())

        items, slots, private = member.do("draw", wanted, offers)

        assert not private
        assert len(items) == min(wanted, len(member.unseen))
        self.reaped()
        for slot in member.releases:
            self.payloads[slot].let_go(member)
        member.releases = []
        self.settle()
        n_ledger = int(head["n_ledger"])
        budget = min(budget, int(head["budget_of"][AUGMENTED]))
        need = len(items) * self.copy_pages
        is_roomy = (
            self.copy_pages == 1
            and all(pages(offer[2]) == 1 for offer in offers)  # larger ones need granules side by side
            and used + need <= budget
            and need <= room
            and len(items) <= records
            and self.held(member) + 2 * len(items) + len(offers) <= n_ledger
        )
        if member.exchanges:
            others = [m for m in self.members if m.says_its_subset and m.pipeline == member.pipeline]
            member.meet([set(m.subset) for m in sorted(others, key=lambda m: m.row)])
        went = []  # what the engine must have given up in this draw, for what it did to be right
        for offer, slot in zip(offers, slots, strict=True):
            self.answered(member, offer, slot)
        member.helps = None
        for item in items.tolist():
            item = dict(zip(items.dtype.names, item, strict=True))
            self.drawn(member, item, is_roomy, n_ledger, went)
        for slot, p in self.payloads.items():
            if p.generation < 0:
                p.generation = int(self.records.slots[slot]["generation"])
        self.settle()
        self.audit(evicts=not is_roomy)
        for p in went:
            assert p not in self.payloads.values()
        member.batches.append(items)
        self.done["drawn"] += len(items)
        if member.unseen == set():
            assert sorted(member.served) == sorted(member.order), "an epoch is every sample exactly once"
            self.done["epochs"] += 1
            if self.random.random() < 0.5:
                self.close(member)

    def answered(self, member, offer, answer):
        if answer is None:
            return
        sample, form, length, height, width = offer
        slot, entry = answer
        pipeline = member.options["decoded"] if form == DECODED else 0
        self.succeeds(slot, KEPT)
        there = {(p.sample, p.form, p.pipeline) for p in self.payloads.values()}
        assert (sample, form, pipeline) not in there
        self.counter += 1
        data = pattern(sample, form, member.number, self.counter, length=length)
        self.payloads[slot] = p = Payload(sample, form, pipeline, (height, width), member, data)
        p.hold(member)
        member.writes.add(slot)
        member.accepted[slot] = entry
        self.done["kept"] += 1

    def drawn(self, member, item, is_roomy, n_ledger, went):
        sample, slot, target = item["sample"], item["source_slot"], item["target_slot"]
        options = member.options
        assert sample in member.unseen, "served twice, or not its own"
        eligible = self.eligible(member) if options["substitutes"] else set()
        can_hold = self.held(member) < n_ledger
        own = [s for s in member.order if s in member.unseen]
        if member.exchanges and member.met:
            own = member.next_in_line()
            due = member.class_of(own[0])
            assert member.class_of(sample) == due, "in the place of one that others have, or have not"
            eligible = {s for s in eligible if member.class_of(self.payloads[s].sample) == due}
            eligible -= {s for s in eligible if self.payloads[s] in went}
            if item["source"] != AUGMENTED and not is_roomy:
                # Places are filled one by one: what was prepared for one before may have needed their room.
                went += [self.payloads[s] for s in eligible]
                eligible = set()

        if eligible and can_hold:
            assert item["source"] == AUGMENTED and slot in eligible
            assert target == NONE and self.payloads[slot].sample == sample
            fewer = [self.payloads[s] for s in eligible]
            fewer = [p for p in fewer if self.want(p) < self.want(self.payloads[slot])]
            if member.exchanges and not is_roomy:
                # Places are filled one by one here too: what was prepared before may have needed their room.
                went += fewer
            else:
                assert not fewer, "fewer want another"
            self.payloads[slot].hold(member)
            self.payloads[slot].uses.add(member.job)
            self.done["substitutes"] += 1
        else:
            assert item["source"] != AUGMENTED
            free = [s for s in own if not (member.exchanges and self.is_on_its_way(member, s))]
            if member.helps is None:
                member.helps = self.poorest(member)
            if sample != (free or own)[0]:
                lacked, short_of = member.helps
                assert sample in free and sample in lacked, "out of its own order"
                assert short_of > 0, "helped with more than it is short of"
                member.helps = lacked, short_of - 1
                self.done["helped"] += 1
            self.done["passed over"] += own[0] != sample
            self.done["forced"] += not free
            self.prepared(member, item, can_hold, went)
            expected = self.expected_want(member, sample) if options["shares"] and free else 0
            if target != NONE:
                self.reserved(member, item, went)
                if expected == 0:
                    assert options["shares"] and free
                    given_up = [p for p in self.payloads.values() if (p.sample, p.state) == (sample, READY)]
                    assert given_up or went, "a copy that nobody wants"
            else:
                assert not (is_roomy and expected), "room for a copy, and wanted, but not staged"

        if slot != NONE:
            assert member.do("read", slot) == self.payloads[slot].data
        member.unseen.remove(sample)
        member.served.append(sample)
        self.settle()

    def prepared(self, member, item, can_hold, went):
        """It comes from the best form at hand."""
        kept = {
            form: [
                (s, p)
                for s, p in self.payloads.items()
                if (p.sample, p.form, p.state) == (item["sample"], form, READY)
                and p.pipeline == (member.options["decoded"] if form == DECODED else 0)
            ]
            for form in KEPT
        }
        if not member.options["recodes"]:
            kept[RECODED] = []
        best = next((form for form in KEPT if kept[form] and can_hold), STORAGE)
        order = [*KEPT, STORAGE]
        for form in order[order.index(best) : order.index(item["source"])]:  # given up in this draw
            went += [p for _, p in kept[form]]
        assert order.index(item["source"]) >= order.index(best)
        if item["source"] == STORAGE:
            assert item["source_slot"] == NONE and item["keep"] in (0, *KEPT)
            assert member.options["recodes"] or item["keep"] != RECODED
            assert member.options["keeps"] or not item["keep"]
            if item["keep"] and self.random.random() < 0.8:
                height, width = self.random.choice([(1, 1), (35, 39), (37, 37), (64, 64)])  # some pages
                form = self.random.choice([item["keep"], *KEPT])
                member.offers.append((item["sample"], form, 3 * height * width, height, width))
        else:
            slot = item["source_slot"]
            assert slot in [s for s, _ in kept[item["source"]]] and item["keep"] == 0
            self.payloads[slot].hold(member)
            self.done["from kept"] += 1

    def succeeds(self, slot, forms):
        """A slot is reserved: what lay in it was given up in this draw, and is seen by its successor."""
        old = self.payloads.pop(slot, None)
        if old is not None:
            assert old.form in forms and old.state == READY and not old.holders, "given up while in use"
            self.done["evicted"] += 1

    def reserved(self, member, item, went):
        slot = item["target_slot"]
        self.succeeds(slot, (AUGMENTED,))
        self.counter += 1
        data = pattern(item["sample"], AUGMENTED, member.number, self.counter, length=self.copy_bytes)
        self.payloads[slot] = p = Payload(item["sample"], AUGMENTED, member.pipeline, self.side, member, data)
        p.uses.add(member.job)
        p.hold(member)
        member.writes.add(slot)
        self.done["staged"] += 1

    def finish(self):
        """Some of what is to be written is, or fails; in any order."""
        member = self.pick()
        if member is None:
            return
        for slot in self.random.sample(sorted(member.writes), self.random.randint(0, len(member.writes))):
            p = self.payloads[slot]
            assert p.maker is member and p.state == WRITING
            if self.random.random() < 0.85:
                member.do("write", slot, p.data)
                member.do("commit", slot)
                p.state = READY
            else:
                member.do(
                    "write", slot, p.data[: len(p.data) // 2] + b"\0" * (len(p.data) - len(p.data) // 2)
                )
                member.do("abort", slot)
                p.state = FAILED
                self.done["aborted"] += 1
            member.writes.remove(slot)
            if slot in member.accepted:
                member.do("offer_done", slot, member.accepted.pop(slot))
                member.releases.append(slot)
        self.audit()

    def deliver(self):
        """Batches that are complete are let go of; what they were read from is as it was."""
        member = self.pick()
        if member is None:
            return
        for items in list(member.batches):
            if self.random.random() < 0.3 or member.writes & set(items["target_slot"].tolist()):
                continue
            for slot in items["source_slot"].tolist():
                if slot != NONE:
                    assert member.do("read", slot) == self.payloads[slot].data, "it changed under a reader"
            member.do("done", items)
            member.batches = [batch for batch in member.batches if batch is not items]
            for name in ("source_slot", "target_slot"):
                member.releases += [slot for slot in items[name].tolist() if slot != NONE]
        self.audit()

    def check_stats(self):
        stats = self.anchor.segment.stats()
        self.reaped()
        assert not any(x.dead for x in self.rows()), "it asks after everybody's life"
        self.settle()
        self.audit()
        forms = {"encoded": ENCODED, "recoded": RECODED, "decoded": DECODED, "augmented": AUGMENTED}
        count = Counter(p.form for p in self.payloads.values() if p.state == READY)
        assert stats["payloads"] == {name: count[form] for name, form in forms.items()}
        assert stats["writing"] == sum(p.state != READY for p in self.payloads.values())
        assert stats["members"] == len(self.members) and stats["processes"] == len(self.handles)
        assert stats["jobs"] == len({x.job for x in self.rows()})
        used = {
            f: sum(pages(len(p.data)) for p in self.payloads.values() if p.form == f) for f in forms.values()
        }
        assert stats["bytes"] == {name: used[form] * PAGE for name, form in forms.items()}
        assert stats["free_bytes"] == stats["payload_bytes"] - sum(used.values()) * PAGE

    def resplit(self):
        if self.random.random() < 0.3:
            segment = self.anchor.segment
            segment.change_split(self.random_split(), segment.split()[0], "a test")
            self.audit()

    def walk(self, steps):
        deeds = [
            (self.attach, 4), (self.leave, 2), (self.die, 2), (self.open, 5), (self.close, 3),
            (self.draw, 40), (self.finish, 22), (self.deliver, 15), (self.check_stats, 3), (self.resplit, 2),
        ]  # fmt: skip
        for _ in range(3):
            self.attach()
            self.open()
        for _ in range(steps):
            self.random.choices([d for d, _ in deeds], [w for _, w in deeds])[0]()

    def end(self):
        for handle in self.handles:
            if isinstance(handle.do, Remote):
                handle.do.process.kill()
            elif handle.do is not self.anchor:
                for number in list(handle.do.members):
                    handle.do("close", number)
