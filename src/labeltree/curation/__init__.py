"""Correcting data with what a representation knows: labels that look wrong, and what becomes of them."""

from labeltree.curation.out_of_fold import OutOfFold, out_of_fold

__all__ = ["OutOfFold", "out_of_fold"]
