"""The primitives as their definitions have them: all pairs at once. What the others are tested against."""
