"""Where samples come from: a source knows paths and labels and gives the bytes of a file."""

from seneca.sources.folder import ImageFolder

__all__ = ["ImageFolder"]
