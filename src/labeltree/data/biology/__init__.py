"""Ranks, names and Darwin Core."""
