"""The emoji benchmark: one taxonomy, 12 ways of drawing, splits by drawing family, by class and by number."""

from labeltree.datasets.emoji import datasets  # noqa: F401  it registers the data sets
from labeltree.datasets.emoji.fetch import fetch_emoji

__all__ = ["fetch_emoji"]
