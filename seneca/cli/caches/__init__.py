"""Commands that act on caches: ls, stat, rm, prune, shrink, warm, remote serve."""
