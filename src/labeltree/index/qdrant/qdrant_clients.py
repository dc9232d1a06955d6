"""Clients of Qdrant, one for each address, and what they report as sentences."""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from labeltree.errors import DataError, LabeltreeError
from labeltree.index.addresses import Address

__all__ = ["as_sentences", "client_of"]

_OLDEST = (1, 17)  # conditional writes, and those that only insert


class _OneAtATime:
    """Qdrant's client in a folder or in memory, which is not for several threads, for several threads."""

    def __init__(self, client: Any) -> None:
        self._client, self._guard = client, threading.RLock()

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._client, name)

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                return method(*args, **kwargs)

        return call


_clients: dict[str, Any] = {}
_opening = threading.Lock()


def client_of(address: Address) -> Any:
    """A client: one for each address, since a folder can be opened only once."""
    try:
        import qdrant_client
    except ImportError as error:
        raise ImportError(
            "an index on Qdrant needs the package 'qdrant-client': pip install 'labeltree[qdrant]'"
        ) from error
    with _opening, as_sentences(address):
        if not address.is_folder:
            key = f"{address.target} {address.api_key}"
            if key not in _clients:
                client = qdrant_client.QdrantClient(
                    url=address.target,
                    api_key=address.api_key or os.environ.get("QDRANT_API_KEY"),
                    timeout=60,
                )
                _check_server(client, address)
                _clients[key] = client
            return _clients[key]
        key = address.target if address.target == ":memory:" else str(Path(address.target).absolute())
        if key not in _clients:
            place = None if key == ":memory:" else key
            client = qdrant_client.QdrantClient(location=None if place else key, path=place)
            atexit.register(client.close)
            _clients[key] = _OneAtATime(client)
        return _clients[key]


def _check_server(client: Any, address: Address) -> None:
    version = str(client.info().version)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
        raise DataError(
            f"the server of '{address.shown}' is Qdrant {version}; labeltree needs "
            f"{'.'.join(map(str, _OLDEST))} or later, which writes points on conditions: update it"
        )


@contextmanager
def as_sentences(address: Address) -> Iterator[None]:
    """What Qdrant's client reports becomes one sentence, without the key."""
    try:
        yield
    except (LabeltreeError, ImportError, GeneratorExit):
        raise
    except Exception as error:
        clients = ("qdrant_client", "httpx", "httpcore", "grpc")
        if type(error).__module__.partition(".")[0] not in clients and not isinstance(
            error, ValueError | OSError
        ):
            raise
        raise DataError(
            f"Qdrant reports a problem with the index '{address.shown}': {address.without_secrets(error)}"
        ) from None
