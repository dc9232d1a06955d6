"""Losses of pairs and rankings within a batch."""
