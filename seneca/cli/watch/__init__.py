"""Commands that watch jobs: top, metrics, report."""
