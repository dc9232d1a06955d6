"""Exact nearest-neighbour search, and the scores computed from its rankings."""
