"""Facts about this process: its ranks, its memory limits, whether Seneca is on, and how it ends."""
