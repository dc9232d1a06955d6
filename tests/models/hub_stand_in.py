"""What the Hugging Face hub answers over HTTP, for repositories of tiny files, on this machine alone."""

import base64
import hashlib
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
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
        private: nobody sees it without the token.
    """

    commits: dict[str, Path]
    refs: dict[str, str]
    licence: str | None = "apache-2.0"
    gated: bool = False
    cut: int | None = None
    harmed: bool = False
    private: bool = False


@dataclass
class StandIn:
    """The server.

    Attributes:
        repositories: what it has, by name.
        requests: method and path of every request so far.
        tokens: the headers of authorisation that it was given.
        status: the status of every answer, if it is out of order.
        storage: where what is uploaded lies.
        owners: whose repositories the token may write.
        content: the files of weights that were uploaded and are not yet in a commit, by their SHA-256.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    status: int | None = None
    storage: Path | None = None
    owners: tuple[str, ...] = ("jane",)
    content: dict[str, bytes] = field(default_factory=dict)

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
    return name.endswith((".safetensors", ".bin", ".onnx", ".npz"))


def sibling(folder: Path, name: str) -> dict[str, Any]:
    content = (folder / name).read_bytes()
    git = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    found: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git}
    if is_heavy(name):
        sha256 = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"size": len(content), "sha256": sha256, "pointerSize": 100}
    return found


Answer = tuple[int, dict[str, Any] | None]


@dataclass
class Uploads:
    """How repositories are made, and commits of files in them."""

    stand_in: StandIn

    def put(self, path: str, sent: bytes) -> Answer:
        oid = path.rpartition("/")[2]
        assert hashlib.sha256(sent).hexdigest() == oid
        self.stand_in.content[oid] = sent
        return 200, None

    def post(self, path: str, sent: bytes) -> Answer:
        if path == "/api/repos/create":
            return self._create(**json.loads(sent))
        if path == "/api/validate-yaml":
            return self._validate(json.loads(sent)["content"])
        if path.endswith(".git/info/lfs/objects/batch"):
            place = f"{self.stand_in.address}/lfs/"
            objects = json.loads(sent)["objects"]
            return 200, {
                "objects": [{**one, "actions": {"upload": {"href": place + one["oid"]}}} for one in objects]
            }
        name, action, branch = path.removeprefix("/api/models/").rsplit("/", 2)
        assert branch == "main"
        if action == "preupload":
            modes = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if is_heavy(one["path"]) else "regular",
                    "shouldIgnore": False,
                }
                for one in json.loads(sent)["files"]
            ]
            return 200, {"files": modes}
        assert action == "commit"
        return self._commit(name, [json.loads(line) for line in sent.splitlines()])

    def _create(self, name: str, organization: str, visibility: str, **_: Any) -> Answer:
        if organization not in self.stand_in.owners:
            return 403, {"error": "You don't have the rights to create a model under this namespace"}
        full = f"{organization}/{name}"
        if full in self.stand_in.repositories:
            return 409, {"error": "You already created this model repo"}
        empty = self._new_folder(full)
        (empty / ".gitattributes").write_text("*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
        self.stand_in.add(full, empty, private=visibility == "private", licence=None)
        return 200, {"url": f"{self.stand_in.address}/{full}"}

    def _validate(self, card: str) -> Answer:
        front = card.split("---\n")[1] if card.startswith("---\n") else ""
        if "license: " in front and "license: unheard-of" in front:
            return 400, {"errors": [{"message": '"license" must be one of them'}], "warnings": []}
        return 200, {"errors": [], "warnings": []}

    def _commit(self, name: str, lines: list[dict[str, Any]]) -> Answer:
        known = self.stand_in.repositories[name]
        folder = self._new_folder(name)
        shutil.copytree(known.commits[known.refs["main"]], folder, dirs_exist_ok=True)
        for line in lines:
            about = line["value"]
            path = folder / about.get("path", "")
            path.parent.mkdir(parents=True, exist_ok=True)
            if line["key"] == "file":
                path.write_bytes(base64.b64decode(about["content"]))
            elif line["key"] == "lfsFile":
                path.write_bytes(self.stand_in.content[about["oid"]])
            elif line["key"] == "deletedFile":
                path.unlink()
        commit = self.stand_in.add(name, folder)
        return 200, {"commitUrl": f"{self.stand_in.address}/{name}/commit/{commit}", "commitOid": commit}

    def _new_folder(self, name: str) -> Path:
        assert self.stand_in.storage is not None
        number = len(list(self.stand_in.storage.glob(f"{name.replace('/', '--')}-*")))
        folder = self.stand_in.storage / f"{name.replace('/', '--')}-{number}"
        folder.mkdir(parents=True)
        return folder


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_POST(self) -> None:
        self._take(Uploads(self.stand_in).post)

    def do_PUT(self) -> None:
        self._take(Uploads(self.stand_in).put)

    def _take(self, answer: Callable[[str, bytes], Answer]) -> None:
        path, sent = unquote(urlsplit(self.path).path), self._sent()
        self.stand_in.requests.append(f"{self.command} {path}")
        token, status, content = self.headers.get("Authorization"), self.stand_in.status, None
        if not path.startswith("/lfs/"):  # an address that is signed
            self.stand_in.tokens.append(token)
            status = 401 if status is None and token != f"Bearer {TOKEN}" else status
        if status is None:
            status, content = answer(path, sent)
        self._send(status, json.dumps(content or {}).encode(), True, {"Content-Type": "application/json"})

    def _sent(self) -> bytes:
        """The body of the request, whole or in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/api/agent-harnesses":
            self._send(404, b"", body)  # what huggingface_hub asks by itself, or not
            return
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
        if known is None or (known.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
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
            "private": known.private,
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
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # it has a server of its own
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
