"""Says in plain words what of a dataset is shared, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seneca import confidence
from seneca._core.digests import compared
from seneca._core.segment import Segment
from seneca.data.support import Support
from seneca.forms import Form
from seneca.workers.proof import ProofState, ProofTable, may_be_made_again
from seneca.workers.terms import Terms

__all__ = [
    "MADE_QUICKER",
    "changed_text",
    "compared_counts",
    "compared_forms",
    "compared_text",
    "not_shared_text",
    "order_text",
    "shared_text",
    "why_not_exact",
]

MADE_QUICKER = "this job makes all items itself, because making one takes less time than sharing one"


def not_shared_text(support: Support, *, share: str, has_cache: bool) -> str:
    """Why nothing of a dataset is shared."""
    why = support.why
    if not has_cache:
        why = tuple(dict.fromkeys((*why, "cache=None")))
    elif support.stages is not None:
        why = (f"whole items are all that could be, but share={share!r}",)
    return f"not shared: {'; '.join(why)}"


def changed_text(dataset: Any, attributes: list[str]) -> str:
    """Why a dataset is no longer shared whose items changed these attributes."""
    return (
        f"{type(dataset).__name__} is no longer shared, because its attributes changed while items were made "
        f"({', '.join(attributes)}), or are new objects each time that cannot be compared; keep the same "
        "objects, leave out of __getstate__ what items do not depend on, or say by key= that items are alike"
    )


def shared_text(terms: Terms, support: Support, cache: str) -> str:
    """Describe what of a dataset may be shared, and where. ``cache`` is the name of its cache."""
    forms = "ENCODED, DECODED" if support.stages is not None and support.stages.decoded else ""
    if terms.shares:
        forms = f"{forms}, AUGMENTED" if forms else "AUGMENTED"
    return f"{support.name}: {'; '.join(support.why)}; may be shared in the cache {cache!r}: {forms}"


def order_text(sampler: Any, share: str) -> str:
    """Describe what a sampler's own order leaves to share; empty: whole items are not shared anyway."""
    if share == "exact":
        return (
            f"; the order is that of {type(sampler).__name__}: nothing is shared, because exact copies need "
            "shuffle=True, a SequentialSampler or a DistributedSampler"
        )
    if share != "augmented":
        return ""
    return (
        f"; the order is that of {type(sampler).__name__}, from which no sample is taken: other jobs make no "
        "items for this one, and it uses those that jobs with shuffle=True have left for each other"
    )


def compared_forms(terms: Terms) -> tuple[Form, ...]:
    """The forms that the dataset's code makes and jobs share."""
    users = terms.stages.users_forms
    return tuple(form for form in sorted(users) if form != Form.AUGMENTED or terms.shares)


def compared_counts(terms: Terms, segment: Segment | None, before: Mapping[Form, int]) -> dict[Form, int]:
    """How many samples of each form this job and others have made, which were equal.

    Args:
        terms: By which it shares.
        segment: The segment of the cache; None: it has not joined.
        before: What was counted before, which holds where the cache was left since.
    """
    forms = compared_forms(terms)
    if segment is None or segment.closed:
        return {form: before.get(form, 0) for form in forms}
    return {form: compared(segment, terms.stages.kind(form)) for form in forms}


def compared_text(terms: Terms, table: ProofTable, counts: Mapping[Form, int]) -> str:
    """Describe what was compared so far. ``counts``: how many samples, by form."""
    found = table.read(terms.names)
    if found is ProofState.UNPROVABLE:
        return f"sharing rests on that alone: {table.text}"
    if found is ProofState.UNKNOWN:
        return "before the first batch is shared, some samples are made here and compared with other jobs'"
    if not (forms := compared_forms(terms)):
        return "Seneca's own code makes its payloads; some that are served are made again and compared"
    n = terms.n_samples if terms.own is None else len(terms.own)
    forms_text = "; ".join(f"{form.name}: {confidence.in_words(counts[form], n)}" for form in forms)
    return f"compared with what other jobs make: {forms_text}"


def why_not_exact(terms: Terms | None, support: Support | None, *, has_cache: bool) -> str:
    """Why each job would not make the same of a sample; empty: nothing is known against it."""
    if terms is None:
        why = () if support is None or not has_cache else support.why
        return "; ".join(why) or "torch's workers make its items, and cache=None"
    if not may_be_made_again(terms):
        kind = "the dataset" if support is None else type(support.base).__name__
        return f"{kind} keeps a state, or draws from a generator of its own"
    return ""
