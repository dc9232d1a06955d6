"""The document of an index on Qdrant: a point with its settings, and with the node of each label."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.index.store import IndexSettings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IndexDocument"]


@dataclass(frozen=True)
class IndexDocument:
    """What a generation shows besides rows.

    Attributes:
        settings: Of the index.
        schema: Of the rows.
        nodes: `(labels,)` the node that each label is now.
        rows: Name of the collection of the rows.
    """

    settings: IndexSettings
    schema: pa.Schema
    nodes: np.ndarray[Any, Any]
    rows: str

    @classmethod
    def read(cls, client: Any, collection: str, number: int, where: str) -> IndexDocument:
        """Read the point of a number; `where` is the index, for messages.

        Raises:
            DataError: If there is no such point.
        """
        import pyarrow as pa

        points = client.retrieve(collection, [number], with_payload=True)
        if not points:
            raise DataError(
                f"the index at '{where}' has lost its settings; make it anew with 'labeltree index'"
            )
        payload = points[0].payload
        return cls(
            IndexSettings.from_text(payload["settings"], where),
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(payload["columns"]))),
            np.array(payload["nodes"], np.int64),
            payload["rows"],
        )

    def write(self, client: Any, collection: str, number: int) -> None:
        """Write it as the point of a number."""
        from qdrant_client import models

        payload = {
            "settings": self.settings.to_text(),
            "columns": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "nodes": self.nodes.tolist(),
            "rows": self.rows,
        }
        client.upsert(collection, [models.PointStruct(id=number, vector={}, payload=payload)], wait=True)
