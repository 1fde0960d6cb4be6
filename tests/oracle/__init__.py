"""Each operation in Pillow and NumPy: what the native core must do, written independently of it.

The meaning and the distributions are the core's, pixels are equal up to rounding, and random numbers are
others.
"""
