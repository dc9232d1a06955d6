"""Answers and classes by name: without a run, and in extensions of one."""
