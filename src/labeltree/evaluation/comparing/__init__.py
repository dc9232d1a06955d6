"""Comparison of methods on the samples that they have in common, and the gate."""
