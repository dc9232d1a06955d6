"""`labeltree serve` as a process: it says where it answers, survives its clients, and ends when told to."""

import contextlib
import http.client
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from PIL import Image

import labeltree as lt
from forked import end_forked, start_forked
from labeltree.cli.main import main
from labeltree.options.serving import ServeOptions, ServiceOptions
from labeltree.serving.guard import Guard
from labeltree.serving.server import read_token, serve

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _usual_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its own way with memory."""
    monkeypatch.setattr("labeltree.serving.server.keep_freed_memory", lambda: True)


PATIENCE = 120  # seconds until a test gives up; nothing depends on how long it takes
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
from labeltree.__main__ import main
sys.exit(main())
"""
Address = tuple[str, int]


class Service:
    """A service in a process that is forked, with what it says in files."""

    def __init__(self, run: Path, folder: Path, *words: str, **environment: str) -> None:
        self.said, self.errors = folder / "said", folder / "errors"
        command = ["serve", str(run), "--port", "0", "--device", "cpu", *words]
        self.process = start_forked(PROGRAM, command, self.errors, environment, self.said)
        until = time.monotonic() + PATIENCE
        while not (self.said.exists() and self.said.read_text().endswith("\n")):
            ended = self.process.exitcode is not None or time.monotonic() > until
            assert not ended, self.errors.exists() and self.errors.read_text()
            time.sleep(0.02)
        self.address = address_in(self.said.read_text())

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> tuple[int, str]:
        """Wait until it ends; its exit code, and what it has said of errors."""
        return end_forked(self.process, PATIENCE), self.errors.read_text()


def address_in(said: str) -> Address:
    host, _, port = said.partition("http://")[2].split(" ")[0].rpartition(":")
    assert port.isdecimal(), said
    return host, int(port)


@contextlib.contextmanager
def serving(run: Path, folder: Path, *words: str, **environment: str) -> Iterator[Service]:
    folder.mkdir(exist_ok=True)
    service = Service(run, folder, *words, **environment)
    try:
        yield service
    finally:
        service.process.kill()


def ask(address: Address, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request(
            "POST" if body else "GET", path, body or None, {"Content-Type": "image/png", **headers}
        )
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def wait_until_deaf(address: Address) -> None:
    """Wait until nobody listens at the address."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            socket.create_connection(address, PATIENCE).close()
        except ConnectionRefusedError:
            return
        except OSError:
            continue
    raise AssertionError("it still listens")


def head(length: int) -> bytes:
    return (
        "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def test_the_same_answers_and_an_end_by_ctrl_c(image_run: Path, photos: Path) -> None:
    """Of the program itself, started as people start it; the other services of this file are forked."""
    files = sorted(photos.rglob("*.png"))[::5]
    model = lt.load(image_run)
    nodes = model.answer_batch([Image.open(file) for file in files], coverage=0.8).nodes.tolist()
    command = [sys.executable, "-c", PROGRAM, "serve", str(image_run), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--max-batch", "4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = address_in(process.stdout.readline())
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda f: ask(address, "/predict?coverage=0.8", f.read_bytes()), files))
        assert [status for status, _ in found] == [200] * len(files)
        answers = [reply["answers"][0]["answer"] for _, reply in found]
        assert answers == [model.taxonomy.path_name(node) for node in nodes]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


def test_clients_that_die_or_dawdle_do_no_harm(image_run: Path, photos: Path, tmp_path: Path) -> None:
    image = min(photos.rglob("*.png")).read_bytes()
    with serving(image_run, tmp_path, "--timeout", "3") as service:
        address = service.address
        slow = [socket.create_connection(address, PATIENCE) for _ in range(3)]
        for client in slow:
            client.sendall(head(len(image)) + image[:10])
        slow += [socket.create_connection(address, PATIENCE) for _ in range(2)]
        slow[-1].sendall(b"GET / HTTP/1.1\r\n")  # no whole head, and nothing at all from the one before
        for number in range(60):
            client = socket.create_connection(address, PATIENCE)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            client.sendall((head(len(image)) + image)[: None if number % 3 else 200 + number])
            client.close()
        for garbage in (
            b"\x16\x03\x01\x02\x00",
            b"GET\r\n\r\n",
            b"POST /predict HTTP/9.9\r\n\r\n",
            os.urandom(200),
        ):
            with socket.create_connection(address, PATIENCE) as client:
                client.sendall(garbage + b"\r\n\r\n")
        assert ask(address, "/predict", image)[0] == 200
        for client in slow:  # told, and closed, when their time is up
            reply = b""
            while chunk := client.recv(4096):
                reply += chunk
            assert reply.startswith(b"HTTP/1.1 408")
            client.close()
        until = time.monotonic() + PATIENCE
        while (health := ask(address, "/health")[1])["waiting"] and time.monotonic() < until:
            time.sleep(0.05)
        assert health["waiting"] == 0
        assert health["status"] == "ready"
        service.signal(signal.SIGTERM)
        code, errors = service.end()
        assert code == 0
        assert "Traceback" not in errors


def test_requests_in_progress_are_answered_before_the_end(
    image_run: Path, photos: Path, tmp_path: Path
) -> None:
    image = min(photos.rglob("*.png")).read_bytes()
    with (
        serving(image_run, tmp_path) as service,
        socket.create_connection(service.address, PATIENCE) as client,
    ):
        address = service.address
        client.sendall(head(len(image)) + image[:50])
        assert ask(address, "/health")[0] == 200  # by now, the first request has been taken
        service.signal(signal.SIGTERM)
        wait_until_deaf(address)
        client.sendall(image[50:])
        reply = client.recv(4096)
        assert reply.startswith(b"HTTP/1.1 200")
        assert service.end()[0] == 0


def test_other_names_and_other_pages(image_run: Path, photos: Path, tmp_path: Path) -> None:
    """A page of a stranger reaches it neither by a name that leads here, nor by a form."""
    image = min(photos.rglob("*.png")).read_bytes()
    with serving(image_run, tmp_path / "here", "--name", "Mine.test") as service:
        at = service.address
        here = f"{at[0]}:{at[1]}"
        assert ask(at, "/predict", image, Host="strange.test")[0] == 421
        assert ask(at, "/taxonomy", Host="strange.test")[0] == 421
        assert ask(at, "/predict", image, Host="mine.test")[0] == 200
        for headers in ({"Origin": "http://strange.test"}, {"Sec-Fetch-Site": "cross-site"}):
            assert ask(at, "/predict", image, **headers)[0] == 403
            assert ask(at, "/health", **headers)[0] == 200
        assert ask(at, "/predict", image, Origin=f"http://{here}")[0] == 200
        service.signal(signal.SIGINT)
        assert service.end()[0] == 0
    with serving(image_run, tmp_path / "everywhere", "--host", "0.0.0.0") as service:
        at = ("127.0.0.1", service.address[1])
        assert ask(at, "/predict", image, Host="any.test")[0] == 200
        assert ask(at, "/predict", image, Host="any.test", Origin="http://strange.test")[0] == 403
        service.signal(signal.SIGINT)
        assert service.end()[0] == 0


@pytest.mark.parametrize(
    ("host", "names", "strange"),
    [
        ("localhost", (), False),
        ("127.0.0.1", (), False),
        ("127.0.0.1", ("mine.test",), False),
        ("0.0.0.0", (), True),
        ("0.0.0.0", ("mine.test",), False),
    ],
)
def test_a_strange_name_reaches_only_what_others_reach(
    host: str, names: tuple[str, ...], strange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a stranger whose name leads here learns nothing of a service on this machine alone."""
    apps: list[Guard] = []
    monkeypatch.setattr("labeltree.serving.engine.Engine", MagicMock())
    monkeypatch.setattr("labeltree.serving.app.create_app", MagicMock())
    monkeypatch.setattr("labeltree.serving.server.run_app", lambda app, *_, **more: apps.append(app))
    serve(ServeOptions(run="somewhere", host=host, port=0, names=names))
    assert (apps[0].refusal("/predict", "POST", {"host": "strange.test"}) is None) == strange
    for known in ("localhost:8000", "127.0.0.1", *names):
        assert apps[0].refusal("/predict", "POST", {"host": known}) is None


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs files for descriptors")
@pytest.mark.parametrize("command", ["serve", "explore"])
def test_a_token_in_a_pipe_is_read_once(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``--token-file <(openssl rand -hex 32)``."""
    token, given = "a-token-of-enough-letters", list[ServiceOptions]()
    source, sink = os.pipe()
    os.write(sink, token.encode())
    os.close(sink)
    monkeypatch.setattr(f"labeltree.api.{command}", given.append)
    try:
        assert main([command, "somewhere", "--token-file", f"/dev/fd/{source}"]) == 0
    finally:
        os.close(source)
    assert read_token(given[0]) == token


@pytest.mark.parametrize(
    ("token", "good"),
    [
        ("0123456789abcdef", True),
        (" 0123456789abcdef\n", True),
        ("0123456789abcde", False),
        ("0123456789 abcdef", False),
        ("0123456789abcdé0", False),
        ("0123456789abcd\x07ef", False),
    ],
)
def test_tokens_have_at_least_16_characters_that_a_header_takes(token: str, good: bool) -> None:
    if good:
        assert read_token(ServiceOptions(token=token)) == token.strip()
    else:
        with pytest.raises(ValueError, match="at least 16 printable ASCII characters"):
            read_token(ServiceOptions(token=token))


def test_token_and_address(image_run: Path, photos: Path, tmp_path: Path) -> None:
    image = min(photos.rglob("*.png")).read_bytes()
    token = "a-token-of-enough-letters"
    words = ["--host", "0.0.0.0", "--token-env", "OWN_TOKEN"]
    with serving(image_run, tmp_path / "with", *words, OWN_TOKEN=token) as service:
        address = ("127.0.0.1", service.address[1])
        assert ask(address, "/predict", image)[0] == 401
        assert ask(address, "/predict", image, Authorization=f"Bearer {token}")[0] == 200
        service.signal(signal.SIGINT)
        assert "unencrypted" in service.end()[1]
    with serving(image_run, tmp_path / "without", "--host", "0.0.0.0") as service:
        service.signal(signal.SIGINT)
        assert "there is no authentication" in service.end()[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "99999"], "port is 99999; expected 0"),
        (["--host", "no.such.host.invalid"], "name another --host"),
        (["--device", "cuda:77"], "there is no device 'cuda:77'"),
        (["--device", "banana"], "there is no device 'banana'"),
        (["--threads", "0"], "threads is 0"),
        (["--max-batch", "0"], "max_batch is 0; expected at least 1"),
        (["--token-env", "NO_SUCH_VARIABLE"], "variable NO_SUCH_VARIABLE holds no token"),
        (["--token-file", "no-such-file"], "'no-such-file': no such file"),
    ],
)
def test_bad_options_are_told(
    image_run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(image_run), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_port_in_use_is_told(image_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(image_run), "--port", str(port)]) == 2
    assert f"port {port}: address already in use; name another --port" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    weak = tmp_path / "token"
    weak.write_text("secret\n")
    assert main(["serve", str(image_run), "--token-file", str(weak)]) == 2
    assert "holds no token: at least 16" in capsys.readouterr().err


def test_freed_memory_is_kept_by_glibc_alone() -> None:
    code = "from labeltree.processes import keep_freed_memory as keep; print(keep(), keep())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(platform.libc_ver()[0] == "glibc")] * 2


def test_missing_libraries_are_named(
    image_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(image_run)]) == 2
    assert "pip install 'labeltree[serve]'" in capsys.readouterr().err
