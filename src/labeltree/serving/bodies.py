"""Samples from the body of a request: read within limits, whatever is sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from labeltree.serving.service_replies import Images, Texts, Vectors
from labeltree.serving.service_settings import ServiceSettings

__all__ = ["Admission", "Lease", "read_json", "read_samples"]

B = TypeVar("B", bound=BaseModel)
Samples = list[tuple[str, bytes | str | list[float]]]
_LONGEST_NAME = 200
_IMAGES = ("texts", 'this run reads images: send files, or JSON such as {"images": ["BASE64"]}')
_TEXTS = ("images", 'this run reads texts: send JSON such as {"texts": ["a text"]}')
_VECTORS = 'this run reads vectors: send JSON such as {"vectors": [[0.1, 0.2]]}, as application/json'
_SMALL_BODY_SECONDS = 30


class Admission:
    """How much the requests in progress hold; refuses what would be too much.

    Attributes:
        samples: Samples that wait, of all requests.
        held: Bytes of their bodies.
        lock: Held while one of them changes.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.samples = 0
        self.held = 0
        self.lock = threading.Lock()

    def lease(self) -> Lease:
        """A place for a request with one sample; use it as a context."""
        return Lease(self)


class Lease:
    """What one request holds, from its first byte until the request and all of its samples are gone."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._samples = 0
        self._bytes = 0
        self._holders = 0

    def __enter__(self) -> Lease:
        self.hold()
        self.take_samples(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def hold(self) -> None:
        """Keep the lease until `let_go`: a sample is queued that may outlive the request."""
        with self._admission.lock:
            self._holders += 1

    def let_go(self) -> None:
        """The counterpart of `hold`, in any thread; the last one ends the lease."""
        with self._admission.lock:
            self._holders -= 1
            if self._holders == 0:
                self._admission.samples -= self._samples
                self._admission.held -= self._bytes

    def take_samples(self, count: int) -> None:
        """Hold this many samples.

        Raises:
            HTTPException: 503 if too many are waiting.
        """
        limit = self._admission.settings.max_waiting
        with self._admission.lock:
            taken = self._admission.samples - self._samples
            if taken + count > limit:
                raise busy(
                    f"{taken} of {limit} places for waiting samples are taken; try again a little later"
                )
            self._admission.samples = taken + count
            self._samples = count

    def take_bytes(self, count: int) -> None:
        """Hold this many more bytes of the body.

        Raises:
            HTTPException: 413 if the body is too large; 503 if those of all requests are.
        """
        settings = self._admission.settings
        if self._bytes + count > settings.max_upload:
            raise too_large(settings)
        with self._admission.lock:
            if self._admission.held + count > settings.max_held:
                raise busy("other uploads fill the memory; try again a little later")
            self._bytes += count
            self._admission.held += count


def busy(sentence: str) -> HTTPException:
    """503, with the time after which to try again."""
    return HTTPException(503, sentence, {"Retry-After": "1"})


def gone() -> HTTPException:
    """The client has closed the connection: nobody reads this, and it is no error of the service."""
    return HTTPException(499, "the client has gone")


def too_large(settings: ServiceSettings) -> HTTPException:
    """413; the rest of the body is not read."""
    return HTTPException(
        413,
        f"the request has more than {settings.max_upload:,} bytes; send less at once",
        {"Connection": "close"},
    )


async def read_samples(
    request: Request, lease: Lease, settings: ServiceSettings, reads: str, width: int = 0
) -> Samples:
    """The samples of a request, with their names: contents of images, texts, or vectors.

    Args:
        request: The request, whose body has not been read.
        lease: Grows with the body and the samples.
        settings: The limits.
        reads: `image`, `text`, `both` or `vector`; of both, JSON holds texts, and every other body an
            image.
        width: Length of a vector.

    Raises:
        HTTPException: 400, 413, 415 or 422, with one sentence.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > settings.max_upload:
        raise too_large(settings)
    limited = Request(request.scope, _limit(request.receive, lease))
    if kind == "application/json":
        samples = await _read_json(await limited.body(), reads, settings, width)
    elif reads == "vector":
        raise HTTPException(415, _VECTORS)
    elif reads == "text":
        raise HTTPException(415, _TEXTS[1])
    elif kind == "multipart/form-data":
        samples = await _read_multipart(limited, settings)
    elif kind.startswith("image/") or kind in ("application/octet-stream", "application/dicom"):
        samples = [("image", await limited.body())]
    else:
        raise HTTPException(
            415,
            f"the content type is {kind[:100]!r}; send images as multipart/form-data, one as image/jpeg, "
            'image/png, … or application/octet-stream, or JSON such as {"images": ["BASE64"]}',
        )
    if len(samples) > settings.max_samples:
        raise too_many(settings)
    lease.take_samples(len(samples))
    return samples


async def read_json(request: Request, kind: type[B], most: int) -> B:
    """The body of a request, a small one, as JSON of a kind.

    Raises:
        HTTPException: 408 if it is slow, 413 if it has more than `most` bytes, 415 if it is not JSON, 422
            if it is another.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, as application/json")
    body = b""
    try:
        async with asyncio.timeout(_SMALL_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(
                        413, f"the request has more than {most:,} bytes", {"Connection": "close"}
                    )
    except TimeoutError:
        raise HTTPException(408, "the body did not arrive in time", {"Connection": "close"}) from None
    except ClientDisconnect:
        raise gone() from None
    return _parse(kind, body)


def too_many(settings: ServiceSettings) -> HTTPException:
    """413 for the number of samples."""
    return HTTPException(
        413, f"the request has more than {settings.max_samples} samples; send them in several requests"
    )


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def _limit(receive: Receive, lease: Lease) -> Receive:
    async def counted() -> MutableMapping[str, Any]:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise gone()
        lease.take_bytes(len(message.get("body", b"")))
        return message

    return counted


async def _read_multipart(request: Request, settings: ServiceSettings) -> Samples:
    parser = MultiPartParser(request.headers, request.stream(), max_files=settings.max_samples, max_fields=0)
    # As all bodies, it is in memory, which the lease counts: the system's temporary folder may be full.
    parser.spool_max_size = settings.max_upload + 1
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if "Too many files" in error.message:
            raise too_many(settings) from None
        if "Too many fields" in error.message:
            raise HTTPException(
                422,
                "the form has a field that is not a file; options go into the address: /predict?coverage=0.9",
            ) from None
        raise HTTPException(400, "the multipart body is broken; send it again") from error
    try:
        files = [value for _, value in form.multi_items() if not isinstance(value, str)]
        if not files:
            raise HTTPException(422, "the form has no file; send an image as a file of the form")
        return [
            ((file.filename or f"image {place}")[:_LONGEST_NAME], await file.read())
            for place, file in enumerate(files)
        ]
    finally:
        await form.close()


async def _read_json(body: bytes, reads: str, settings: ServiceSettings, width: int) -> Samples:
    # A few bytes of JSON become an object of a hundred: it is not parsed if it cannot be what is expected.
    if reads == "vector":
        if body.count(b",") > 2 * settings.max_samples * (width + 1):
            raise too_many(settings)
        if b'"vectors"' not in body:
            raise HTTPException(422, _VECTORS)
        rows = (await run_in_threadpool(_parse, Vectors, body)).vectors
        return [(f"vector {place}", row) for place, row in enumerate(rows)]
    if reads != "image":
        if len(body) > 12 * settings.max_samples * settings.max_text:  # all characters escaped
            raise too_many(settings)
        texts = (await run_in_threadpool(_parse, Texts, body, _TEXTS if reads == "text" else None)).texts
        for place, text in enumerate(texts):
            if len(text) > settings.max_text:
                raise HTTPException(
                    413, f"text {place} has {len(text):,} characters; at most {settings.max_text:,} are read"
                )
        return [(f"text {place}", text) for place, text in enumerate(texts)]
    if body.count(b",") > 2 * settings.max_samples:  # base64 has none
        raise too_many(settings)
    images = (await run_in_threadpool(_parse, Images, body, _IMAGES)).images
    return [(f"image {place}", image) for place, image in enumerate(images)]


def _parse(kind: type[B], body: bytes, other: tuple[str, str] | None = None) -> B:
    """JSON of a kind; `other` is the field of another kind that may be there, and what to say then."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        if other is not None and any(one["loc"] == (other[0],) for one in errors):
            raise HTTPException(422, other[1]) from None
        raise HTTPException(422, problem_of(errors)) from None


def problem_of(errors: Any) -> str:
    """The first of the errors that pydantic found, in one sentence."""
    first = errors[0]
    place = ".".join(str(part)[:100] for part in first["loc"] if part not in ("query", "body"))
    sentence = str(first["msg"]).partition("\n")[0][:300]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{place or 'the JSON'}: {sentence[:1].lower()}{sentence[1:]}{more}"
