"""What a service answers: what the model does, to everyone their own; a sentence to what it cannot read."""

import asyncio
import base64
import io
import json
import random
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

import labeltree as lt
from labeltree.data.images.decode import FORMATS
from labeltree.inference.answers.format_answers import answer_rows
from labeltree.serving import ServiceSettings, app
from labeltree.serving.app import create_app
from labeltree.serving.engine import Engine, measure_upload, read_upload

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef-token"


@contextmanager
def service(run: Path, token: str | None = None, **settings: Any) -> Iterator[TestClient]:
    engine = Engine(run, ServiceSettings(**settings), devices=["cpu"])
    with TestClient(create_app(engine, token=token), raise_server_exceptions=False) as client:
        yield client
    assert not engine.ready, "the threads have ended"


@pytest.fixture(scope="module")
def client(image_run: Path) -> Iterator[TestClient]:
    with service(image_run, max_samples=8, max_upload=300_000, max_pixels=100_000, max_batch=5) as client:
        yield client


@pytest.fixture(scope="module")
def texts(text_run: Path) -> Iterator[TestClient]:
    with service(text_run, max_text=100) as client:
        yield client


@pytest.fixture(scope="module")
def files(photos: Path) -> list[Path]:
    return sorted(photos.rglob("*.png"))


def expected(run: Path, files: list[Path], **options: Any) -> list[dict[str, Any]]:
    model = lt.load(run)
    answers = model.answer_batch([Image.open(file) for file in files], **options)
    return answer_rows(answers, [file.name for file in files], model.taxonomy)


def assert_alike(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """The same answers; probabilities may differ by rounding, since batches differ."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one["answer"] == other["answer"]
        assert one["cut"] == other["cut"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-4)
        assert [guess["class"] for guess in one["guesses"]] == [guess["class"] for guess in other["guesses"]]


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def detail(reply: Any, status: int) -> str:
    assert reply.status_code == status, reply.text
    assert list(reply.json()) == ["detail"]
    sentence: str = reply.json()["detail"]
    assert "\n" not in sentence
    assert len(sentence) < 500
    return sentence


def test_a_form_does_not_pass_through_the_temporary_folder(
    image_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files of a megabyte and more did, and a full one was a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (700, 700, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    assert len(file.getvalue()) > 1024 * 1024
    with service(image_run) as client:
        reply = client.post("/predict", files=[("files", ("large.png", file.getvalue()))])
    assert reply.status_code == 200, reply.text


def test_all_ways_of_sending_get_the_models_answers(
    client: TestClient, image_run: Path, files: list[Path]
) -> None:
    chosen = files[::9]
    wanted = expected(image_run, chosen, coverage=0.8, top=2)
    options = {"coverage": 0.8, "top": 2}
    form = client.post(
        "/predict", params=options, files=[("files", (f.name, f.read_bytes())) for f in chosen]
    )
    assert form.status_code == 200
    assert [row["sample"] for row in form.json()["answers"]] == [file.name for file in chosen]
    assert_alike(form.json()["answers"], wanted)
    coded = [base64.b64encode(file.read_bytes()).decode() for file in chosen]
    assert_alike(client.post("/predict", params=options, json={"images": coded}).json()["answers"], wanted)
    for file, row in zip(chosen, wanted, strict=True):
        reply = client.post(
            "/predict", params=options, content=file.read_bytes(), headers={"Content-Type": "image/png"}
        )
        assert_alike(reply.json()["answers"], [row])
    about = form.json()["about"]
    model = lt.load(image_run)
    asked = "coverage 0.8, conformal; unknown 0.05 (cannot be told)"  # of fourteen held-out samples
    assert about | {"date": ""} == model.decider.about(asked) | {"date": ""}


def test_embeddings_are_the_models(client: TestClient, image_run: Path, files: list[Path]) -> None:
    chosen = files[:6]
    reply = client.post("/embed", files=[("x", (f.name, f.read_bytes())) for f in chosen]).json()
    features, embeddings = lt.load(image_run).embed_batch([Image.open(file) for file in chosen])
    np.testing.assert_allclose([row["embedding"] for row in reply["embeddings"]], embeddings, atol=1e-5)
    np.testing.assert_allclose([row["features"] for row in reply["embeddings"]], features, atol=1e-4)
    assert reply["geometry"] == "sphere"
    assert reply["about"]["asked"] == "embeddings"


def test_everyone_gets_their_own_answer(client: TestClient, image_run: Path, files: list[Path]) -> None:
    """Many clients at once, in any order, with other options each."""
    wanted = {
        (coverage, top): expected(image_run, files, coverage=coverage, top=top)
        for coverage in (0.5, 0.9)
        for top in (0, 3)
    }
    asked = [(place, *options) for place in range(len(files)) for options in wanted]
    random.Random(0).shuffle(asked)
    before = client.get("/health").json()

    def ask(one: tuple[int, float, int]) -> dict[str, Any]:
        place, coverage, top = one
        content = files[place].read_bytes()
        reply = client.post(
            "/predict",
            params={"coverage": coverage, "top": top},
            content=content,
            headers={"Content-Type": "image/png"},
        )
        assert reply.status_code == 200, reply.text
        row: dict[str, Any] = reply.json()["answers"][0]
        return row

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(ask, asked))
    assert_alike(found, [wanted[coverage, top][place] for place, coverage, top in asked])
    after = client.get("/health").json()
    assert after["answered"] - before["answered"] == len(asked)
    assert after["batches"] - before["batches"] < len(asked), "requests were computed together"
    assert after["waiting"] == 0


def test_two_devices_answer_alike(image_run: Path, files: list[Path]) -> None:
    engine = Engine(image_run, ServiceSettings(max_batch=3), devices=["cpu", "cpu"])
    with TestClient(create_app(engine)) as client:
        found = client.post("/predict", files=[("x", (f.name, f.read_bytes())) for f in files[:40]])
        assert client.get("/health").json()["devices"] == ["cpu", "cpu"]
    assert_alike(found.json()["answers"], expected(image_run, files[:40]))


def test_texts(texts: TestClient, text_run: Path) -> None:
    words = ["barks bone", "acorn leaf", "ß 𝄞 \u200b purrs"]
    found = texts.post("/predict", json={"texts": words})
    model = lt.load(text_run)
    assert_alike(found.json()["answers"], answer_rows(model.answer_batch(words), words, model.taxonomy))
    mixed = texts.post("/embed", json={"texts": ["barks", "  "]}).json()["embeddings"]
    assert mixed[1] == {
        "sample": "text 1",
        "embedding": None,
        "features": None,
        "problem": "the text is empty",
    }
    assert len(mixed[0]["embedding"]) == model.network.objective.dim
    assert "empty" in detail(texts.post("/predict", json={"texts": [" "]}), 400)
    assert "text 1 has 101 characters; at most 100" in detail(
        texts.post("/predict", json={"texts": ["a", "b" * 101]}), 413
    )
    assert "reads texts" in detail(texts.post("/predict", files=[("x", b"abc")]), 415)
    assert "this run reads texts" in detail(texts.post("/predict", json={"images": ["abcd"]}), 422)
    surrogate = {"content": b'{"texts": ["\\ud800"]}', "headers": {"Content-Type": "application/json"}}
    assert texts.post("/predict", **surrogate).status_code in (200, 422)


def test_one_broken_image_of_several_has_a_problem(client: TestClient, files: list[Path]) -> None:
    good = files[0].read_bytes()
    parts = [
        ("x", ("good.png", good)),
        ("x", ("cut.png", good[:200])),
        ("y", ("empty.png", b"")),
        ("x", good),
    ]
    answered = client.get("/health").json()["answered"]
    for path, key in (("/predict", "answers"), ("/embed", "embeddings")):
        reply = client.post(path, files=parts)
        assert reply.status_code == 200
        rows = reply.json()[key]
        assert [row["problem"] is None for row in rows] == [True, False, False, True]
        assert rows[2]["problem"] == "it is empty"
        assert rows[1]["sample"] == "cut.png"
        before, answered = answered, client.get("/health").json()["answered"]
        assert answered - before == 2, "those with a problem have no answer"
    assert "none of the samples; 'cut.png'" in detail(client.post("/predict", files=parts[1:3]), 400)


def test_options_are_checked(client: TestClient, files: list[Path]) -> None:
    content = {"content": files[0].read_bytes(), "headers": {"Content-Type": "image/png"}}
    for query, word in (
        ("coverage=2", "less than 1"),
        ("coverage=NaN", "coverage"),
        ("coverage=x", "coverage"),
        ("top=-1", "top"),
        ("top=1e9", "top"),
        ("coverage=0.999", "at least 999 calibration samples"),
        ("coverge=0.8", "no option 'coverge'; did you mean 'coverage'? there are coverage, top, unknown"),
        ("top=2&k=3", "no option 'k'; there are coverage"),
    ):
        assert word in detail(client.post(f"/predict?{query}", **content), 422)
    assert "no option 'top'; /embed has none" in detail(client.post("/embed?top=3", **content), 422)
    for unknown in (0, 0.1):
        about = client.post(f"/predict?unknown={unknown}", **content).json()["about"]
        assert about["asked"] == f"coverage 0.9, conformal; unknown {unknown}"


def bomb(width: int, height: int) -> bytes:
    """A PNG of few bytes that claims many pixels."""
    parts = [
        b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        b"IDAT" + zlib.compress(bytes(200_000)),
        b"IEND",
    ]
    chunks = [struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_bad_bodies_get_a_sentence(client: TestClient, files: list[Path]) -> None:
    good = files[0].read_bytes()
    cases: list[tuple[int, str, str, bytes]] = [
        (400, "image/png", "", good[: len(good) // 2]),
        (400, "image/png", "not an image", b"hello"),
        (400, "image/png", "empty", b""),
        (400, "image/png", "more than the 100,000 pixels", bomb(90_000, 90_000)),
        (400, "image/png", "1000 x 500 pixels; 100,000", bomb(1000, 500)),
        (400, "image/png", "not an image", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n" + bytes(200)),
        (400, "application/dicom", "", bytes(128) + b"DICM" + bytes(50)),
        (400, "image/png", "", b"%!PS-Adobe-3.0 EPSF-3.0\n".ljust(128) + b"DICM" + bytes(50)),
        (413, "image/png", "300,000 bytes", bytes(300_001)),
        (415, "text/plain", "content type is 'text/plain'", good),
        (415, "", "content type", good),
        (422, "application/json", "", b"{"),
        (422, "application/json", "", b""),
        (422, "application/json", "", b"null"),
        (422, "application/json", "", b'{"images": []}'),
        (422, "application/json", "", b'{"images": [NaN]}'),
        (422, "application/json", "", b'{"images": [1e999]}'),
        (422, "application/json", "this run reads images: send files, or JSON", b'{"texts": ["a"]}'),
        (422, "application/json", "", b"[" * 100_000),
        (422, "application/json", "", b'{"images":' * 20_000),
        (413, "application/json", "8 samples", b'{"images": [' + b'"",' * 90_000 + b'""]}'),
        (413, "application/json", "8 samples", b'{"images": [' + b'"",' * 8 + b'""]}'),
        (422, "application/json", "images.0: this is not base64", b'{"images": ["!!!"]}'),
        (422, "application/json", "images.0: this is not base64", b'{"images": ["%%%%"]}'),
        (422, "application/json", "without 'data:", b'{"images": ["data:image/png;base64,AAAA"]}'),
        (400, "multipart/form-data", "", good),
        (400, "multipart/form-data; boundary=x", "", b"--x\r\nnothing\r\n"),
        (422, "multipart/form-data; boundary=x", "no file", b"--x--\r\n"),
        (
            422,
            "multipart/form-data; boundary=x",
            "coverage=0.9",
            b'--x\r\nContent-Disposition: form-data; name="coverage"\r\n\r\n0.5\r\n--x--\r\n',
        ),
    ]
    for status, kind, words, body in cases:
        for path in ("/predict", "/embed"):
            reply = client.post(path, content=body, headers={"Content-Type": kind} if kind else {})
            assert words in detail(reply, status), (kind, body[:40])
    many = [("x", (str(number), good)) for number in range(9)]
    assert "8 samples" in detail(client.post("/predict", files=many), 413)
    assert "8 samples" in detail(client.post("/predict", files=[*many, *many]), 413)
    assert client.get("/health").json()["waiting"] == 0


def test_uploads_are_opened_by_the_decoders_of_image_files_alone(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, usual = [], Image.open

    def recorded(*arguments: Any, **options: Any) -> Any:
        opened.append(options.get("formats"))
        return usual(*arguments, **options)

    monkeypatch.setattr(Image, "open", recorded)
    assert read_upload(files[0].read_bytes(), 8, 3, 10_000).shape == (3, 8, 8)
    assert opened
    assert all(set(FORMATS) - {"AVIF", "HEIF"} <= set(formats) <= set(FORMATS) for formats in opened)


def test_damaged_images_never_fail_the_service(client: TestClient, files: list[Path]) -> None:
    """Flipped bytes of images of every format: an answer or a sentence, and the next image is answered."""
    rng, image = np.random.default_rng(0), Image.open(files[0]).convert("RGB")
    for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        content = encoded(image, form)
        for _ in range(12):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 30)):
                damaged[place] = rng.integers(256)
            cut = bytes(damaged[: rng.integers(1, len(content) + 1)])
            reply = client.post("/predict", content=cut, headers={"Content-Type": "image/x"})
            assert reply.status_code == 200 or detail(reply, 400)
        whole = client.post("/predict", content=content, headers={"Content-Type": "image/x"})
        assert whole.status_code == 200, form


def test_decoding_is_limited_in_memory(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all requests together; one image that takes more is refused, or is a row with a problem."""
    large, small = encoded(Image.new("RGBA", (700, 500))), files[0].read_bytes()
    needed = measure_upload(small, 28, 1_000_000)
    decoding, most, lock = 0, 0, threading.Lock()

    def counted(*arguments: Any) -> Any:
        nonlocal decoding, most
        with lock:
            decoding += 1
            most = max(most, decoding)
        try:
            time.sleep(0.01)  # others would come in
            return read_upload(*arguments)
        finally:
            with lock:
                decoding -= 1

    monkeypatch.setattr("labeltree.serving.engine.read_upload", counted)
    monkeypatch.setattr("labeltree.serving.engine.available_cores", lambda: 6)  # so many decoders
    headers = {"Content-Type": "image/png"}
    with service(image_run, max_decoding=2 * needed + needed // 2) as client:
        told = detail(client.post("/predict", content=large, headers=headers), 413)
        assert "decoding it takes up to 11 MB of memory" in told
        assert "send it with fewer pixels" in told
        rows = client.post("/predict", files=[("x", large), ("x", small)]).json()["answers"]
        assert [row["answer"] is None for row in rows] == [True, False]
        assert detail(client.post("/predict", files=[("x", large), ("x", b"no")]), 400)
        found = client.post("/predict", files=[("x", small)] * 12)
        assert [row["problem"] for row in found.json()["answers"]] == [None] * 12
        assert client.app.state.service.engine.memory.used == 0  # type: ignore[attr-defined]
    assert most == 2


def test_an_upload_without_a_length_is_cut_off(client: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield bytes(10_000)

    reply = client.post("/predict", content=endless(), headers={"Content-Type": "image/png"})
    assert "300,000 bytes" in detail(reply, 413)


class Blocked:
    """Replaces the network of a service by one that waits until it may go on."""

    def __init__(self, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go, self.sizes = threading.Event(), threading.Event(), list[int]()
        self.engine: Engine = client.app.state.service.engine  # type: ignore[attr-defined]
        embed = self.engine.model.embed_inputs

        def wait(inputs: Any) -> Any:
            self.sizes.append(len(inputs))
            self.began.set()
            assert self.go.wait(60)
            return embed(inputs)

        monkeypatch.setattr(self.engine.model, "embed_inputs", wait)


def test_too_many_waiting_are_refused(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"content": files[0].read_bytes(), "headers": {"Content-Type": "image/png"}}
    with service(image_run, max_waiting=3, max_samples=3) as client, ThreadPoolExecutor(4) as pool:
        blocked = Blocked(client, monkeypatch)
        first = pool.submit(client.post, "/predict", **content)
        assert blocked.began.wait(60)
        parts = [("x", files[0].read_bytes())] * 3
        refused = client.post("/predict", files=parts)
        assert "1 of 3 places" in detail(refused, 503)
        assert refused.headers["Retry-After"] == "1"
        blocked.go.set()
        assert first.result().status_code == 200
        assert client.post("/predict", files=parts).status_code == 200
        assert client.get("/health").json()["waiting"] == 0


def test_a_late_answer_is_given_up(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"content": files[0].read_bytes(), "headers": {"Content-Type": "image/png"}}
    with service(image_run, timeout=3) as client:
        assert client.post("/predict", **content).status_code == 200  # decoders are loaded
        blocked = Blocked(client, monkeypatch)
        assert "takes too long" in detail(client.post("/predict", **content), 503)
        assert "takes too long" in detail(client.post("/predict", **content), 503)
        blocked.go.set()
        until = time.monotonic() + 60
        while (health := client.get("/health").json())["waiting"] and time.monotonic() < until:
            time.sleep(0.01)  # the first is being computed
        assert (health["waiting"], health["answered"]) == (0, 1)
    assert sum(blocked.sizes) == 1, "the second was dropped before it was computed"


def test_the_time_of_a_body_is_part_of_that_of_an_answer(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends slowly waits no longer in all."""
    left: list[float] = []

    async def no_time(request: Any, futures: Any, seconds: float) -> Any:
        left.append(seconds)
        return await finish(request, futures, 0.0)

    finish = app._finish
    monkeypatch.setattr(app, "_finish", no_time)

    def slowly() -> Iterator[bytes]:
        time.sleep(0.3)
        yield files[0].read_bytes()

    with service(image_run, timeout=30) as client:
        client.post("/predict", content=slowly(), headers={"Content-Type": "image/png"})
    assert 0 < left[0] <= 29.7


def test_who_has_gone_is_dropped(image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that goes while it waits: its sample is not computed."""
    content = files[0].read_bytes()
    with service(image_run) as client:
        blocked = Blocked(client, monkeypatch)
        assert client.portal is not None
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/predict",
            "query_string": b"",
            "headers": [(b"content-type", b"image/png")],
        }
        replies: list[Any] = []

        def request(*messages: dict[str, Any]) -> Callable[[], Any]:
            waiting = list(messages)

            async def receive() -> dict[str, Any]:
                return waiting.pop(0) if waiting else await asyncio.sleep(3600, {})

            async def send(message: Any) -> None:
                replies.append(message)

            async def whole() -> None:
                await client.app({**scope}, receive, send)

            return whole

        body, gone = {"type": "http.request", "body": content}, {"type": "http.disconnect"}
        first = client.portal.start_task_soon(request(body))
        assert blocked.began.wait(60)
        client.portal.call(request(body, gone))
        client.portal.call(request({"type": "http.request", "body": content[:9], "more_body": True}, gone))
        assert [reply["status"] for reply in replies if "status" in reply] == [499, 499]
        admission = client.app.state.service.admission  # type: ignore[attr-defined]
        until = time.monotonic() + 60  # a decoder may still hold what it reads
        while admission.held != len(content) and time.monotonic() < until:
            time.sleep(0.01)
        assert admission.held == len(content), "of the first, which is still computed"
        blocked.go.set()
        first.result(60)
    assert sum(blocked.sizes) == 1


def test_who_has_gone_holds_memory_until_it_is_free(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease lasts as long as a decoder reads its bytes; what is queued is dropped at once."""
    content = files[0].read_bytes()
    began, go = threading.Semaphore(0), threading.Event()

    def slow(*arguments: Any) -> Any:
        began.release()
        assert go.wait(60)
        return read_upload(*arguments)

    monkeypatch.setattr("labeltree.serving.engine.read_upload", slow)
    monkeypatch.setattr("labeltree.serving.engine.available_cores", lambda: 2)  # so many decoders
    with service(image_run, timeout=1, max_samples=64) as client:
        service_ = client.app.state.service  # type: ignore[attr-defined]
        engine, admission = service_.engine, service_.admission
        workers = engine._decoders._max_workers
        for _ in range(workers):
            headers = {"Content-Type": "image/png"}
            reply = client.post("/predict", content=content, headers=headers)
            assert "takes too long" in detail(reply, 503)
            assert began.acquire(timeout=60)
        assert (admission.samples, admission.held) == (workers, workers * len(content))
        assert "takes too long" in detail(client.post("/predict", content=content, headers=headers), 503)
        until = time.monotonic() + 60
        while admission.samples > workers and time.monotonic() < until:
            time.sleep(0.01)
        assert (admission.samples, admission.held) == (workers, workers * len(content))
        go.set()
        while admission.samples and time.monotonic() < until:
            time.sleep(0.01)
        assert (admission.samples, admission.held) == (0, 0)
        assert engine.batches == 0, "nothing of them was computed"


def test_an_error_of_the_service_is_told_and_survived(
    image_run: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"content": files[0].read_bytes(), "headers": {"Content-Type": "image/png"}}
    with service(image_run) as client:
        model = client.app.state.service.engine.model  # type: ignore[attr-defined]
        with monkeypatch.context() as patch:
            patch.setattr(model, "embed_inputs", lambda _: 1 / 0)
            assert "its log says why" in detail(client.post("/predict", **content), 500)
        assert client.post("/predict", **content).status_code == 200


def test_token(image_run: Path, files: list[Path]) -> None:
    content = {"content": files[0].read_bytes()}
    kind = {"Content-Type": "image/png"}
    with service(image_run, token=TOKEN) as client:
        for given in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {TOKEN}"}):
            reply = client.post("/predict", headers=kind | given, **content)
            assert "Bearer TOKEN" in detail(reply, 401)
            assert reply.headers["WWW-Authenticate"] == "Bearer"
            assert client.get("/taxonomy", headers=given).status_code == 401
        for path in ("/", "/health", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        given = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/predict", headers=kind | given, **content).status_code == 200
        assert client.get("/taxonomy", headers=given).status_code == 200


def test_pages(client: TestClient, image_run: Path) -> None:
    model = lt.load(image_run)
    health = client.get("/health").json()
    assert (health["status"], health["model"], health["devices"]) == ("ready", model.digest, ["cpu"])
    tree = client.get("/taxonomy").json()
    assert tree["taxonomy"] == model.taxonomy.to_dict()
    assert len(tree["classes"]) == 5
    assert client.get("/").json()["paths"]["/health"]
    schema = client.get("/openapi.json").json()
    assert {"/predict", "/embed", "/taxonomy", "/health"} <= set(schema["paths"])
    assert "Predictions" in json.dumps(schema)
    assert detail(client.get("/nothing"), 404)
    assert detail(client.get("/predict"), 405)


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_pages_of_the_interface_need_no_network(client: TestClient, page: str) -> None:
    import re

    text = client.get(page).text
    named = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(named) >= 2
    for address in named:
        assert address.startswith("/"), address
        assert client.get(address).status_code == 200
    assert "https://" not in text
