"""The audit: what was delivered and served is written to files, and the files are checked."""
