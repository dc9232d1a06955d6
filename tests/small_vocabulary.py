"""A text encoder with few rows, for tests of everything else."""

from collections.abc import Iterator
from contextlib import contextmanager

from labeltree.models.text_encoders import small_text


@contextmanager
def small_vocabulary(buckets: int = 64) -> Iterator[None]:
    """The encoder of texts hashes words into few buckets: its weights are kilobytes, not 33 megabytes."""
    before, small_text.BUCKETS = small_text.BUCKETS, buckets
    small_text._bucket.cache_clear()  # of words that other tests have hashed
    try:
        yield
    finally:
        small_text.BUCKETS = before
        small_text._bucket.cache_clear()
