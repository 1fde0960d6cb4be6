"""What code names, and where it comes from."""
