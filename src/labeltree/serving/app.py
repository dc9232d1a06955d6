"""The FastAPI application of a service."""

import asyncio
import difflib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from labeltree.counted_nouns import say_count
from labeltree.decisions.novelty import FALSE_ALARMS
from labeltree.errors import DataError
from labeltree.inference.predict import asked_text, promise_text
from labeltree.options.answer_options import AnswerOptions
from labeltree.serving.bodies import Admission, busy, gone, problem_of, read_samples
from labeltree.serving.drift_watch import WINDOW
from labeltree.serving.engine import Engine, TooLargeError
from labeltree.serving.service_replies import (
    About,
    Answer,
    DriftReply,
    Embedding,
    Embeddings,
    Health,
    Images,
    Info,
    Predictions,
    Problem,
    TaxonomyReply,
    Texts,
    Vectors,
)

__all__ = ["Service", "add_errors", "create_app"]

_LOG = logging.getLogger("labeltree.serving")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": description}
    for code, description in {
        400: "none of the samples can be read",
        408: "the body did not arrive in time",
        413: "the body, the number of samples, or the memory to decode them, is too large",
        415: "not a content type that the model reads",
        422: "an option, or the JSON, is not valid",
        503: "too much is waiting, or the answer took too long; try again later",
    }.items()
}


def create_app(engine: Engine, *, token: str | None = None) -> FastAPI:
    """The application of a service; it closes the engine when it ends.

    Args:
        engine: The model.
        token: Clients must send it as a bearer token to everything but `/`, `/health` and the
            pages on the interface. None: no authentication.
    """
    from fastapi_offline import FastAPIOffline

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(engine.close, engine.settings.timeout)

    app: FastAPI = FastAPIOffline(
        title="labeltree",
        version=version("labeltree"),
        description=f"Answers and embeddings of {engine.model.recipe.objective} on "
        f"{engine.model.recipe.encoder}, which reads {engine.modality}s.",
        lifespan=lifespan,
    )
    add_errors(app)
    guards = [] if token is None else [Depends(_token_check(token))]
    _add_pages(app, engine, guards)
    service = Service(engine)
    app.state.service = service
    body = {"requestBody": _body_of(engine.modality)}
    checks = [*guards, Depends(_check_options)]
    posted: dict[str, Any] = {"responses": _PROBLEMS, "dependencies": checks, "openapi_extra": body}

    @app.post("/predict", response_model=Predictions, **posted)
    async def predict(
        request: Request,
        coverage: Annotated[
            float, Query(gt=0, lt=1, description="share of answers that hold the truth")
        ] = 0.9,
        top: Annotated[int, Query(ge=0, le=1000, description="most probable classes to list")] = 3,
        unknown: Annotated[
            float, Query(ge=0, lt=1, description="share of known samples that may be called unknown")
        ] = FALSE_ALARMS,
    ) -> Response:
        """Answer each sample with a node of the taxonomy, at the finest depth that keeps the coverage."""
        asked = AnswerOptions(coverage=coverage, top=top, unknown=unknown)
        rows = await service.answer(request, asked)
        about = engine.about(asked_text(engine.decider, promise_text(asked.promise), unknown))
        reply = Predictions(
            about=About.model_validate(about), answers=[Answer.model_validate(row) for row in rows]
        )
        return Response(reply.model_dump_json(), media_type="application/json")

    @app.post("/embed", response_model=Embeddings, **posted)
    async def embed(request: Request) -> Response:
        """The embedding (of the head) and the features (of the encoder) of each sample."""
        rows = await service.answer(request, None)
        reply = Embeddings(
            about=About.model_validate(engine.about("embeddings")),
            geometry=engine.model.network.objective.geometry.name,
            curvature=engine.model.recipe.curvature,
            embeddings=[Embedding.model_validate(row) for row in rows],
        )
        return Response(reply.model_dump_json(), media_type="application/json")

    @app.get("/health", responses={503: {"model": Problem}}, dependencies=[Depends(_check_options)])
    async def health() -> Health:
        """Whether the model is loaded and its threads run."""
        if not engine.ready:
            raise HTTPException(503, "an inference thread has ended; restart the service")
        return Health(
            status="ready",
            model=engine.decider.digest,
            labeltree=app.version,
            devices=[str(model.network.device) for model in engine.models],
            reads=engine.modality,
            waiting=service.admission.samples,
            answered=service.answered,
            batches=engine.batches,
            drift=_drift_reply(engine),
        )

    return app


def _drift_reply(engine: Engine) -> DriftReply | None:
    drift = None if engine.drift is None else engine.drift.last
    if engine.drift is None or drift is None:
        return None
    if isinstance(drift, str):
        return DriftReply(
            p_value=None, alarm=False, samples=WINDOW, says=f"not tested: {drift}", evidence=None
        )
    alarm = drift.alarms()
    says = drift.sentence() if alarm else None
    evidence = engine.drift.evidence.value
    return DriftReply(p_value=drift.p_value, alarm=alarm, samples=drift.count, says=says, evidence=evidence)


def _add_pages(app: FastAPI, engine: Engine, guards: list[Any]) -> None:
    @app.get("/")
    async def info() -> Info:
        """What this service is, and where to go."""
        return Info(
            service="labeltree",
            reads=engine.modality,
            model=engine.decider.digest,
            labeltree=app.version,
            paths={
                "/predict": f"POST {engine.modality}s: answers; ?coverage=0.9&top=3&unknown=0.05",
                "/embed": f"POST {engine.modality}s: embeddings and features",
                "/taxonomy": "the taxonomy of the answers",
                "/health": "whether the service answers",
                "/docs": "the interface as a page, to try it; /openapi.json for programs",
            },
        )

    nodes = engine.decider.rule.classes.nodes.tolist()
    tree = engine.model.taxonomy
    reply = TaxonomyReply(
        digest=tree.digest,
        classes=[tree.path_name(node) for node in nodes],
        taxonomy=tree.to_dict(),
    )

    @app.get("/taxonomy", dependencies=[*guards, Depends(_check_options)])
    async def taxonomy() -> TaxonomyReply:
        """The taxonomy of the answers, and the classes in the order of the classifier."""
        return reply


class Service:
    """Takes requests: reads their samples, has them answered, and gives up when time or client are gone."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.admission = Admission(engine.settings)
        self.answered = 0

    async def answer(self, request: Request, asked: AnswerOptions | None) -> list[dict[str, Any]]:
        """A row for each sample of the request.

        Raises:
            HTTPException: The request, all of its samples, or the state of the service do not allow answers.
        """
        engine, settings = self.engine, self.engine.settings
        try:
            engine.check(asked)
        except DataError as error:
            raise HTTPException(422, str(error)) from None
        with self.admission.lease() as lease:
            began = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(settings.timeout):
                    samples = await read_samples(request, lease, settings, engine.modality, engine.width)
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"the body did not arrive within {settings.timeout:g} s; send less at once",
                    {"Connection": "close"},
                ) from None
            rows: list[dict[str, Any] | None] = [None] * len(samples)
            problems: dict[int, str] = {}
            too_large = 0
            waiting: dict[int, Future[dict[str, Any]]] = {}
            for place, (name, content) in enumerate(samples):
                if isinstance(content, str) and not content.strip():
                    problems[place] = "the text is empty"
                elif isinstance(content, list) and len(content) != engine.width:
                    has = say_count(len(content), "number")
                    problems[place] = f"it has {has}; the run reads {engine.width:,}"
                else:
                    lease.hold()  # of a client that goes, too, until its sample is out of the queue
                    waiting[place] = engine.ask(name, content, asked, lease.let_go)
            names = [name for name, _ in samples]
            del samples, content  # what is decoded is not held
            left = settings.timeout - (asyncio.get_running_loop().time() - began)
            results = await _finish(request, list(waiting.values()), left)
            for place, result in zip(waiting, results, strict=True):
                if isinstance(result, DataError):
                    problems[place] = str(result)
                    too_large += isinstance(result, TooLargeError)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    rows[place] = result
        if len(problems) == len(rows):
            place, problem = min(problems.items())
            which = f"'{names[place]}'" if len(rows) == 1 else f"none of the samples; '{names[place]}'"
            status = 413 if too_large == len(rows) else 400
            raise HTTPException(status, f"cannot read {which}: {problem}")
        self.answered += len(rows) - len(problems)
        return [
            {"sample": name, "problem": problems[place]} if row is None else row
            for place, (name, row) in enumerate(zip(names, rows, strict=True))
        ]


async def _finish(
    request: Request, futures: list[Future[dict[str, Any]]], seconds: float
) -> list[dict[str, Any] | BaseException]:
    """Results or errors of the futures; all are cancelled if the time is up or the client is gone."""
    everything = asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
    closed = asyncio.ensure_future(_wait_for_disconnect(request))
    either: set[asyncio.Future[Any]] = {everything, closed}
    try:
        done, _ = await asyncio.wait(either, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        if everything in done:
            return everything.result()
        if closed in done:
            raise gone()
        raise busy("the answer takes too long; try again a little later")
    finally:
        closed.cancel()
        everything.add_done_callback(lambda future: future.cancelled() or future.exception())  # not logged
        everything.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _check_options(request: Request) -> None:
    """Refuse an option that the address does not have: an answer without it is not the one asked for."""
    known = [option.alias for option in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            there = f"there are {', '.join(known)}" if known else f"{request.url.path} has none"
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise HTTPException(422, f"there is no option '{name[:100]}'; {hint}{there}")


def _token_check(token: str) -> Callable[..., Awaitable[None]]:
    bearer = HTTPBearer(auto_error=False)

    async def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        sent = "" if given is None else given.credentials
        if not hmac.compare_digest(sent.encode(), token.encode()):
            raise HTTPException(
                401,
                "send the token of this service: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )

    return check


def add_errors(app: FastAPI) -> None:
    """Errors of requests as JSON with one sentence."""

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"detail": problem_of(error.errors())}, 422)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        _LOG.error("a request failed", exc_info=error)
        return JSONResponse({"detail": "the service could not answer; its log says why"}, 500)


def _body_of(modality: str) -> dict[str, Any]:
    """The bodies that are read, as OpenAPI describes them."""
    if modality == "text":
        return {"required": True, "content": {"application/json": {"schema": Texts.model_json_schema()}}}
    if modality == "vector":
        return {"required": True, "content": {"application/json": {"schema": Vectors.model_json_schema()}}}
    binary = {"type": "string", "format": "binary"}
    form = {"type": "object", "properties": {"files": {"type": "array", "items": binary}}}
    return {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": form},
            "image/*": {"schema": binary},
            "application/octet-stream": {"schema": binary},
            "application/json": {"schema": Images.model_json_schema()},
        },
    }
