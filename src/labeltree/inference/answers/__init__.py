"""Answers as rows, tables, files and pages of a notebook."""
