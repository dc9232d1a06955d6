"""Connections end when a client sends or reads nothing, whatever it does, and are told why as JSON."""

import asyncio
import contextlib
import inspect
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from labeltree.serving import ServiceSettings
from labeltree.serving.connections import Connection, connection_class

SHORT = 0.2  # seconds that a client has
PATIENCE = 60  # seconds until a test gives up; none takes so long unless it fails
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LARGE = 50_000_000  # bytes, more than sockets hold


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads a posted body, or replies at once: 401 to a path, much to another."""
    status, body = (401, b"no") if scope["path"] == "/early" else (200, b"yes")
    if scope["path"] == "/large":
        body = bytes(LARGE)
    while status == 200 and scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Service:
    """Connections to the application, without the rest of uvicorn."""

    def __init__(self, **settings: Any) -> None:
        self.protocol = connection_class(ServiceSettings(**{"timeout": PATIENCE} | settings))
        self.config = uvicorn.Config(
            app, http=self.protocol, lifespan="off", ws="none", timeout_keep_alive=PATIENCE
        )
        self.config.load()
        self.state = ServerState()

    async def start(self) -> None:
        self.server = await asyncio.get_running_loop().create_server(self._connection, "127.0.0.1", 0)
        self.address = self.server.sockets[0].getsockname()

    def _connection(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        made: asyncio.Protocol = protocol(  # as `uvicorn.Server.startup` does
            config=self.config, server_state=self.state, app_state={}, _loop=None
        )
        return made

    def sent_before(self, what: bytes) -> socket.socket:
        """A client that has sent something before the service has seen it."""
        client = socket.create_connection(self.address, PATIENCE)
        client.sendall(what)
        return client

    async def connect(self) -> Client:
        """A client that the service has seen."""
        before = len(self.state.connections)
        client = await asyncio.open_connection(*self.address)
        while len(self.state.connections) == before:
            await asyncio.sleep(0.001)
        return client

    def shorten(self) -> None:
        """Limit the time of what begins from now on: no test depends on how fast the rest is."""
        self.protocol.limits = ServiceSettings(timeout=SHORT)

    async def all_gone(self) -> None:
        while self.state.connections:
            await asyncio.sleep(0.01)


def running(test: Callable[[Service], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        service = Service(**settings)
        await service.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await test(service)
        finally:
            service.server.close()

    asyncio.run(whole())


async def reply_of(client: Client) -> tuple[int, bytes]:
    """Status and body of the next reply."""
    head = (await client[0].readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head.split()[1]), await client[0].readexactly(length)


async def refused(client: Client) -> tuple[int, str]:
    """Status and sentence of the last reply, after which the connection is closed."""
    status, body = await reply_of(client)
    assert await client[0].read() == b""
    client[1].close()
    found = json.loads(body)
    assert list(found) == ["detail"]
    return status, found["detail"]


async def dribble(client: Client, what: bytes) -> None:
    """Send a byte again and again, until the connection is closed."""
    try:
        while True:
            client[1].write(what)
            await client[1].drain()
            await asyncio.sleep(SHORT / 10)
    except OSError:
        return


def test_uvicorn_is_as_the_connections_need_it() -> None:
    """Where this fails, uvicorn has changed: go through serving/connections.py beside its H11Protocol."""
    for name, arguments in {
        "connection_made": ["self", "transport"],
        "connection_lost": ["self", "exc"],
        "data_received": ["self", "data"],
        "on_response_complete": ["self"],
        "pause_writing": ["self"],
        "send_400_response": ["self", "msg"],
    }.items():
        method = getattr(H11Protocol, name, None)
        assert method is not None, f"uvicorn's H11Protocol has no {name}"
        assert list(inspect.signature(method).parameters) == arguments, name

    async def attributes() -> None:
        connection = Service()._connection()
        assert isinstance(connection, Connection)
        assert isinstance(connection.conn, h11.Connection)
        assert connection.app is connection.config.loaded_app
        assert connection.connections is connection.server_state.connections
        assert connection.cycle is None
        assert connection.server_state.default_headers == []
        assert connection.loop is asyncio.get_running_loop()

    asyncio.run(attributes())
    assert "self.response_complete = " in inspect.getsource(RequestResponseCycle)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_no_request_in_time(sent: bytes) -> None:
    async def test(service: Service) -> None:
        client = await asyncio.open_connection(sock=service.sent_before(sent))
        assert await refused(client) == (408, "no whole request arrived within 0.2 s")
        await service.all_gone()

    running(test, timeout=SHORT)


def test_a_head_that_dribbles() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        client[1].write(b"GET / HTTP/1.1\r\nX: ")
        dribbling = asyncio.create_task(dribble(client, b"x"))
        await service.all_gone()
        await dribbling

    running(test, timeout=SHORT)


def test_a_second_head_that_dribbles() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        for _ in range(2):
            client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reply_of(client) == (200, b"yes")
        service.shorten()
        client[1].write(b"GET")
        assert (await refused(client))[0] == 408

    running(test)


def test_two_requests_at_once_and_half_a_third() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        service.shorten()
        client[1].write(2 * b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET")
        assert await reply_of(client) == await reply_of(client) == (200, b"yes")
        assert (await refused(client))[0] == 408

    running(test)


def test_a_body_has_the_time_that_its_reader_gives() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        service.shorten()
        client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n")
        for _ in range(12):
            await asyncio.sleep(SHORT / 6)
            client[1].write(b"x")
        assert await reply_of(client) == (200, b"yes")
        await asyncio.sleep(2 * SHORT)  # of the time between requests, for which uvicorn has its own limit
        client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reply_of(client) == (200, b"yes")
        client[1].close()

    running(test)


@pytest.mark.parametrize("length", [1_000_000, 2])
def test_bytes_after_an_early_reply(length: int) -> None:
    """The rest of the body, or a further request that never ends, keeps no connection."""

    async def test(service: Service) -> None:
        client = await service.connect()
        service.shorten()
        client[1].write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
        assert await reply_of(client) == (401, b"no")
        dribbling = asyncio.create_task(dribble(client, b"x"))
        await service.all_gone()
        await dribbling

    running(test)


def test_an_early_reply_and_silence() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        service.shorten()
        client[1].write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert await reply_of(client) == (401, b"no")
        assert await client[0].read() == b""

    running(test)


def test_an_early_reply_and_the_rest_of_the_body() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        client[1].write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert await reply_of(client) == (401, b"no")
        client[1].write(bytes(9) + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reply_of(client) == (200, b"yes")
        client[1].close()

    running(test)


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"G" * 20_000])
def test_no_http(sent: bytes) -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        client[1].write(sent)
        status, body = await reply_of(client)
        assert (status, json.loads(body)) == (400, {"detail": "this is not a valid HTTP request"})
        client[1].close()
        await service.all_gone()

    running(test)


def test_a_refusal_has_the_headers_of_every_reply() -> None:
    async def test(service: Service) -> None:
        service.state.default_headers = [(b"server", b"it")]
        client = await service.connect()
        client[1].write(b"GET\r\n\r\n")
        head = (await client[0].readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        assert {b"server: it", b"connection: close", b"content-type: application/json"} < set(head)
        client[1].close()

    running(test)


def test_of_few_connections_one_more_is_told() -> None:
    """When to try again; the fourth is closed unheard."""

    async def test(service: Service) -> None:
        clients = [await service.connect() for _ in range(3)]
        fourth = await asyncio.open_connection(*service.address)
        with contextlib.suppress(OSError):  # reset
            assert await fourth[0].read() == b""
        clients[2][1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        head = (await clients[2][0].readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        assert head[0].startswith(b"http/1.1 503")
        assert {b"retry-after: 1", b"connection: close"} < set(head)
        for client in (*clients, fourth):
            client[1].close()

    running(test, max_connections=2)


def test_too_many_connections() -> None:
    async def test(service: Service) -> None:
        request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        clients = []
        for _ in range(18):  # 16 are served, and two more are told
            clients.append(await service.connect())
        nineteenth = await asyncio.open_connection(*service.address)
        try:
            nineteenth[1].write(request)
            assert await nineteenth[0].read() == b""
        except OSError:
            pass  # reset
        for client in clients[16:]:
            client[1].write(request)
            status, sentence = await refused(client)
            assert (status, "too many connections" in sentence) == (503, True)
        for client in clients[:16]:
            client[1].write(request)
            assert await reply_of(client) == (200, b"yes")
        while len(service.state.connections) > 16:
            await asyncio.sleep(0.001)
        clients[0][1].close()
        while len(service.state.connections) > 15:
            await asyncio.sleep(0.001)
        again = await service.connect()
        again[1].write(request)
        assert await reply_of(again) == (200, b"yes")
        for client in (*clients, nineteenth, again):
            client[1].close()

    running(test, max_connections=16)


@pytest.mark.parametrize("closed", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("full", [65_536, 2 * LARGE])
def test_a_reply_that_is_never_read(closed: bytes, full: int) -> None:
    """Whether it is more than the buffer of the connection should hold, or not."""

    async def test(service: Service) -> None:
        client = await service.connect()
        (connection,) = service.state.connections
        connection.transport.set_write_buffer_limits(full)
        reading: Any = client[1].transport
        reading.pause_reading()
        service.shorten()
        client[1].write(b"GET /large HTTP/1.1\r\nHost: x\r\n" + closed + b"\r\n")
        await service.all_gone()
        reading.resume_reading()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reply_of(client)

    running(test)


def test_a_reply_that_is_never_read_by_a_client_that_asks_on() -> None:
    """Further requests are no sign that a reply is read."""

    async def test(service: Service) -> None:
        client = await service.connect()
        (connection,) = service.state.connections
        connection.transport.set_write_buffer_limits(4 * LARGE)
        reading: Any = client[1].transport
        reading.pause_reading()
        service.shorten()
        client[1].write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENCE / 6):
            await dribble(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await service.all_gone()

    running(test)


def test_a_reply_that_is_read_does_not_limit_the_next() -> None:
    async def test(service: Service) -> None:
        client = await service.connect()
        (connection,) = service.state.connections
        assert isinstance(connection, Connection)
        client[1].write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        status, body = await reply_of(client)
        assert (status, len(body)) == (200, LARGE)
        assert connection._until_read is not None
        client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reply_of(client) == (200, b"yes")
        assert connection._until_read is None
        client[1].close()
        await service.all_gone()

    running(test)
