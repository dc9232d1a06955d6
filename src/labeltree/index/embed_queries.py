"""The run that embeds queries: only the one that made the vectors of an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.errors import DataError, typed

if TYPE_CHECKING:
    from labeltree.inference.model import Model

__all__ = ["open_model", "weights_digest"]


def weights_digest(run: str | Path) -> str | None:
    """The fingerprint of a run's weights; None if it cannot be read."""
    from labeltree.runs import RunFolder
    from labeltree.runs.run_digests import file_digest

    try:
        return file_digest(RunFolder(run).encoder)
    except OSError:
        return None


def open_model(run: str | None, digest: str | None, where: str) -> Model:
    """The run of an index as a model.

    Args:
        run: The run folder; None if it is not known.
        digest: Fingerprint of the weights that made the vectors; None if it is not known.
        where: The index, for messages.

    Raises:
        DataError: If the index was made from vectors alone, the run is gone, or its weights are others than
            those that made the vectors.
    """
    from labeltree.inference.model import Model

    if run is None:
        raise DataError(
            f"the index '{where}' was made from vectors alone; search by vectors or ids, or make it from a "
            "run"
        )
    if not Path(run).exists():
        raise DataError(
            f"the run '{run}', which embeds the queries of the index '{where}', is gone; put it back, or "
            "search by --id or --node"
        )
    if digest is not None and weights_digest(run) != digest:
        raise DataError(
            f"the weights of '{run}' are not those that made the vectors of the index '{where}'; make the "
            f"index anew with 'labeltree index {typed(run)}'"
        )
    return Model(run)
