"""Says in plain words what of a dataset is shared that the native core prepares."""

from __future__ import annotations

from collections.abc import Sequence

from seneca._runtime.distributed import job_key
from seneca.cache import cache_name
from seneca.data.support import Support
from seneca.data.traits import Traits
from seneca.forms import unrecoded_text
from seneca.options import Options
from seneca.tuning.neighbours import neighbours_text, sharers_text

__all__ = ["native_text", "seed_text"]


def native_text(
    support: Support,
    options: Options,
    given_up: str | None,
    *,
    besides: Sequence[str],
    of_job: str,
    unrecoded: dict[str, int],
) -> str:
    """Explain what is shared, with whom, and why not more.

    Args:
        support: What the inspection of the dataset has found.
        options: The loader's options.
        given_up: Why these files are no longer shared; None: they may be shared.
        besides: What of the user's is used.
        of_job: With which jobs copies are shared, and with which loaders they are not; empty: with all.
        unrecoded: How many files this loader could not keep RECODED, by the cause.
    """
    files, pipeline = support.files, support.pipeline
    assert files is not None and pipeline is not None
    lines = ["nothing is shared: cache=None"]
    if given_up is not None:
        lines = [f"nothing is shared: {given_up}"]
    elif options.cache is not None:
        name = cache_name(getattr(options.cache, "name", options.cache), files.fingerprint())
        augments = options.share == "exact" or (options.share == "augmented" and not pipeline.deterministic)
        recoded = "RECODED, " if pipeline.recodes else ""
        forms = f"ENCODED, {recoded}DECODED" + (", AUGMENTED" if augments else "")
        lines = [
            f"may be shared in the cache {name!r}: {forms}{of_job}",
            sharers_text(name, job_key(options.job)),
            support.describe_fingerprint(),
        ]
        if text := unrecoded_text(unrecoded):
            lines.append(text)
        traits = Traits.of(support)
        if traits is not None and (text := neighbours_text(traits, name, job_key(options.job))):
            lines.append(text)
    if servers := options.remote_wanted:
        are_exact = options.share == "exact" and options.cache is not None
        what = "files and exact copies" if are_exact else "files"
        lines.append(f"{what} are shared with other hosts by {', '.join(one.name for one in servers)}")
    lines[0] = f"native: {'; '.join([*support.why, *besides])}; {lines[0]}"
    return "\n".join(lines)


def seed_text(*, has_generator: bool) -> str:
    """With which jobs exact copies are shared."""
    if has_generator:
        return ", with the jobs whose generator= gives the same numbers"
    return (
        ", with the jobs in which torch's global generator gives the same numbers; it changes with all "
        "that draws from it, so give generator=torch.Generator().manual_seed(seed)"
    )
