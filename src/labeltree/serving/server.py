"""Running a service until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from labeltree.errors import DataError
from labeltree.processes import keep_freed_memory
from labeltree.serving.service_settings import ServiceSettings

__all__ = ["bound", "is_loopback", "run_app", "serve"]

_PAGES = ("/", "/docs", "/redoc", "/health")  # a link on another page may lead there


def serve(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServiceSettings | None = None,
    devices: Sequence[str] = (),
    threads: int | None = None,
    token: str | None = None,
    access_log: bool = False,
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> None:
    """Serve a run over HTTP until Ctrl-C or SIGTERM; requests in progress are still answered.

    Args:
        run: the run folder, or the folder of an exported model.
        host: address to listen on; the default is reached from this machine only.
        port: 0 = one that is free.
        settings: batches and limits.
        devices: see `labeltree.serving.engine.Engine`.
        threads: see `labeltree.serving.engine.Engine`.
        token: a bearer token that clients must send.
        access_log: print a line for every request.
        names: of this machine, which requests may use besides ``localhost`` and addresses, so that no page of
            a stranger reaches it by a name of its own. None, on a host that others reach: any name.
        say: is told once the service answers, and where.

    Raises:
        RunError: if the folder is not a finished run.
        DataError: if the address cannot be listened on.
        ValueError: if the port, a device or the number of threads is not valid.
        ImportError: if the libraries of the service are missing.
    """
    _require_libraries()
    settings = settings or ServiceSettings()
    with bound(host, port) as listener:
        from labeltree.serving.app import create_app
        from labeltree.serving.engine import Engine
        from labeltree.serving.guard import Guard

        keep_freed_memory()
        engine = Engine(run, settings, devices=devices, threads=threads)
        try:
            known = names if names or is_loopback(host) else None
            app = Guard(create_app(engine, token=token), None, known, pages=_PAGES)
            run_app(app, listener, settings, access_log=access_log, say=say)
        finally:
            engine.close(settings.timeout)


def _require_libraries() -> None:
    try:
        import fastapi_offline  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"serving needs the library {error.name}; install it with: pip install 'labeltree[serve]'"
        ) from error


def run_app(
    app: Any,
    listener: socket.socket,
    settings: ServiceSettings,
    *,
    access_log: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Answer requests by an ASGI application until Ctrl-C or SIGTERM; those in progress are still answered.

    Args:
        app: the application.
        listener: see `bound`.
        settings: limits of connections.
        access_log: print a line for every request.
        say: is told the address once the application answers.

    Raises:
        ImportError: if the libraries of the service are missing.
    """
    _require_libraries()
    import uvicorn

    from labeltree.serving.connections import connection_class

    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of every broken form

    class Server(uvicorn.Server):
        """Says when it answers, and ends without raising the signal again."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                address = listener.getsockname()
                name = f"[{address[0]}]" if ":" in address[0] else address[0]
                say(f"http://{name}:{address[1]}")

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            with _signals(self.handle_exit):
                yield

    config = uvicorn.Config(
        app,
        log_level="info" if access_log else "warning",
        access_log=access_log,
        http=connection_class(settings),
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        ws="none",
    )
    Server(config).run(sockets=[listener])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at the address, which does not listen yet."""
    if not 0 <= port <= 65_535:
        raise ValueError(f"port is {port}; expected 0 (any that is free) to 65535")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise DataError(
            f"cannot listen on '{host}', port {port}: {_reason(error)}; name another --host"
        ) from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise DataError(
                f"cannot listen on '{host}', port {port}: {_reason(error)}; name another --port (0: any "
                "that is free)"
            ) from error
        yield listener


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within the block, Ctrl-C and SIGTERM call the handler; ignored signals stay ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
