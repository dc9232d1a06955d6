"""The primitives computed over tiles of pairs, with only a few tiles in memory at a time."""
