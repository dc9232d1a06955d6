"""Opening an index for the explorer: its rows, its model, its pictures, its suspects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from labeltree.cache import data_home
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.decisions.choose_classifier import classifier_words
from labeltree.errors import DataError, LabeltreeError
from labeltree.inference.extend import extensions_of
from labeltree.options.schema import as_place, takes
from labeltree.options.serving import ExploreOptions
from labeltree.runs import RunFolder
from labeltree.serving.engine import Engine
from labeltree.serving.explorer.collection import Collection, Dials, Found, Nearest
from labeltree.serving.explorer.corrections_file import CorrectionsFile, read_suspects
from labeltree.serving.explorer.explorer_app import create_explorer
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.maps import Maps
from labeltree.serving.explorer.review_decisions import Review
from labeltree.serving.explorer.show import Show
from labeltree.serving.explorer.suspect_search import index_suspects
from labeltree.serving.server import bound, is_loopback, read_token, run_app
from labeltree.serving.service_settings import ServiceSettings

if TYPE_CHECKING:
    from labeltree.index import Index
    from labeltree.taxonomy import Taxonomy

__all__ = ["explore", "open_collection", "open_show"]

Array = np.ndarray[Any, Any]


@takes(ExploreOptions)
def explore(options: ExploreOptions) -> None:
    """Serve the explorer of an index until Ctrl-C or SIGTERM.

    Raises:
        DataError: If there is no such index, or a file cannot be read.
        ValueError: If others reach the host, and there is no token.
    """
    token, settings = read_token(options), ServiceSettings(**options.limits)
    if token is None and not is_loopback(options.host):
        raise options.refusal(
            f"whoever reaches '{options.host}' would see the data and could correct labels; ask for a token: "
            "`token_file` FILE"
        )
    with bound(options.host, options.port) as listener:
        show, engine = open_show(
            as_place(options.index),
            images=options.images,
            suspects=options.suspects,
            corrections=options.corrections,
            settings=settings,
            devices=options.devices,
            threads=options.threads,
            warn=options.warn,
        )
        threading.Thread(target=show.prepare, name="prepare", daemon=True).start()
        try:
            app = create_explorer(show, engine, token=token, names=(*options.names, options.host))
            run_app(app, listener, settings, access_log=options.access_log, say=options.say)
        finally:
            if engine is not None:
                engine.close(settings.timeout)


def open_show(
    where: str | Path,
    *,
    images: Sequence[str | Path] = (),
    suspects: str | Path | None = None,
    corrections: str | Path | None = None,
    settings: ServiceSettings,
    devices: Sequence[str] = (),
    threads: int | None = None,
    warn: Callable[[str], None] = print,
) -> tuple[Show, Engine | None]:
    """What the explorer shows of an index, and the model that it searches by; arguments as of `explore`."""
    from labeltree.index import Index
    from labeltree.index.opened_tables import recorded_contents

    index = Index.open(where)
    collection = open_collection(index)
    engine, why = None, "the index was made from vectors alone: search by node or by sample"
    run = index.model
    if run is not None:
        try:
            engine = Engine(run, settings, devices=devices, threads=threads, either=True)
        except (LabeltreeError, OSError) as error:
            why = f"the run of the index cannot be opened: {error}"
            warn(why)
    folder = Path(index.where) if "://" not in index.where else None
    draw = None if engine is None else _drawer(engine, index)
    pictures = Pictures(collection.paths, [*images, *_folders_of(engine)], settings, draw)

    def known() -> dict[str, str] | None:
        """Fingerprints of the samples, by their ids."""
        ids = collection.ids.tolist()
        contents = recorded_contents(index, ids)
        return None if contents is None else dict(zip(ids, contents, strict=True))

    listed = [] if suspects is None else read_suspects(Path(suspects), collection)
    if corrections is None and suspects is not None:
        corrections = Path(suspects).with_name("reviewed.csv")
    if corrections is not None and (_is_record(Path(corrections)) or _was_used(Path(corrections), index)):
        raise DataError(
            f"'{corrections}' holds the corrections that a run was trained with; name another file for new "
            "decisions, and train with both"
        )
    kept = None
    if corrections is not None:
        kept = CorrectionsFile(Path(corrections), collection, known())
    home = None if folder is None else folder.parent if folder.name == "index" else folder

    def keep_decisions() -> CorrectionsFile | None:
        """The usual file for decisions about suspects of the page, unless a run was trained with it."""
        usual = None if home is None else home / "reviewed.csv"
        return (
            None if usual is None or _was_used(usual, index) else CorrectionsFile(usual, collection, known())
        )

    for problem in [] if kept is None else list(kept.read().problems.values())[:5]:
        warn(problem)
    show = Show(
        collection,
        pictures,
        Maps(collection, None if folder is None else folder / "maps", warn),
        Review(listed, kept),
        why_no_model=why,
        version_now=lambda: str(Index.open(where).version),
        find_suspects=partial(index_suspects, index, collection),
        keep_decisions=keep_decisions,
        classifier="" if engine is None else classifier_words(engine.decider.chosen.name),
        changed_at=_changed_at(folder),
    )
    return show, engine


def _changed_at(folder: Path | None) -> str:
    """When an index in a folder was last changed; empty if it lies elsewhere."""
    versions = None if folder is None else next(folder.glob("*.lance/_versions"), None)
    if versions is None:
        return ""
    return datetime.fromtimestamp(versions.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _is_record(path: Path) -> bool:
    """Whether a file is where a run keeps the corrections that it began with."""
    run = RunFolder(path.parent)
    records = [run.corrections, *run.correction_files]
    return path.name in [file.name for file in records] and run.recipe.is_file()


def _was_used(path: Path, index: Index) -> bool:
    """Whether the run of the index was trained with this file: its labels are corrected already."""
    if index.model is None or not path.is_file():
        return False
    records = RunFolder(index.model).correction_files
    try:
        given = CorrectionRounds.load(path) if records else None
        return given is not None and any(given.same_as(CorrectionRounds.load(file)) for file in records)
    except LabeltreeError:  # it has rows to be mended, which are told when it is read
        return False


def open_collection(index: Index) -> Collection:
    """The samples of an index as they are now; with dials if its run is known and has them."""
    return index.at_once(lambda seen: _collection(index, seen))


def _collection(index: Index, seen: Index) -> Collection:
    """The samples of an index as one version of it, `seen`, has them; searches take the newest."""
    version = str(seen.version)
    known = seen.info().columns
    wanted = [name for name in ("split", "path", "text", "prediction") if name in known]
    table = seen.rows(["id", "node", *wanted])
    columns: dict[str, list[Any]] = {name: table[name].to_pylist() for name in wanted}
    ids = np.array(table["id"].to_pylist(), object)
    row_of = {one: row for row, one in enumerate(ids.tolist())}

    def texts(name: str) -> Array | None:
        values = columns.get(name)
        if values is None or not any(values):
            return None
        return np.array([value or "" for value in values], object)

    def nearest(queries: Array, k: int, within: int | None, *, by: Index = index) -> list[Found]:
        nearest_rows = []
        for hits in by.search(queries, k=k, within=None if not within else int(within), columns=[]):
            here = [place for place, one in enumerate(hits.ids) if one in row_of]  # others are newer
            rows = np.array([row_of[hits.ids[place]] for place in here], np.int64)
            nearest_rows.append(Found(rows, hits.distances[here], hits.similarities[here]))
        return nearest_rows

    @lru_cache(maxsize=2)  # a search turns all vectors, and the next one often has the same dials
    def turned(tree: float, instance: float) -> Nearest:
        return partial(nearest, by=index.with_dials(tree=tree, instance=instance))

    return Collection(
        name=_name_of(index),
        ids=ids,
        nodes=np.array(table["node"].to_numpy(), np.int64),
        taxonomy=seen.taxonomy,
        vectors=seen.vectors(),
        nearest=nearest,
        geometry=seen.settings.space.name,
        curvature=seen.settings.curvature,
        space=seen.settings.vectors,
        version=version,
        splits=texts("split"),
        predictions=_predictions(columns.get("prediction"), seen.taxonomy),
        paths=texts("path"),
        texts=texts("text"),
        dials=_dials(index, turned),
    )


def _dials(index: Index, turned: Callable[[float, float], Nearest]) -> Dials | None:
    """The dials of an index, if its run has them and can be opened."""
    if index.model is None or not RunFolder(index.model).ridge.is_file():
        return None
    try:
        index.with_dials()
        solver = index.open_model().network.objective.solver
    except (LabeltreeError, OSError):
        return None
    return None if solver is None else Dials(solver.space["tree"], solver.space["instance"], turned)


def _name_of(index: Index) -> str:
    place = Path(index.where)
    return place.parent.name if place.name == "index" and place.parent.name else place.name or index.where


def _predictions(values: list[Any] | None, taxonomy: Taxonomy) -> Array | None:
    """Nodes `(n,)` of the column `prediction`, whose values are nodes by number or by path."""
    if values is None:
        return None
    if any(isinstance(value, str) for value in values):
        nodes = {taxonomy.path_name(node): node for node in range(taxonomy.num_nodes)}
        return np.array([nodes.get(str(value), -1) for value in values], np.int64)
    numbers = np.array([-1 if value is None else int(value) for value in values], np.int64)
    return np.where((numbers >= 0) & (numbers < taxonomy.num_nodes), numbers, -1)


def _drawer(engine: Engine, index: Index) -> Callable[[int], Array] | None:
    """Draws samples that are no files but parts of the run's data set, by their number in it."""
    if engine.modality in ("text", "vector") or "instance" not in index.info().columns:
        return None
    instances = index.rows(["instance"])["instance"].to_pylist()
    opening = threading.Lock()
    opened: list[Any] = []

    def draw(row: int) -> Array:
        from labeltree.training.recipe_data import open_recipe_data

        with opening:
            if not opened:
                source = open_recipe_data(engine.model.recipe)
                opened.append((source, {one: place for place, one in enumerate(source.instances.tolist())}))
            source, places = opened[0]
            if instances[row] not in places:
                raise DataError("the sample is no longer in the data of the run")
            place = torch.tensor([places[instances[row]]])
            if not bool(source.present(source.rows[place])[0, 0]):
                raise DataError("the sample has no image")
            return np.asarray(source.load(place)[0].numpy())

    return draw


def _folders_of(engine: Engine | None) -> list[Path]:
    """Where images of a run may lie: in its data, in those of its extensions, in the cache of data sets."""
    if engine is None:
        return []
    later = [each.record.get("data") for each in extensions_of(engine.model.run.folder.home.path)]
    places = [Path(data) for data in (engine.model.recipe.data, *later) if isinstance(data, str)]
    return [place if place.is_dir() else place.parent if place.is_file() else data_home() for place in places]
