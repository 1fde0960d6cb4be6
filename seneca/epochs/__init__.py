"""Epochs: which samples, in which order, for which rank, and how far an epoch has come.

``plan`` decides the first three once for each epoch. It needs neither a cache nor the native core.
"""
