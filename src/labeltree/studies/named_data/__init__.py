"""The data sets of labeltree's own studies: drawings of emoji, and packages of Debian with their tags.

Importing this registers them, so that `labeltree data get` has them as it has the others.
"""

from labeltree.studies.named_data.debtags import debtags_taxonomy
from labeltree.studies.named_data.emoji import fetch_emoji

__all__ = ["debtags_taxonomy", "fetch_emoji"]
