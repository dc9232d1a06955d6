"""What a request holds is given back when it and its samples are gone, and not before."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

pytest.importorskip("fastapi")
from fastapi import HTTPException, Request

from labeltree.serving.bodies import Admission, read_samples
from labeltree.serving.service_settings import ServiceSettings


def test_bytes_and_samples_are_given_back_with_the_last_holder() -> None:
    settings = ServiceSettings(max_waiting=10, max_samples=10, max_upload=1000)
    admission = Admission(settings)
    lease = admission.lease()
    with lease:
        lease.take_bytes(400)
        lease.take_bytes(500)
        lease.take_samples(4)
        lease.hold()  # a sample that waits
        assert (admission.samples, admission.held) == (4, 900)
    assert (admission.samples, admission.held) == (4, 900), "a sample of it waits"
    lease.let_go()
    assert (admission.samples, admission.held) == (0, 0)
    with contextlib.ExitStack() as several:
        for _ in range(8):
            several.enter_context(admission.lease()).take_bytes(1000)
        assert admission.held == settings.max_held == 8000
        with admission.lease() as beside, pytest.raises(HTTPException) as told:
            beside.take_bytes(1)
        assert (told.value.status_code, told.value.detail) == (
            503,
            "other uploads fill the memory; try again a little later",
        )
        assert admission.held == 8000
    assert (admission.samples, admission.held) == (0, 0)


def test_a_body_in_small_parts_is_cut_off() -> None:
    """Without a length, as a browser streams it; what is beyond the limit is not read."""
    admission, parts = Admission(ServiceSettings(max_upload=1000)), list[int]()

    async def receive() -> dict[str, Any]:
        parts.append(admission.held)
        return {"type": "http.request", "body": bytes(300), "more_body": len(parts) < 100}

    async def read() -> None:
        request = Request({"type": "http", "headers": [(b"content-type", b"image/png")]}, receive)
        with admission.lease() as lease:
            await read_samples(request, lease, admission.settings, "image")

    with pytest.raises(HTTPException, match="more than 1,000 bytes") as told:
        asyncio.run(read())
    assert told.value.status_code == 413
    assert parts == [0, 300, 600, 900]
    assert (admission.samples, admission.held) == (0, 0)


def test_every_change_is_made_under_the_lock() -> None:
    admission = Admission(ServiceSettings())
    inside: list[str] = []

    class Watched:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __enter__(self) -> None:
            self.lock.acquire()
            inside.append("in")

        def __exit__(self, *_: object) -> None:
            inside.append("out")
            self.lock.release()

    admission.lock = Watched()  # type: ignore[assignment]
    lease = admission.lease()
    for call in (lease.hold, lambda: lease.take_samples(1), lambda: lease.take_bytes(5), lease.let_go):
        inside.clear()
        call()
        assert inside == ["in", "out"]
