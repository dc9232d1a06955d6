"""Image files: reading them, and keeping what was read."""
