"""The cache that the jobs of a host share: one segment for each dataset, in shared memory or in a folder."""

from seneca.cache.objects import folder_in_force, path_of, user_name
from seneca.cache.room import auto_bytes
from seneca.cache.sample_cache import (
    MISTAKES,
    SampleCache,
    cache_name,
    distrust_text,
    note_user,
    same_job_text,
    seed_beside_others,
    shared_cache,
    shares_of,
    split_of,
    split_text,
)

__all__ = [
    "MISTAKES",
    "SampleCache",
    "auto_bytes",
    "cache_name",
    "distrust_text",
    "folder_in_force",
    "note_user",
    "path_of",
    "same_job_text",
    "seed_beside_others",
    "shared_cache",
    "shares_of",
    "split_of",
    "split_text",
    "user_name",
]
