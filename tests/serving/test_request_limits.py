"""Limits of a service at the limit: what is just within is taken, what is just beyond is told."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("fastapi")
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from labeltree.decisions.drift import Drift
from labeltree.errors import DataError
from labeltree.options.answer_options import AnswerOptions
from labeltree.options.serving import ServeOptions
from labeltree.serving import ServiceSettings
from labeltree.serving import app as service_app
from labeltree.serving import engine as engine_module
from labeltree.serving.app import Service, _drift_reply, create_app
from labeltree.serving.bodies import Admission, problem_of, read_json, read_samples
from labeltree.serving.engine import TooLargeError, _check_pixels, _Compute, _inputs, _Sample
from labeltree.serving.guard import Guard
from labeltree.serving.server import bound, is_loopback, read_token
from labeltree.serving.service_replies import Texts
from labeltree.taxonomy import Taxonomy

JSON = "application/json"


def request_of(body: bytes, kind: str, *, parts: int = 1, **headers: str) -> Request:
    """A request whose body arrives in so many parts; its length is told only if it is among the headers."""
    size = max(1, -(-len(body) // parts))
    chunks = [body[start : start + size] for start in range(0, max(len(body), 1), size)]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    given = {"content-type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request({"type": "http", "headers": [(a.encode(), b.encode()) for a, b in given.items()]}, receive)


def samples_of(
    request: Request, reads: str, width: int = 0, **limits: int
) -> tuple[list[tuple[str, Any]], int, int]:
    """The samples, and what is held while they are."""
    admission = Admission(ServiceSettings(**limits))

    async def read() -> tuple[list[tuple[str, Any]], int, int]:
        with admission.lease() as lease:
            read = await read_samples(request, lease, admission.settings, reads, width)
            return read, admission.samples, admission.held

    try:
        return asyncio.run(read())
    finally:
        assert (admission.samples, admission.held) == (0, 0)


def refusal(*arguments: Any, **limits: int) -> tuple[int, str]:
    with pytest.raises(HTTPException) as told:
        samples_of(*arguments, **limits)
    return told.value.status_code, told.value.detail


def as_json(**content: Any) -> Request:
    return request_of(json.dumps(content).encode(), JSON)


def test_as_many_bytes_as_are_allowed_are_read() -> None:
    for headers in ({}, {"content_length": "1000"}):
        found = samples_of(request_of(bytes(1000), "image/png", parts=3, **headers), "image", max_upload=1000)
        assert found == ([("image", bytes(1000))], 1, 1000)
        status, said = refusal(
            request_of(bytes(1001), "image/png", parts=3, **headers), "image", max_upload=1000
        )
        assert (status, said) == (413, "the request has more than 1,000 bytes; send less at once")
    unread = request_of(b"x", "image/png", content_length="1001")
    assert refusal(unread, "image", max_upload=1000)[0] == 413, "before it is read"


def test_as_many_samples_and_characters_as_are_allowed_are_read() -> None:
    limits = {"max_samples": 3, "max_text": 5}
    found, taken, _ = samples_of(as_json(texts=["a", "bbbbb", "c"]), "text", **limits)
    assert (found, taken) == ([("text 0", "a"), ("text 1", "bbbbb"), ("text 2", "c")], 3)
    assert refusal(as_json(texts=["a"] * 4), "text", **limits) == (
        413, "the request has more than 3 samples; send them in several requests",
    )  # fmt: skip
    assert refusal(as_json(texts=["a", "bb", "cccccc"]), "text", **limits) == (
        413, "text 2 has 6 characters; at most 5 are read",
    )  # fmt: skip
    coded = [base64.b64encode(content).decode() for content in (b"one", b"two", b"three")]
    found, taken, _ = samples_of(as_json(images=coded), "image", **limits)
    assert (found, taken) == ([("image 0", b"one"), ("image 1", b"two"), ("image 2", b"three")], 3)
    assert refusal(as_json(images=[*coded, "AAAA"]), "image", **limits)[0] == 413
    broken = as_json(images=["A\nAA\nA"])
    assert samples_of(broken, "image")[0] == [("image 0", b"\0\0\0")], "line breaks are no error"


def test_vectors_are_read_as_numbers() -> None:
    rows = [[0.5, 1.0], [2.0, -3.0]]
    found, taken, _ = samples_of(as_json(vectors=rows), "vector", 2, max_samples=2)
    assert (found, taken) == ([("vector 0", rows[0]), ("vector 1", rows[1])], 2)
    assert refusal(as_json(vectors=[*rows, rows[0]]), "vector", 2, max_samples=2)[0] == 413
    assert refusal(as_json(vectors=[[0.0] * 50] * 2), "vector", 2, max_samples=2)[0] == 413, "unparsed"
    reads = 'this run reads vectors: send JSON such as {"vectors": [[0.1, 0.2]]}, as application/json'
    assert refusal(as_json(texts=["a"]), "vector", 2) == (422, reads)
    assert refusal(request_of(b"1,2", "text/csv"), "vector", 2) == (415, reads)
    status, said = refusal(request_of(b'{"vectors": [[1, "x"]]}', JSON), "vector", 2)
    assert (status, said.partition(":")[0]) == (422, "vectors.0.1")


def test_files_of_a_form_keep_their_names() -> None:
    def form(*names: str | None) -> Request:
        body = b""
        for place, name in enumerate(names):
            file = f'; filename="{name}"' if name is not None else '; filename=""'
            body += f'--x\r\nContent-Disposition: form-data; name="f"{file}\r\n\r\n{place}\r\n'.encode()
        return request_of(body + b"--x--\r\n", "multipart/form-data; boundary=x")

    found, taken, _ = samples_of(form("a.png", "b" * 300), "image", max_samples=2)
    assert (found, taken) == ([("a.png", b"0"), ("b" * 200, b"1")], 2)
    assert refusal(form("a", "b", "c"), "image", max_samples=2)[0] == 413
    assert refusal(form("a", "b", "c", "d"), "image", max_samples=2)[0] == 413


def test_small_bodies_have_a_limit_of_their_own() -> None:
    text = b'{"texts": ["a"]}'

    def read(most: int, kind: str = JSON) -> Any:
        return asyncio.run(read_json(request_of(text, kind, parts=4), Texts, most))

    assert read(len(text)).texts == ["a"]
    assert read(len(text), "Application/JSON; charset=utf-8").texts == ["a"]
    with pytest.raises(HTTPException) as told:
        read(len(text) - 1)
    assert (told.value.status_code, told.value.detail) == (413, "the request has more than 15 bytes")
    assert told.value.headers == {"Connection": "close"}
    with pytest.raises(HTTPException) as told:
        read(100, "text/plain")
    assert told.value.status_code == 415


def test_the_first_of_several_problems_is_told_and_the_others_are_counted() -> None:
    errors = [
        {"loc": ("body", "images", 3), "msg": "Field required\nmore"},
        {"loc": ("query", "top"), "msg": "Other"},
        {"loc": (), "msg": "Other"},
    ]
    assert problem_of(errors) == "images.3: field required, and 2 more"
    assert problem_of(errors[1:2]) == "top: other"
    assert problem_of(errors[2:]) == "the JSON: other"


def test_samples_wait_up_to_the_last_place() -> None:
    admission = Admission(ServiceSettings(max_waiting=5, max_samples=5))
    with admission.lease() as first, admission.lease() as second:
        first.take_samples(3)
        second.take_samples(2)
        assert admission.samples == 5
        with pytest.raises(HTTPException) as told:
            second.take_samples(3)
        assert (told.value.status_code, told.value.headers) == (503, {"Retry-After": "1"})
        assert told.value.detail == "3 of 5 places for waiting samples are taken; try again a little later"
        with pytest.raises(HTTPException, match="5 of 5 places"), admission.lease():
            pass
        assert admission.samples == 5
    assert admission.samples == 0


def test_as_many_pixels_as_are_allowed_are_decoded() -> None:
    _check_pixels(10, 20, 200)
    with pytest.raises(DataError, match="it has 3 x 67 pixels; 200 are the most that this service decodes"):
        _check_pixels(3, 67, 200)


# Answers


TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])


class FakeModel:
    """Its embedding of a number is the number; an answer says what it was asked."""

    taxonomy = TREE
    recipe = SimpleNamespace(curvature=-0.5, objective="ce", encoder="small")
    network = SimpleNamespace(
        objective=SimpleNamespace(geometry=SimpleNamespace(name="poincare")), device="cpu"
    )
    encoder = SimpleNamespace(modality="vector")

    def __init__(self) -> None:
        self.asked: list[tuple[AnswerOptions, list[float], str, float]] = []
        self.decider = SimpleNamespace(
            answer=self.answer,
            rule=SimpleNamespace(probabilities=lambda scores: -scores),
            scores=lambda table: table.embeddings,
        )

    def inputs(self, contents: list[float]) -> Any:
        return torch.tensor(contents)[:, None]

    def embed_inputs(self, inputs: Any) -> Any:
        return inputs + 100, inputs

    def answer(self, table: Any, asked: AnswerOptions) -> Any:
        self.asked.append((asked, table.embeddings[:, 0].tolist(), table.geometry, table.curvature))
        return asked, table


def test_a_batch_of_several_questions_gives_everyone_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeModel()
    watched: list[tuple[list[float], list[float]]] = []

    def add(table: Any, chances: Any) -> None:
        watched.append((table.features[:, 0].tolist(), chances[:, 0].tolist()))

    def rows(answers: Any, names: list[str], taxonomy: Any) -> list[dict[str, Any]]:
        asked, table = answers
        values = table.embeddings[:, 0].tolist()
        return [{"sample": name, "of": (asked.top, value)} for name, value in zip(names, values, strict=True)]

    monkeypatch.setattr(engine_module, "answer_rows", rows)
    one, two = AnswerOptions(top=1), AnswerOptions(top=2)
    samples = [
        _Sample("p", 1.0, one), _Sample("q", 2.0, None), _Sample("r", 3.0, two), _Sample("s", 4.0, one),
    ]  # fmt: skip
    drift: Any = SimpleNamespace(add=add)
    found = _Compute(model, drift)(samples)  # type: ignore[arg-type]
    assert found == [
        {"sample": "p", "of": (1, 1.0)},
        {"sample": "q", "embedding": [2.0], "features": [102.0]},
        {"sample": "r", "of": (2, 3.0)},
        {"sample": "s", "of": (1, 4.0)},
    ]
    assert model.asked == [(one, [1.0, 4.0], "poincare", -0.5), (two, [3.0], "poincare", -0.5)]
    assert watched == [([101.0, 104.0], [-1.0, -4.0]), ([103.0], [-3.0])], "embeddings alone are no answers"


def test_of_images_and_texts_each_sample_is_one() -> None:
    network = SimpleNamespace(image_shape=(1, 2, 2), tokens=lambda texts: texts)
    model: Any = SimpleNamespace(encoder=SimpleNamespace(modality="both"), network=network)
    pixels = np.full((1, 2, 2), 7, np.uint8)
    found: Any = _inputs(model, ["words", pixels])
    images, texts, present = vars(found).values() if hasattr(found, "__dict__") else found
    assert torch.as_tensor(images).sum((1, 2, 3)).tolist() == [0, 28]
    assert texts == ["words", ""]
    assert present.tolist() == [[False, True], [True, False]]


class FakeEngine:
    """Answers each vector with its first number, or raises what it holds."""

    modality, width, batches, ready = "vector", 2, 17, True

    def __init__(self, **limits: Any) -> None:
        self.settings = ServiceSettings(**limits)
        self.model = FakeModel()
        self.models = [self.model, self.model]
        self.decider: Any = SimpleNamespace(
            digest="d1g", rule=SimpleNamespace(classes=SimpleNamespace(nodes=TREE.leaves))
        )
        self.drift: Any = None
        self.outcomes: dict[str, Exception] = {}
        self.held = 0

    def check(self, asked: Any) -> None:
        """Every question can be answered."""

    def about(self, asked: str) -> dict[str, str]:
        return {"model": "d1g", "labeltree": "1", "date": "now", "asked": asked, "taxonomy": TREE.digest}

    def ask(self, name: str, content: Any, asked: Any, on_end: Any) -> Future[dict[str, Any]]:
        self.held += 1
        given: Future[dict[str, Any]] = Future()
        on_end()
        if name in self.outcomes:
            given.set_exception(self.outcomes[name])
        else:
            given.set_result({"sample": name, "embedding": content, "features": content})
        return given

    def close(self, timeout: float | None = None) -> None:
        """Nothing runs."""


def test_each_sample_has_its_row_and_its_problem() -> None:
    engine: Any = FakeEngine(max_samples=5)
    engine.outcomes = {"vector 1": DataError("it is odd"), "vector 4": TooLargeError("it is huge")}
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        rows = [[1, 2], [3, 4], [5], [7, 8], [9, 10]]
        reply = client.post("/embed", json={"vectors": rows}).json()
        assert reply["geometry"] == "poincare"
        assert reply["curvature"] == -0.5
        assert [(row["sample"], row["embedding"], row["problem"]) for row in reply["embeddings"]] == [
            ("vector 0", [1, 2], None),
            ("vector 1", None, "it is odd"),
            ("vector 2", None, "it has 1 number; the run reads 2"),
            ("vector 3", [7, 8], None),
            ("vector 4", None, "it is huge"),
        ]
        assert engine.held == 4
        health = client.get("/health").json()
        assert (health["answered"], health["waiting"], health["batches"]) == (2, 0, 17)
        assert (health["devices"], health["reads"], health["drift"]) == (["cpu", "cpu"], "vector", None)
        engine.outcomes |= {"vector 0": TooLargeError("it is larger"), "vector 2": TooLargeError("too large")}
        refused = client.post("/embed", json={"vectors": [[1, 2]]})
        assert (refused.status_code, refused.json()["detail"]) == (
            413,
            "cannot read 'vector 0': it is larger",
        )
        mixed = client.post("/embed", json={"vectors": [[1, 2], [3, 4]]})
        assert (mixed.status_code, mixed.json()["detail"]) == (
            400, "cannot read none of the samples; 'vector 0': it is larger",
        )  # fmt: skip
        engine.ready = False
        assert client.get("/health").status_code == 503
        tree = client.get("/taxonomy").json()
        assert (tree["digest"], tree["classes"]) == (TREE.digest, ["a/x", "a/y", "b/z"])


def test_what_is_asked_reaches_the_answers_and_what_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = FakeEngine()
    checked, told = list[AnswerOptions](), list[tuple[Any, ...]]()
    monkeypatch.setattr(engine, "check", checked.append)
    monkeypatch.setattr(service_app, "promise_text", lambda promise: promise)
    monkeypatch.setattr(service_app, "asked_text", lambda *given: told.append(given) or "that")
    body = {"vectors": [[1, 2]]}
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        reply = client.post("/predict", params={"coverage": 0.8, "top": 7, "unknown": 0.125}, json=body)
        assert reply.json()["about"]["asked"] == "that"
        assert client.post("/predict", json=body).status_code == 200
        asked = [AnswerOptions(coverage=0.8, top=7, unknown=0.125), AnswerOptions()]
        assert checked == asked
        assert told == [(engine.decider, each.promise, each.unknown) for each in asked]
        refused = client.post("/predict", params={"cover": 0.8}, json=body)
        assert (refused.status_code, refused.json()["detail"]) == (
            422,
            "there is no option 'cover'; did you mean 'coverage'? there are coverage, top, unknown",
        )
        refused = client.get("/health", params={"verbose": 1})
        assert refused.json()["detail"] == "there is no option 'verbose'; /health has none"
        admission = client.app.state.service.admission  # type: ignore[attr-defined]
        admission.samples, admission.held = 5, 900
        assert client.get("/health").json()["waiting"] == 5


def test_an_answer_waits_as_long_as_is_left_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, taken = list[float](), list[int]()

    async def finish(request: Any, futures: Any, left: float) -> list[Any]:
        seconds.append(left)
        taken.append(service.admission.samples)
        return [future.result() for future in futures]

    monkeypatch.setattr(service_app, "_finish", finish)
    engine: Any = FakeEngine(timeout=50)
    service = Service(engine)

    async def answer() -> Any:
        return await service.answer(as_json(vectors=[[1, 2], [3, 4]]), None)

    assert [row["sample"] for row in asyncio.run(answer())] == ["vector 0", "vector 1"]
    assert 49 < seconds[0] <= 50
    assert taken == [2], "the request still holds its places, although its samples are let go"
    assert service.answered == 2
    assert (service.admission.samples, service.admission.held) == (0, 0)


def test_health_says_how_the_last_window_came_out() -> None:
    def reply(last: Any) -> Any:
        drift = SimpleNamespace(last=last, evidence=SimpleNamespace(value=3.5))
        return _drift_reply(SimpleNamespace(drift=drift))  # type: ignore[arg-type]

    assert _drift_reply(SimpleNamespace(drift=None)) is None  # type: ignore[arg-type]
    assert reply(None) is None
    told = reply("no groups")
    assert (told.p_value, told.alarm, told.samples, told.says, told.evidence) == (
        None, False, 200, "not tested: no groups", None,
    )  # fmt: skip
    calm = reply(Drift({"distance": 0.2, "certainty": 0.5}, {}, 203, "samples", 60))
    assert (calm.p_value, calm.alarm, calm.samples, calm.says, calm.evidence) == (0.4, False, 203, None, 3.5)
    alarmed = reply(Drift({"distance": 0.001}, {"distance": "farther"}, 203, "samples", 60))
    assert alarmed.alarm
    assert alarmed.says.startswith("these 203 samples are not like")


# Who may ask


def test_replies_and_refusals_have_their_headers() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"own", b"kept")]})
        await send({"type": "http.response.body", "body": b"yes"})

    def ask(path: str, host: str) -> tuple[int, dict[bytes, bytes], bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": path, "method": "GET", "headers": [(b"host", host.encode())]}
        asyncio.run(Guard(inner, "0123456789abcdef")(scope, None, send))
        return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]

    status, headers, body = ask("/", "localhost")
    assert (status, body) == (200, b"yes")
    assert headers == {
        b"own": b"kept",
        b"x-content-type-options": b"nosniff",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-resource-policy": b"same-origin",
        b"x-frame-options": b"DENY",
    }
    status, headers, body = ask("/api/info", "localhost")
    assert (status, headers[b"www-authenticate"], headers[b"connection"]) == (401, b"Bearer", b"close")
    assert int(headers[b"content-length"]) == len(body)
    assert json.loads(body)["detail"].startswith("send the token of this service")
    status, headers, _ = ask("/", "strange.test")
    assert status == 421
    assert b"www-authenticate" not in headers


def test_the_token_comes_from_where_it_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("  of-the-file-0123456 \n")
    monkeypatch.setenv("MINE", "of-the-variable-0123")
    file, variable = {"token_file": tmp_path / "token"}, {"token_env": "MINE"}

    def token(**given: Any) -> str | None:
        return read_token(ServeOptions("run", **given))

    assert token() is None
    assert token(**file) == "of-the-file-0123456"
    assert token(**variable) == "of-the-variable-0123"
    with pytest.raises(ValueError, match="the environment variable NONE holds no token"):
        token(token_env="NONE")
    (tmp_path / "token").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match=r"the file '.*token' holds no token: at least 16"):
        token(**file)


def test_addresses_of_this_machine_and_ports_are_known() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.test", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    for port in (-1, 65_536):
        with pytest.raises(ValueError, match=f"port is {port}; expected 0"), bound("127.0.0.1", port):
            pass
    with bound("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR), "else a restart waits for minutes"
    assert listener.fileno() == -1, "it is closed"
