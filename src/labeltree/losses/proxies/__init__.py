"""Losses of prototypes and proxies."""
