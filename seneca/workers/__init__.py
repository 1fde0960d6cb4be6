"""Back end two: torch's worker processes prepare items of any dataset, and share them."""
