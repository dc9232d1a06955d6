"""What the Hugging Face hub answers over HTTP, for repositories of tiny files, on this machine alone."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_aTokenThatNobodyMayRead"


@dataclass
class Repository:
    """Commits, each with a folder of files; branches and tags by name.

    Attributes:
        commits: the folder of each.
        refs: the commit of each branch and tag.
        licence: as the card has it.
        gated: the hub describes it to everybody, but gives no file.
        cut: only so many bytes of every file of weights are sent.
        harmed: every file of weights has another last byte.
    """

    commits: dict[str, Path]
    refs: dict[str, str]
    licence: str | None = "apache-2.0"
    gated: bool = False
    cut: int | None = None
    harmed: bool = False


@dataclass
class StandIn:
    """The server.

    Attributes:
        repositories: what it has, by name.
        requests: method and path of every request so far.
        tokens: the headers of authorisation that it was given.
        status: the status of every answer, if it is out of order.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    status: int | None = None

    def add(self, name: str, folder: Path, **how: Any) -> str:
        """Add a commit of a repository, to which its main branch then points; returns the commit."""
        digest = hashlib.sha1(str(folder).encode())
        for file in files_of(folder):
            digest.update((folder / file).read_bytes())
        commit = digest.hexdigest()
        known = self.repositories.setdefault(name, Repository({}, {}, **how))
        known.commits[commit] = folder
        known.refs["main"] = commit
        return commit

    def downloaded(self) -> set[str]:
        """The files that were sent."""
        return {path.partition("/resolve/")[2].partition("/")[2] for path in self._paths("GET", "/resolve/")}

    def _paths(self, method: str, within: str) -> list[str]:
        return [r.split()[1] for r in self.requests if r.startswith(method) and within in r]


def files_of(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def is_heavy(name: str) -> bool:
    """Whether the hub keeps a file apart from git, and knows it by its SHA-256."""
    return name.endswith((".safetensors", ".bin"))


def sibling(folder: Path, name: str) -> dict[str, Any]:
    content = (folder / name).read_bytes()
    git = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    found: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git}
    if is_heavy(name):
        sha256 = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"size": len(content), "sha256": sha256, "pointerSize": 100}
    return found


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.stand_in.requests.append(f"{self.command} {path}")
        self.stand_in.tokens.append(self.headers.get("Authorization"))
        if self.stand_in.status is not None:
            self._send(self.stand_in.status, b"", body)
        elif path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            self._describe(name, revision or "main", body)
        elif "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            revision, _, file = rest.partition("/")
            self._file(name, revision, file, body=body)
        else:
            self._send(404, b"", body)

    def _commit(self, name: str, revision: str, body: bool) -> tuple[Repository, str] | None:
        known = self.stand_in.repositories.get(name)
        if known is None:
            self._send(401, b"", body, {"X-Error-Code": "RepoNotFound"})
            return None
        commit = known.refs.get(revision, revision)
        if commit not in known.commits:
            self._send(404, b"", body, {"X-Error-Code": "RevisionNotFound"})
            return None
        return known, commit

    def _describe(self, name: str, revision: str, body: bool) -> None:
        if (found := self._commit(name, revision, body)) is None:
            return
        known, commit = found
        folder = known.commits[commit]
        answer = {
            "id": name,
            "sha": commit,
            "gated": "manual" if known.gated else False,
            "tags": ["timm"],
            "cardData": {"license": known.licence} if known.licence else None,
            "siblings": [sibling(folder, file) for file in files_of(folder)],
        }
        self._send(200, json.dumps(answer).encode(), body, {"Content-Type": "application/json"})

    def _file(self, name: str, revision: str, file: str, *, body: bool) -> None:
        if (found := self._commit(name, revision, body)) is None:
            return
        known, commit = found
        if known.gated:
            self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
            return
        about = sibling(known.commits[commit], file)
        content = (known.commits[commit] / file).read_bytes()
        etag = about["lfs"]["sha256"] if "lfs" in about else about["blobId"]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"'}
        if "lfs" in about:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
            if known.harmed:
                content = content[:-1] + bytes([content[-1] ^ 1])
            if known.cut is not None and body:
                content = content[: known.cut]
        self._send(200, content, body, headers)

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@contextmanager
def serving() -> Iterator[StandIn]:
    """Start the server."""
    stand_in = StandIn()
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        stand_in.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield stand_in
        finally:
            server.shutdown()
            thread.join()


def use(patch: pytest.MonkeyPatch, stand_in: StandIn, cache: Path) -> None:
    """Make huggingface_hub and labeltree ask the stand-in, with an empty cache; other hosts fail the test."""
    from huggingface_hub import constants

    from labeltree.models import hub

    for name in ("LABELTREE_OFFLINE", "HF_HUB_OFFLINE"):
        patch.delenv(name, raising=False)
    patch.setenv("HF_TOKEN", TOKEN)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "ENDPOINT", stand_in.address)
    template = stand_in.address + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    hub._listing.cache_clear()
    stand_in.requests.clear()
    stand_in.tokens.clear()
    look_up = socket.getaddrinfo

    def only_here(host: Any, *rest: Any, **more: Any) -> Any:
        assert host in ("127.0.0.1", b"127.0.0.1"), f"a request to {host!r}"
        return look_up(host, *rest, **more)

    patch.setattr(socket, "getaddrinfo", only_here)
