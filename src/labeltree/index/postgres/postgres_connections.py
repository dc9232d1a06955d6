"""Connections to a PostgreSQL database with the extension pgvector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from labeltree.errors import DataError
from labeltree.index.addresses import Address

if TYPE_CHECKING:
    import psycopg

__all__ = ["Connections", "scans_iteratively"]

_OLDEST = (0, 7)  # pgvector: half precision, and vectors brought to length 1


class Connections:
    """Connections to one database; those that are idle are used again. For several threads.

    A server that cannot be reached is told at once and with its reason, where the pool of `psycopg_pool`
    tries again until its time is over, and does not give the reason.

    Args:
        address: Of the index, which errors name.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[psycopg.Connection[Any]] = []
        self._guard = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of one's own; what PostgreSQL reports becomes one sentence, without passwords."""
        client = _client()
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        except client.errors.LockNotAvailable:
            raise DataError(
                f"another process is changing the index '{self._address.shown}'; run it again when it is done"
            ) from None
        except client.Error as error:
            raise DataError(
                f"PostgreSQL reports a problem with the index '{self._address.shown}': "
                f"{self._address.without_secrets(error)}"
            ) from None

    def _take(self) -> psycopg.Connection[Any]:
        with self._guard:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return _connect(self._address)

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        if connection.closed or connection.info.transaction_status:  # not idle
            connection.close()
            return
        with self._guard:
            self._idle.append(connection)


def _connect(address: Address) -> psycopg.Connection[Any]:
    client = _client()
    from pgvector.psycopg import register_vector

    connection: psycopg.Connection[Any] = client.connect(
        address.target, autocommit=True, client_encoding="utf8"
    )
    try:
        installed = _extension_version(connection)
        if installed is None:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            installed = _extension_version(connection)
        if installed is None or installed < _OLDEST:
            raise DataError(
                f"the database of '{address.shown}' has pgvector {'.'.join(map(str, installed or ()))}; "
                f"labeltree needs {'.'.join(map(str, _OLDEST))} or later: update it, "
                "then run ALTER EXTENSION vector UPDATE"
            )
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise DataError(f"the database of '{address.shown}' does not store UTF-8; make one that does")
        register_vector(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _client() -> Any:
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
    except ImportError as error:
        raise ImportError(
            "an index on PostgreSQL needs the packages 'psycopg' and 'pgvector': "
            "pip install 'labeltree[postgres]'"
        ) from error
    return psycopg


def _extension_version(connection: psycopg.Connection[Any]) -> tuple[int, ...] | None:
    """The version of pgvector in the database; None if it has none."""
    answer = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return tuple(int(part) for part in str(answer[0]).split(".")) if answer else None


def scans_iteratively(connection: psycopg.Connection[Any]) -> bool:
    """Whether pgvector goes on searching until enough rows pass a filter (from 0.8 on)."""
    return (_extension_version(connection) or (0,)) >= (0, 8)
