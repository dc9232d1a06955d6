"""The primitives over tiles of pairs, of which few are held at a time."""
