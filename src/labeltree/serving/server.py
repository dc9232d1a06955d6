"""Running a service until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from labeltree.errors import DataError
from labeltree.options.schema import as_place
from labeltree.options.serving import ServeOptions, ServiceOptions
from labeltree.processes import keep_freed_memory
from labeltree.serving.service_settings import ServiceSettings

__all__ = ["bound", "is_loopback", "read_token", "run_app", "serve"]

_PAGES = ("/", "/docs", "/redoc", "/health")  # a link on another page may lead there


def serve(options: ServeOptions) -> None:
    """Serve a run over HTTP until Ctrl-C or SIGTERM; requests in progress are still answered.

    On a host that others reach, without names, any name is taken; else only `localhost`, addresses and the
    names, so that no page of a stranger reaches the service by a name of its own.

    Raises:
        RunError: If the folder is not a finished run.
        DataError: If the address cannot be listened on.
        ValueError: If the port, a device, the number of threads or the token is not valid.
        ImportError: If the libraries of the service are missing.
    """
    _require_libraries()
    token, settings = read_token(options), ServiceSettings(**options.limits)
    with bound(options.host, options.port) as listener:
        from labeltree.serving.app import create_app
        from labeltree.serving.engine import Engine
        from labeltree.serving.guard import Guard

        keep_freed_memory()
        engine = Engine(as_place(options.run), settings, devices=options.devices, threads=options.threads)
        try:
            known = options.names if options.names or is_loopback(options.host) else None
            app = Guard(create_app(engine, token=token), None, known, pages=_PAGES)
            run_app(app, listener, settings, access_log=options.access_log, say=options.say)
        finally:
            engine.close(settings.timeout)


def read_token(options: ServiceOptions) -> str | None:
    """The token that is given, or lies in a file or an environment variable; None if there is none.

    Raises:
        ValueError: If what is named holds no token.
    """
    file, variable = options.token_file, options.token_env
    if file is None and variable is None and options.token is None:
        return None
    place = "token"
    text = options.token or ""
    if file is not None:
        place = f"the file '{file}'"
        try:
            text = Path(file).read_text("utf-8")
        except UnicodeDecodeError:
            text = ""
    elif variable is not None:
        place, text = f"the environment variable {variable}", os.environ.get(variable, "")
    token = text.strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{place} holds no token: at least 16 printable ASCII characters without spaces, such as "
            "'openssl rand -hex 32' prints"
        )
    return token


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
        app: The application.
        listener: See `bound`.
        settings: Limits of connections.
        access_log: Print a line for every request.
        say: Is told the address once the application answers.

    Raises:
        ImportError: If the libraries of the service are missing.
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
