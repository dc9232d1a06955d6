"""Who may ask: requests for this host by name, from its own page, and with the token if there is one."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
from collections.abc import Collection, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Guard", "host_of"]

_COOKIE = "labeltree"
_NO_TOKEN = ("/", "/health", "/api/session")

Headers = dict[str, str]


class Guard:
    """An ASGI application in front of another one.

    - The Host must be an address, `localhost`, or one of the names. A page of a stranger whose name was
      made to point here (DNS rebinding) sends its own name, and learns nothing. With `names` None any
      name is taken: a service that others reach has names that it does not know.
    - Browsers say where a request comes from; requests from other pages are refused.
    - With a token, everything under `/api`, and `/docs`, needs it: as a bearer token, or as the cookie
      that `POST /api/session` gives for it. Page, script and style hold no data. Browsers send a cookie to
      all ports of a host, so its name has the port, and explorers on one host leave each other's alone.

    Args:
        app: What is guarded.
        token: None: no authentication.
        names: Further names of this host; None: any.
        pages: Paths that other pages may lead to.
    """

    def __init__(
        self,
        app: Any,
        token: str | None,
        names: Iterable[str] | None = (),
        *,
        pages: Collection[str] = ("/",),
    ) -> None:
        self._app = app
        self._token = token
        self._any_name = names is None
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names or ())}
        self._pages = pages
        self._key = secrets.token_bytes(32)  # a cookie ends with the process

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self.refusal(scope["path"], scope["method"], headers)
        if problem is not None:
            await _refuse(send, *problem)
            return

        async def safely(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"cross-origin-resource-policy", b"same-origin"),
                    (b"x-frame-options", b"DENY"),
                ]
            await send(message)

        await self._app(scope, receive, safely)

    @property
    def needs_token(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def cookie_for(self, token: str, host: str) -> str | None:
        """The cookie, with its attributes, for the right token; None for any other.

        Args:
            token: That was sent.
            host: The header Host of the request.
        """
        if self._token is None or not _same(token, self._token):
            return None
        return f"{_cookie_name(host)}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"

    @property
    def _cookie(self) -> str:
        assert self._token is not None
        return hmac.new(self._key, _bytes(self._token), hashlib.sha256).hexdigest()

    def refusal(self, path: str, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host_of(host)
        if name is None or not (self._any_name or name in self._names or _is_address(name)):
            return 421, (
                "this host is not known by the name in the address; use its address, localhost, or start "
                "it with --name NAME"
            )
        site, origin = headers.get("sec-fetch-site", ""), headers.get("origin")
        elsewhere = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        if path not in self._pages and (elsewhere or site in ("cross-site", "same-site")):
            return 403, "requests from other pages are refused"
        guarded = path.startswith(("/api/", "/docs", "/redoc", "/openapi")) and path not in _NO_TOKEN
        if self._token is not None and guarded and not self._knows(headers):
            return 401, "send the token of this service: Authorization: Bearer TOKEN"
        return None

    def _knows(self, headers: Headers) -> bool:
        assert self._token is not None
        kind, _, sent = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(sent.strip(), self._token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers.get("host", "")))
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self._cookie)


def _cookie_name(host: str) -> str:
    return f"{_COOKIE}-{urlsplit(f'//{host}').port or 'explore'}"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(_bytes(one), _bytes(other))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON can hold halves of characters


def host_of(host: str) -> str | None:
    """The name or address in a Host header, without the port; None if it has neither."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
        name = parts.hostname
    except ValueError:
        return None
    if not name or parts.username is not None or parts.path or parts.query:
        return None
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(send: Any, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
