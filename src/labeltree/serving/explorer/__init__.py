"""`labeltree explore`: a page on which an index is searched, looked at and corrected."""

from labeltree.serving.explorer.collection import Collection, Found

__all__ = ["Collection", "Found"]
