"""A limit to the memory that threads use at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["MemoryLimit"]


class MemoryLimit:
    """Bytes that threads may use at once, in total; who comes first is served first.

    A large request is not overtaken by small ones, so that it does not wait for ever.

    Attributes:
        most: The limit, in bytes.
        used: Bytes in use.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def taking(self, count: int) -> Iterator[None]:
        """Wait until so many bytes are free, and use them within the block.

        Raises:
            ValueError: If they are more than the limit, and would never be free.
        """
        if count > self.most:
            raise ValueError(f"{count:,} bytes are wanted of {self.most:,}")
        place = object()
        with self._changed:
            self._waiting.append(place)
            self._changed.wait_for(lambda: self._waiting[0] is place and self.used + count <= self.most)
            self._waiting.popleft()
            self.used += count
            self._changed.notify_all()  # there may be room for the next one, too
        try:
            yield
        finally:
            with self._changed:
                self.used -= count
                self._changed.notify_all()
