"""Where pictures are that lie in larger files: in archives, and in tables of Hugging Face ``datasets``."""

from seneca.data.sources.listing import PIECE, Listing, Member, Samples

__all__ = ["PIECE", "Listing", "Member", "Samples"]
