"""A collection of coloured squares for the explorer, and a model that knows their colour."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from labeltree.errors import DataError
from labeltree.progress import Progress
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer import Collection, Found
from labeltree.serving.explorer.collection import Dials
from labeltree.serving.explorer.corrections_file import CorrectionsFile
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.maps import Maps
from labeltree.serving.explorer.review_decisions import Review, Suspect
from labeltree.serving.explorer.show import Show
from labeltree.taxonomy import Taxonomy

COLOURS = {
    ("warm", "red"): (200, 30, 30),
    ("warm", "orange"): (230, 140, 20),
    ("cold", "blue"): (30, 40, 200),
    ("cold", "<img src=x onerror=alert(1)>"): (20, 160, 120),
}
ODD = "<b>bold & \"odd\"</b> 'name' \u202e.png"


def make_collection(folder: Path, each: int = 10, **changes: Any) -> Collection:
    """``each`` squares of every colour; the last label is missing, and the first one is wrong."""
    random = np.random.default_rng(0)
    taxonomy = Taxonomy.from_paths(COLOURS)
    truth = np.array([taxonomy.find(path) for path in COLOURS for _ in range(each)])
    colours = np.array([colour for colour in COLOURS.values() for _ in range(each)], float)
    colours = np.clip(colours + random.normal(0, 8, colours.shape), 0, 255)
    folder.mkdir(parents=True, exist_ok=True)
    for row, colour in enumerate(colours):
        Image.new("RGB", (20, 16), tuple(int(c) for c in colour)).save(folder / f"{row}.png")
    n = len(truth)
    nodes = truth.copy()
    nodes[0], nodes[-1] = taxonomy.find(("cold", "blue")), -1
    predictions = truth.copy()
    predictions[1] = taxonomy.find(("cold", "blue"))
    vectors = vectors_of(colours)
    ids = np.array([f"sample {row:03d}" for row in range(n)], object)
    ids[2] = ODD

    def nearest(queries: Any, k: int, within: int | None) -> list[Found]:
        end = n if within is None else int(taxonomy.subtree_end[within])
        rows = np.arange(n) if within is None else np.flatnonzero((nodes >= within) & (nodes < end))
        near = queries @ vectors[rows].T
        orders = [np.argsort(-line, kind="stable")[:k] for line in near]
        return [Found(rows[o], 1 - line[o], line[o]) for o, line in zip(orders, near, strict=True)]

    given: dict[str, Any] = {
        "name": "squares",
        "ids": ids,
        "nodes": nodes,
        "taxonomy": taxonomy,
        "vectors": vectors,
        "nearest": nearest,
        "splits": np.array(["test" if row % 2 else "train" for row in range(n)], object),
        "predictions": predictions,
        "paths": np.array([f"{row}.png" for row in range(n)], object),
    }
    return Collection(**given | changes)


def vectors_of(colours: Any) -> Any:
    """Unit vectors ``(n, 8)`` of colours ``(n, 3)``."""
    middle = np.asarray(colours, float) / 255 - 0.5
    vectors = np.concatenate([middle, np.abs(middle), np.full((len(middle), 2), 0.1)], axis=1)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def make_show(folder: Path, corrections: Path | None = None, **changes: Any) -> Show:
    """What the explorer shows of the squares, with two suspects."""
    collection = make_collection(folder / "data", **changes)
    find = collection.taxonomy.find
    suspects = [
        Suspect(0, find(("warm", "red")), "9 of its 10 nearest samples are red", 0.9),
        Suspect(12, find(("warm", "red")), "its branch is sure, its leaf is not", 0.4),
    ]
    kept = None if corrections is None else CorrectionsFile(corrections, collection)
    settings = ServiceSettings()
    pictures = Pictures(collection.paths, [folder / "data"], settings)
    return Show(collection, pictures, Maps(collection, folder / "maps"), Review(suspects, kept))


def with_search(show: Show, corrections: Path, outcomes: list[Any]) -> Show:
    """The squares without suspects, and a search that gives or raises each of the outcomes in turn."""
    suspects = show.review.suspects

    def find(progress: Progress) -> list[Suspect]:
        progress("reading", 1, 4)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        outcome.wait(60)
        return suspects

    return Show(
        show.collection,
        show.pictures,
        show.maps,
        Review([], None),
        find_suspects=find,
        keep_decisions=lambda: CorrectionsFile(corrections, show.collection),
        classifier="a linear probe on the features",
        changed_at="2026-01-02 03:04 UTC",
    )


def with_dials(show: Show) -> Show:
    """The squares with dials: the less the tree counts, the farther are the results."""
    it = show.collection

    def nearest(tree: float, instance: float) -> Callable[[Any, int, int | None], list[Found]]:
        if not 0 <= tree <= 1:
            raise ValueError(f"tree is {tree}; expected a number from 0 to 1")

        def turned(queries: Any, k: int, within: int | None) -> list[Found]:
            every = it.nearest(queries, len(it), within)
            rest = [slice(round((1 - tree) * (len(one.rows) - 1)), None) for one in every]
            return [
                Found(one.rows[at][:k], one.distances[at][:k], one.similarities[at][:k])
                for one, at in zip(every, rest, strict=True)
            ]

        return turned

    show.collection = replace(it, dials=Dials(0.5, 1.0, nearest))
    return show


class ColourEngine:
    """Stands for `Engine`: the embedding of an image is that of its mean colour."""

    modality = "image"
    width = 0  # of vectors

    def __init__(self, **settings: Any) -> None:
        self.settings = ServiceSettings(**settings)
        self.closed = False

    def check(self, question: Any) -> None:
        """Every question is answered."""

    def ask(
        self, name: str, content: bytes, question: Any, on_end: Callable[[], None] = lambda: None
    ) -> Future[dict[str, Any]]:
        found: Future[dict[str, Any]] = Future()
        on_end()
        try:
            pixels = np.asarray(Image.open(BytesIO(content)).convert("RGB"), float).reshape(-1, 3)
            vector = vectors_of(pixels.mean(0)[None])[0].tolist()
            found.set_result({"sample": name, "embedding": vector, "features": vector})
        except Exception:
            found.set_exception(DataError("it is not an image in a format that can be read"))
        return found

    def close(self, timeout: float | None = None) -> None:
        self.closed = True


def square(colour: tuple[int, int, int]) -> bytes:
    """A PNG of one colour."""
    out = BytesIO()
    Image.new("RGB", (8, 8), colour).save(out, "PNG")
    return out.getvalue()
