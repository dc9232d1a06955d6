"""Exact nearest-neighbour search, and the scores that are read off its rankings."""
