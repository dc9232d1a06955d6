"""Frozen features: computed once, kept, and trained on."""
