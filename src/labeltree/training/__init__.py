"""Training: recipes, objectives, runs. Importing it registers the objectives that come with the library."""

from labeltree.training import objectives

__all__ = ["objectives"]
