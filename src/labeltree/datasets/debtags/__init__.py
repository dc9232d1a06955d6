"""Descriptions of Debian packages and their tags."""
