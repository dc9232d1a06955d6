"""Versions of a taxonomy: matching, mappings, changes."""
