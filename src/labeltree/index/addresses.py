"""Addresses of indexes on servers: what a URL names, and how it is shown without its password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from labeltree.errors import DataError
from labeltree.plugins import named_parts

__all__ = ["Address", "is_address", "shown_place"]

_SCHEMES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "qdrant+http": "qdrant",
    "qdrant+https": "qdrant",
    "qdrant": "qdrant",
}
_EXAMPLES = {
    "postgresql": "postgresql://user@host/database#birds",
    "qdrant": "qdrant+http://host:6333/birds, or qdrant:/path/of/a/folder#birds",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}")
_SECRET = re.compile(r"(?:ssl)?password|api[-_]?key|token", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """Where an index lies on a server.

    Attributes:
        kind: `postgresql` or `qdrant`.
        target: What the client connects to: the URL without the name of the index, or a folder.
        name: Of the index on that server: a schema of PostgreSQL, a collection of Qdrant.
        shown: The address for people, without passwords.
        api_key: Of Qdrant, from the place of the password; None if there is none.
        is_folder: Whether `target` is a folder, in which Qdrant's client works without a server.
    """

    kind: str
    target: str = field(repr=False)
    name: str
    shown: str
    api_key: str | None = field(default=None, repr=False)
    is_folder: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read an address.

        Raises:
            DataError: If it cannot be read. The message does not repeat the address: characters of a password
                that were not percent-encoded may stand anywhere in it.
        """
        scheme = url.partition(":")[0].lower()
        kind = _SCHEMES.get(scheme, scheme)
        try:
            parts = urlsplit(url)
            _ = parts.port
            queries = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            raise _malformed(kind) from None
        if kind not in _EXAMPLES:
            return cls._foreign(url, kind)
        if scheme == "qdrant":
            return cls._folder(parts.netloc, parts.path, parts.fragment)
        if "@" in parts.path or "@" in parts.fragment or "@" in parts.query:  # of a password, most likely
            raise _malformed(kind)
        path, name = parts.path, unquote(parts.fragment)
        if kind == "qdrant":
            if not parts.hostname or name:
                raise _malformed(kind)
            path, _, name = parts.path.rpartition("/")
        name = name or "labeltree"
        if not _NAME.fullmatch(name):
            raise DataError(
                f"the index of a {_kind_name(kind)} address needs a name of letters, digits, - and _ that "
                f"starts with a letter, at most 48 long; write it as in {_EXAMPLES[kind]}"
            )
        secrets = [value for key, value in queries if _SECRET.fullmatch(key)]
        if parts.password:
            secrets += [parts.password, unquote(parts.password)]
        netloc = parts.netloc.rpartition("@")[2]
        user = f"{parts.username}@" if parts.username else ""
        shown_query = "&".join(
            f"{key}=***" if _SECRET.fullmatch(key) else f"{key}={value}" for key, value in queries
        )
        if kind == "qdrant":
            target = f"{scheme.partition('+')[2]}://{netloc}{path}"
            shown = f"{scheme}://{netloc}{path}/{name}"
            api_key = unquote(parts.password) if parts.password else None
            return cls(kind, target, name, shown, api_key, secrets=tuple(secrets))
        target = f"postgresql://{parts.netloc}{path}" + (f"?{parts.query}" if parts.query else "")
        shown = f"postgresql://{user}{netloc}{path}" + (f"?{shown_query}" if shown_query else "") + f"#{name}"
        return cls(kind, target, name, shown, secrets=tuple(secrets))

    @classmethod
    def _foreign(cls, url: str, kind: str) -> Address:
        """The address of a store of another package, which reads all but the name of the index itself."""
        target, _, fragment = url.partition("#")
        parts = urlsplit(target)
        user, has_secret, _ = parts.netloc.rpartition("@")
        secrets = tuple(filter(None, (parts.password, unquote(parts.password or ""))))
        shown = target.replace(f"{user}@", f"{user.partition(':')[0]}@", 1) if has_secret else target
        name = unquote(fragment) or "labeltree"
        return cls(kind, target, name, f"{shown}#{name}", secrets=secrets)

    @classmethod
    def _folder(cls, netloc: str, path: str, fragment: str) -> Address:
        folder, name = unquote(netloc + path), unquote(fragment) or "labeltree"
        if not folder or not _NAME.fullmatch(name):
            raise _malformed("qdrant")
        return cls("qdrant", folder, name, f"qdrant:{folder}#{name}", is_folder=True)

    def without_secrets(self, text: object) -> str:
        """A message of a client on one line, with every password in it replaced by ***."""
        message = " ".join(str(text).split()) or type(text).__name__
        for secret in sorted(filter(None, self.secrets), key=len, reverse=True):
            message = message.replace(secret, "***")
        return message


def is_address(where: object) -> bool:
    """Whether an index is named by the URL of a server, not by a folder."""
    scheme, colon, _ = where.partition(":") if isinstance(where, str) else ("", "", "")
    if not colon or not scheme.isascii():
        return False
    return scheme.lower() in _SCHEMES or ("://" in str(where) and scheme.lower() in named_parts("stores"))


def shown_place(where: object) -> str:
    """A place for people: a folder as it is, a URL without its password."""
    text = str(where)
    if is_address(where):
        try:
            return Address.parse(text).shown
        except DataError:  # the password may stand anywhere in it
            return f"{text.partition(':')[0]}:..."
    scheme, is_url, _ = text.partition("://")
    return f"{scheme}://..." if is_url else text


def _kind_name(kind: str) -> str:
    return {"postgresql": "PostgreSQL", "qdrant": "Qdrant"}.get(kind, kind)


def _malformed(kind: str) -> DataError:
    return DataError(
        f"the address of the {_kind_name(kind)} index cannot be read; write "
        f"{_EXAMPLES.get(kind, f'{kind}://HOST/...#NAME')}, with the "
        "special characters of a password as %23 for #, %2F for /, %40 for @"
    )
