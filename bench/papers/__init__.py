"""The papers beside Seneca: their policies under one clock, and their experiments."""
