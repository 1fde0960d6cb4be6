"""How a cache's memory is divided among the forms of a sample. Pure: no torch, no native core."""

from seneca.partition.split import Split, default_split

__all__ = ["Split", "default_split"]
