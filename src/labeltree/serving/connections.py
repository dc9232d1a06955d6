"""Connections of a service: limits to their time and number. Imports uvicorn, which only serving needs."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from labeltree.serving.service_settings import ServiceSettings

__all__ = ["Connection", "connection_class"]

_TRY_AGAIN = (b"retry-after", b"1")


def connection_class(settings: ServiceSettings) -> type[Connection]:
    """The class of the connections of a service, for `uvicorn.Config(http=...)`."""

    class Limited(Connection):
        limits = settings

    return Limited


class Connection(H11Protocol):
    """A connection that ends when its client sends or reads nothing, or too slowly.

    Uvicorn limits only the time between a reply and the first byte of the next request. Here, `timeout`
    limits three more:

    - from the connection, or from the first byte of a further request, to the end of the request's head: 408;
    - from a reply that came before the whole body (401, 413) to the head of the next request: closed;
    - from a reply to when the client has read it: closed.

    The time of a body is limited by whoever reads it. Of more than `max_connections`, the next ones are
    told 503; those beyond an eighth more are closed, unheard. What is no HTTP is told 400. Replies are JSON.
    """

    limits = ServiceSettings()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._until_head: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self.limits.max_connections
        if len(self.connections) > most + max(1, most // 8):
            transport.abort()
            return
        if len(self.connections) > most:
            self.app = _too_many_connections
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._reply_is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.get_write_buffer_size():
            self._reply_is_read()
        super().data_received(data)
        if self._answering:
            self._head_is_there()
        else:  # a part of a head, or of a body that nobody reads
            self._limit_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which goes on with a further request if it is there
        if self._answering:
            self._head_is_there()
        elif self._received or self.conn.their_state not in (h11.IDLE, h11.DONE):
            self._limit_head()
        self._limit_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_reading()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a valid HTTP request")

    @property
    def _answering(self) -> bool:
        """Whether there is a request without its whole reply."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _received(self) -> bytes:
        """The beginning of a head."""
        return self.conn.trailing_data[0]

    def _limit_head(self) -> None:
        if self._until_head is None and not self.transport.is_closing():
            self._until_head = self.loop.call_later(self.limits.timeout, self._no_head)

    def _head_is_there(self) -> None:
        if self._until_head is not None:
            self._until_head.cancel()
            self._until_head = None

    def _no_head(self) -> None:
        if self.cycle is None or (self._received and self.conn.our_state is h11.IDLE):
            self._refuse(408, f"no whole request arrived within {self.limits.timeout:g} s")
        else:
            self.transport.close()
            self._limit_reading()

    def _limit_reading(self) -> None:
        """Give the client its time to read what is written."""
        if self._until_read is None and self.transport.get_write_buffer_size():
            self._until_read = self.loop.call_later(self.limits.timeout, self._not_read)

    def _reply_is_read(self) -> None:
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None

    def _not_read(self) -> None:
        self._until_read = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self, status: int, sentence: str) -> None:
        """Reply to what is no request, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            headers, body = _problem(sentence)
            phrase = HTTPStatus(status).phrase.encode()
            events = (
                h11.Response(
                    status_code=status, headers=self.server_state.default_headers + headers, reason=phrase
                ),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self._limit_reading()


def _problem(sentence: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of a reply after which the connection is closed."""
    body = json.dumps({"detail": sentence}).encode()
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ], body


async def _too_many_connections(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that refuses all requests."""
    headers, body = _problem("too many connections are open; try again a little later")
    await send({"type": "http.response.start", "status": 503, "headers": [*headers, _TRY_AGAIN]})
    await send({"type": "http.response.body", "body": body})
