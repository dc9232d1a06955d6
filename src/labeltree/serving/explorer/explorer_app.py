"""The FastAPI application of the explorer: a page, and the JSON interface that it asks."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response

from labeltree.errors import DataError, LabeltreeError
from labeltree.serving.app import Service, add_errors
from labeltree.serving.bodies import read_json
from labeltree.serving.engine import Engine
from labeltree.serving.explorer.explorer_pictures import SIZES
from labeltree.serving.explorer.explorer_replies import (
    Changed,
    Decided,
    ExplorerInfo,
    HitList,
    MapInfo,
    Matches,
    NodePage,
    ReviewItem,
    ReviewPage,
    SampleList,
    SessionRequest,
    SuspectSearchInfo,
    TreeReply,
)
from labeltree.serving.explorer.pages import page_html, page_style
from labeltree.serving.explorer.review_decisions import Conflict
from labeltree.serving.explorer.show import Show
from labeltree.serving.guard import Guard
from labeltree.serving.service_replies import Problem

__all__ = ["create_explorer"]

_LOG = logging.getLogger("labeltree.serving")
_SCRIPTS = ("map.js", "explore.js", "tree.js", "cards.js")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_MOST_ROWS = 200
_SMALL = 150_000  # bytes of a body that is no upload
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": description}
    for code, description in {
        404: "there is no such sample, node or map",
        413: "the body is too large",
        422: "an option, or the JSON, is not valid",
    }.items()
}


def create_explorer(
    show: Show, engine: Engine | None = None, *, token: str | None = None, names: tuple[str, ...] = ()
) -> Any:
    """The explorer as an ASGI application; it closes the engine when it ends.

    Args:
        show: What is explored.
        engine: The model by which images or texts become queries; None: there is none.
        token: That everything but the bare page needs; None: no authentication.
        names: Further names of this host, see `Guard`.
    """
    from fastapi_offline import FastAPIOffline

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if engine is not None:
            await asyncio.to_thread(engine.close, engine.settings.timeout)

    app: FastAPI = FastAPIOffline(
        title="labeltree explore",
        version=version("labeltree"),
        description=f"Search, look at and correct {show.collection.name}. Rows number the samples as "
        "they were when the explorer was started.",
        lifespan=lifespan,
    )
    add_errors(app)

    @app.exception_handler(LabeltreeError)
    async def refused(_: Request, error: LabeltreeError) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    guard = Guard(app, token, names)
    _add_page(app, guard)
    _add_reading(app, show, engine)
    _add_search(app, show, engine)
    _add_review(app, show)
    return guard


def _add_page(app: FastAPI, guard: Guard) -> None:
    html, style = page_html(needs_token=guard.needs_token), page_style()
    folder = files("labeltree.serving.explorer") / "page"
    scripts = {name: (folder / name).read_text("utf-8") for name in _SCRIPTS}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return Response(html, media_type="text/html", headers=headers)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name == "explore.css":
            return Response(style, media_type="text/css", headers={"Cache-Control": "no-cache"})
        if name not in scripts:
            raise HTTPException(404, "there is no such file")
        return Response(scripts[name], media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    @app.post("/api/session", responses={401: {"model": Problem}})
    async def session(request: Request) -> Response:
        """A cookie for the token, which browsers send with every request, for pictures, too."""
        asked = await read_json(request, SessionRequest, _SMALL)
        cookie = guard.cookie_for(asked.token, request.headers.get("host", ""))
        if cookie is None:
            await asyncio.sleep(0.5)
            raise HTTPException(401, "this is not the token of this service")
        return Response(status_code=204, headers={"Set-Cookie": cookie})


def _add_reading(app: FastAPI, show: Show, engine: Engine | None) -> None:
    collection = show.collection

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the explorer answers."""
        return {"status": "ready", "labeltree": app.version}

    @app.get("/api/info")
    def info() -> ExplorerInfo:
        """What is shown, and what can be asked."""
        return show.info(engine)

    @app.get("/api/tree")
    def tree() -> TreeReply:
        """The taxonomy with its counts."""
        return show.tree()

    @app.get("/api/rows", response_class=Response)
    def rows() -> Response:
        """All rows, little-endian: n × int32 node (−1: none), n × uint8 state, n × uint8 split.

        State: 1 suspect + 2 with a prediction that counts + 4 whose prediction is right. Split: the position
        in `splits` of /api/info, 255: none.
        """
        return Response(show.rows(), media_type="application/octet-stream")

    @app.get("/api/maps/{name}", response_class=Response, responses={202: {"model": MapInfo}, **_PROBLEMS})
    def a_map(name: str) -> Response:
        """Places of all rows, little-endian: n × float32 x, n × float32 y; 202 while they are computed."""
        state = show.maps.start(name)
        plane_map = show.maps.get(name)
        if plane_map is None:
            return JSONResponse({"name": state.name, "state": state.state, "problem": state.problem}, 202)
        note = plane_map.note.encode("ascii", "xmlcharrefreplace").decode()
        content = np.ascontiguousarray(plane_map.points.T, "<f4").tobytes()
        return Response(content, media_type="application/octet-stream", headers={"X-Note": note})

    @app.get("/api/maps")
    def maps() -> list[MapInfo]:
        """The maps, and whether they are ready."""
        return [MapInfo(name=m.name, state=m.state, problem=m.problem) for m in show.maps.states()]

    @app.get("/api/samples", responses=_PROBLEMS)
    def samples(rows: Annotated[str, Query(max_length=4000, description="numbers, 1,2,3")]) -> SampleList:
        """Some samples, at most 200."""
        numbers = rows.split(",") if rows else []
        if len(numbers) > _MOST_ROWS or not all(
            n.isascii() and n.isdecimal() and len(n) < 12 for n in numbers
        ):
            raise HTTPException(422, f"rows: expected at most {_MOST_ROWS} numbers, such as 1,2,3")
        return SampleList(samples=show.samples([_row(collection, int(number)) for number in numbers]))

    @app.get("/api/pictures/{row}", response_class=Response, responses=_PROBLEMS)
    def picture(row: int, size: int = SIZES[1]) -> Response:
        """The picture of a sample, square."""
        try:
            content = show.pictures.get(_row(collection, row), size)
        except DataError as error:
            raise HTTPException(404, str(error)) from None
        kind = "image/png" if content[:4] == b"\x89PNG" else "image/jpeg"
        return Response(content, media_type=kind, headers={"Cache-Control": "private, no-cache"})

    @app.get("/api/nodes/{node}", responses=_PROBLEMS)
    def node_page(node: int) -> NodePage:
        """What is known of a node."""
        return show.node(_node(collection, node))


def _add_search(app: FastAPI, show: Show, engine: Engine | None) -> None:
    collection = show.collection
    service = None if engine is None else Service(engine)
    wanted = Query(ge=1, le=_MOST_ROWS, description="how many hits")
    inside = Query(max_length=4000, description="only samples at or below this node: its number or path")
    compared_with = Query(max_length=4000, description="node that hits are compared with, likewise")
    tree_dial = Query(
        description="how much the taxonomy counts in a posterior space, 0 to 1", allow_inf_nan=False
    )
    instance_dial = Query(
        description="how much samples of a class are told apart there, from 0", allow_inf_nan=False
    )

    @app.get("/api/find")
    def find(q: Annotated[str, Query(max_length=1000)]) -> Matches:
        """Nodes whose name, and samples whose id, contain the words."""
        return show.find(q)

    @app.get("/api/search/sample", responses=_PROBLEMS)
    def by_sample(
        row: int,
        k: Annotated[int, wanted] = 60,
        within: Annotated[str | None, inside] = None,
        tree: Annotated[float | None, tree_dial] = None,
        instance: Annotated[float | None, instance_dial] = None,
    ) -> HitList:
        """Samples nearest to a sample, without itself."""
        return show.like(_row(collection, row), k, _find_node(collection, within), tree, instance)

    @app.post("/api/search", responses=_PROBLEMS, openapi_extra=_upload_body())
    async def by_upload(
        request: Request,
        k: Annotated[int, wanted] = 60,
        within: Annotated[str | None, inside] = None,
        reference: Annotated[str | None, compared_with] = None,
        tree: Annotated[float | None, tree_dial] = None,
        instance: Annotated[float | None, instance_dial] = None,
    ) -> HitList:
        """Samples nearest to an image or a text, by the model of the index; bodies as of serve."""
        if service is None:
            raise HTTPException(422, show.why_no_model)
        below, compared = _find_node(collection, within), _find_node(collection, reference)
        rows = await service.answer(request, None)
        if len(rows) != 1:
            raise HTTPException(422, "send one image or one text at a time")
        searched = "features" if collection.space == "features" else "embedding"
        vector = np.asarray(rows[0][searched], np.float32)
        name = str(rows[0]["sample"])
        return await asyncio.to_thread(show.near, vector, name, k, below, compared, tree, instance)


def _add_review(app: FastAPI, show: Show) -> None:
    @app.get("/api/review")
    def review(
        state: Annotated[str, Query(pattern="^(open|decided|all)$")] = "open",
        node: int = 0,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        after: Annotated[int | None, Query(description="row of a suspect: only those that follow it")] = None,
    ) -> ReviewPage:
        """Suspects at or below a node, the most suspicious first."""
        return show.review_page(state, _node(show.collection, node), offset, limit, after)

    @app.post("/api/review", responses={409: {"model": Changed}, **_PROBLEMS})
    async def decide(request: Request) -> ReviewItem:
        """Decide about a suspect, and write the corrections file."""
        asked = await read_json(request, Decided, _SMALL)
        try:
            return await asyncio.to_thread(show.decide, asked)
        except Conflict as conflict:
            item = show.review_item(asked.id)
            raise _ConflictError(Changed(detail=str(conflict), item=item)) from None

    @app.get("/api/suspects")
    def search_state() -> SuspectSearchInfo:
        """How far the search for labels that look wrong is."""
        return show.search_state()

    @app.post("/api/suspects", responses=_PROBLEMS)
    def search_suspects() -> SuspectSearchInfo:
        """Look for labels that look wrong, in the background; what is found replaces the suspects."""
        if show.suspect_search is None:
            raise HTTPException(
                422, "suspects cannot be looked for here; give their table by --suspects FILE"
            )
        show.suspect_search.start()
        return show.search_state()

    @app.exception_handler(_ConflictError)
    async def conflicting(_: Request, error: _ConflictError) -> Response:
        return Response(error.reply.model_dump_json(), 409, media_type="application/json")


class _ConflictError(Exception):
    def __init__(self, reply: Changed) -> None:
        super().__init__(reply.detail)
        self.reply = reply


def _row(collection: Any, row: int) -> int:
    if not 0 <= row < len(collection):
        raise HTTPException(404, f"there is no row {row}; rows are 0 to {len(collection) - 1}")
    return row


def _node(collection: Any, node: int) -> int:
    if not 0 <= node < collection.taxonomy.num_nodes:
        raise HTTPException(
            404, f"there is no node {node}; nodes are 0 to {collection.taxonomy.num_nodes - 1}"
        )
    return node


def _find_node(collection: Any, node: str | None) -> int | None:
    """A node by its number, its path or a name that it alone has; None if none is given.

    Digits are a number even where nodes have such names: the page asks by numbers.
    """
    if node is None:
        return None
    if node.isascii() and node.removeprefix("-").isdecimal():
        return _node(collection, int(node[:20]))
    number: int = collection.taxonomy.find(node)  # its error becomes 422
    return number


def _upload_body() -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    form = {"type": "object", "properties": {"files": {"type": "array", "items": binary}}}
    texts = {"type": "object", "properties": {"texts": {"type": "array", "items": {"type": "string"}}}}
    content = {"image/*": binary, "multipart/form-data": form, "application/json": texts}
    return {"requestBody": {"content": {kind: {"schema": schema} for kind, schema in content.items()}}}
