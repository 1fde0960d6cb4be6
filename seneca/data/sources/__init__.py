"""Where pictures are in larger files: in archives, databases, tables and buckets.

The first row of ``SOURCES`` that matches some paths lists the pictures in them. How to add a row:
docs/contributing/add-a-source.md.
"""

from seneca.data.sources import archives, buckets, lmdb, parquet, shards
from seneca.data.sources.listing import PIECE, ListedPaths, Listing, Member, Samples
from seneca.data.sources.medium import PICTURES, SOUNDS, Medium
from seneca.data.sources.source import ListingOptions, Source

__all__ = [
    "PICTURES",
    "PIECE",
    "SOUNDS",
    "SOURCES",
    "ListedPaths",
    "Listing",
    "ListingOptions",
    "Medium",
    "Member",
    "Samples",
    "Source",
]

SOURCES = (
    Source(buckets.matches, buckets.list_bucket),
    Source(archives.matches, archives.list_archives, archives.ENDINGS),
    Source(parquet.matches, parquet.list_parquet, parquet.ENDINGS),
    Source(lmdb.matches, lmdb.list_database, lmdb.ENDINGS),
    Source(shards.matches, shards.list_shards, shards.ENDINGS),
)
