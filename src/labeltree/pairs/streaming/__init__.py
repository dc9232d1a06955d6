"""The primitives over tiles of pairs: memory in proportion to the rows, not to the pairs."""
