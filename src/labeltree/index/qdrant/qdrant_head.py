"""The head of an index on Qdrant: the point that decides what readers see, and its lock."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from labeltree.errors import DataError
from labeltree.index.store import StoreChangedError

__all__ = ["HeadPoint", "QdrantHead"]

_HEAD = 0
_PATIENCE_S = (
    60.0  # how long a writer waits for another; as long without a sign of it, and it is taken for dead
)


@dataclass(frozen=True)
class QdrantHead:
    """The point that decides what readers see.

    Attributes:
        token: Changes with every write of the head.
        generation: What readers see.
        document: Number of the point with the settings; 0: the index is not made yet.
        next_point: Number of the next point of a row.
        next_row: Number of the next row.
        writer: Who is writing, or None.
        unfinished: Whether points of a later generation may lie there.
    """

    token: str = ""
    generation: int = 0
    document: int = 0
    next_point: int = 0
    next_row: int = 0
    writer: str | None = None
    unfinished: bool = False


class HeadPoint:
    """The head as it was read last, written only over itself.

    Args:
        client: Of Qdrant.
        collection: Name of the collection of the head.
        where: The index, for messages.

    Attributes:
        head: As it was read or written last.
    """

    def __init__(self, client: Any, collection: str, where: str) -> None:
        self._client, self._collection, self._where = client, collection, where
        self.head = QdrantHead()

    def make(self) -> None:
        """Write a head of no index, unless there is one."""
        from qdrant_client import models

        self.head = QdrantHead(token=uuid.uuid4().hex)
        self._client.upsert(
            self._collection,
            [models.PointStruct(id=_HEAD, vector={}, payload=asdict(self.head))],
            update_mode=models.UpdateMode.INSERT_ONLY,
            wait=True,
        )

    def read(self) -> QdrantHead:
        """The head as it is now."""
        points = self._client.retrieve(self._collection, [_HEAD], with_payload=True)
        try:
            return QdrantHead(**points[0].payload)
        except (IndexError, TypeError):
            raise DataError(
                f"the collection '{self._collection}' at {self._where} is not an index of labeltree; "
                "take another name"
            ) from None

    def swap(self, **changes: Any) -> None:
        """Write the head, if it is still the one that was read. Only for who holds the lock, or takes it."""
        new = self.write_over(**changes)
        if self.read().token != new.token:
            raise StoreChangedError(f"another process is changing the index '{self._where}'; run it again")
        self.head = new

    def release(self) -> None:
        """Give the lock back, if it is still held.

        Nothing is read to confirm that: the next writer may have the lock before it could be.
        """
        self.head = self.write_over(writer=None, unfinished=False)

    def write_over(self, **changes: Any) -> QdrantHead:
        """Write the head if it is still the one that was read; the return value is what was to be written."""
        from qdrant_client import models

        new = replace(self.head, token=uuid.uuid4().hex, **changes)
        same = models.FieldCondition(key="token", match=models.MatchValue(value=self.head.token))
        self._client.upsert(
            self._collection,
            [models.PointStruct(id=_HEAD, vector={}, payload=asdict(new))],
            update_filter=models.Filter(must=[same]),
            ordering=models.WriteOrdering.STRONG,
            wait=True,
        )
        return new

    def lock(self, me: str) -> None:
        """Take the lock, or wait for it.

        Raises:
            DataError: If another process holds it for long.
        """
        begun = seen = time.monotonic()
        token = None
        while True:
            self.head = self.read()
            if self.head.token != token:
                token, seen = self.head.token, time.monotonic()
            now = time.monotonic()
            if self.head.writer is None or now - seen > _PATIENCE_S:
                with suppress(StoreChangedError):
                    self.swap(writer=me, unfinished=True, document=self.head.document)
                    break
            elif now - begun > 2 * _PATIENCE_S:
                raise DataError(
                    f"another process is changing the index '{self._where}'; run it again when it is done"
                )
            time.sleep(0.02)
