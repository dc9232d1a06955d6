"""Standardise vectors by the training samples."""

from __future__ import annotations

import logging

from labeltree.data import Source
from labeltree.models import Encoder, VectorEncoder
from labeltree.taxonomy.naming import some

__all__ = ["standardise"]

_AT_ONCE = 1 << 22  # numbers that are read at a time
_log = logging.getLogger("labeltree.training")


def standardise(encoder: Encoder, training: Source) -> None:
    """Fit an encoder of vectors to the training samples; other encoders stay as they are.

    Columns that are constant there are left out, with a warning.
    """
    encoder = encoder.without_adapter
    store = training.vectors
    if store is None or not isinstance(encoder, VectorEncoder):
        return
    rows = training.rows.split(max(1, _AT_ONCE // store.width))  # type: ignore[no-untyped-call]
    constant = encoder.fit(store.load(some_rows) for some_rows in rows)
    if len(constant) == store.width:
        _log.warning("all training samples are one and the same vector: there is nothing to learn from")
    elif constant:
        names = [f"column {at + 1}" if store.columns is None else store.columns[at] for at in constant]
        are = "number is" if len(names) == 1 else "numbers are"
        _log.warning(
            "%d of %d %s constant among the training samples, and left out: %s",
            len(names),
            store.width,
            are,
            some(names, 3),
        )
