"""Losses with a queue of keys."""
