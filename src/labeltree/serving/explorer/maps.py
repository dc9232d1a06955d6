"""The map's coordinates: computed once in the background, and kept beside the index."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from labeltree.atomic import atomic_write
from labeltree.errors import DataError, LabeltreeError
from labeltree.report.charts.disk import lay_out
from labeltree.report.charts.map_projection import principal_axes, project
from labeltree.serving.explorer.collection import Collection

__all__ = ["MAPS", "MapState", "Maps", "PlaneMap"]

Array = np.ndarray[Any, Any]
State = Literal["ready", "computing", "absent", "failed"]

MAPS = ("PCA", "t-SNE", "UMAP", "disk")
"""Names of the maps; `disk` is the Poincaré disk, of hyperbolic embeddings alone."""

_LANDMARKS = {
    "t-SNE": 4000,
    "UMAP": 10_000,
    "disk": 4000,
}  # samples that are laid out; the others follow them
_NEAREST = 5  # landmarks whose weighted mean is the place of another sample
_SEED = 0


@dataclass(frozen=True)
class PlaneMap:
    """Coordinates of all samples.

    Attributes:
        points: `(n, 2)` float32 in [−1, 1]; those of a disk inside the unit circle.
        note: How they were made, in words.
    """

    points: Array
    note: str


@dataclass(frozen=True)
class MapState:
    """Whether a map can be shown."""

    name: str
    state: State
    problem: str = ""


class Maps:
    """The maps of a collection.

    Args:
        collection: The samples.
        folder: Where coordinates are kept; None: nowhere.
        say: Is told what could not be done.
    """

    def __init__(
        self, collection: Collection, folder: Path | None, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._collection = collection
        self._folder = folder
        self._say = say
        self._maps: dict[str, PlaneMap] = {}
        self._problems: dict[str, str] = {}
        self._computing: set[str] = set()
        self._lock = threading.Lock()
        self._one = threading.Lock()  # a map at a time: they take all of a core
        self._pca = threading.Lock()  # but PCA, which is shown meanwhile, waits for none
        for name in self.names[1:]:
            kept = self._read_kept(name)
            if kept is not None:
                self._maps[name] = kept

    @property
    def names(self) -> list[str]:
        """The maps that these embeddings can have."""
        return [name for name in MAPS if name != "disk" or self._collection.geometry == "poincare"]

    @property
    def default(self) -> str:
        """The map to show first: the disk of hyperbolic embeddings, else t-SNE; PCA of few samples."""
        if self._collection.geometry == "poincare":
            return "disk"
        return "t-SNE" if len(self._collection) >= 30 else "PCA"

    def states(self) -> list[MapState]:
        """The state of every map."""
        with self._lock:
            return [self._state(name) for name in self.names]

    def start(self, name: str) -> MapState:
        """Compute a map in the background unless it is there, or begun.

        Raises:
            DataError: If there is no such map.
        """
        if name not in self.names:
            raise DataError(f"there is no map '{name[:50]}'; there is {', '.join(self.names)}")
        with self._lock:
            state = self._state(name)
            if state.state in ("ready", "computing"):
                return state
            self._computing.add(name)
            self._problems.pop(name, None)
        threading.Thread(target=self._compute, args=(name,), name=f"map {name}", daemon=True).start()
        return MapState(name, "computing")

    def get(self, name: str) -> PlaneMap | None:
        """A map; None while it is not ready. PCA is computed at once."""
        if name == "PCA" and name not in self._maps:
            with self._pca:
                if name not in self._maps:
                    self._maps[name] = compute_map(self._collection, name)
        return self._maps.get(name)

    def _state(self, name: str) -> MapState:
        if name in self._maps or name == "PCA":
            return MapState(name, "ready")
        if name in self._computing:
            return MapState(name, "computing")
        if name in self._problems:
            return MapState(name, "failed", self._problems[name])
        return MapState(name, "absent")

    def _compute(self, name: str) -> None:
        problem = ""
        if sys.platform == "linux":  # where a thread has a priority of its own: pages go first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
        try:
            with self._one:
                plane_map = compute_map(self._collection, name)
            with self._lock:
                self._maps[name] = plane_map
            self.keep(name, plane_map)
        except (LabeltreeError, ImportError, ValueError, ArithmeticError, MemoryError, OSError) as error:
            problem = str(error) or type(error).__name__
            self._say(f"the map {name} is not {'kept' if name in self._maps else 'there'}: {problem}")
        finally:
            with self._lock:
                self._computing.discard(name)
                if problem and name not in self._maps:
                    self._problems[name] = problem

    def _file(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        of = (self._collection.version, len(self._collection), self._collection.taxonomy.digest, _LANDMARKS)
        digest = hashlib.sha256(repr(of).encode()).hexdigest()[:12]
        return self._folder / f"{name.lower()}-{digest}.npz"

    def keep(self, name: str, plane_map: PlaneMap) -> None:
        """Write a map beside the index, in place of that of an earlier version."""
        file = self._file(name)
        if file is None:
            return
        with atomic_write(file) as temporary:
            np.savez(temporary, points=plane_map.points, note=np.array(plane_map.note))
        for old in file.parent.glob(f"{name.lower()}-????????????.npz"):
            if old != file:
                old.unlink(missing_ok=True)

    def _read_kept(self, name: str) -> PlaneMap | None:
        """The map as it was kept; None if there is none, or it is damaged."""
        file = self._file(name)
        if file is None or not file.is_file():
            return None
        try:
            with np.load(file, allow_pickle=False) as content:
                points, note = content["points"], str(content["note"])
        except Exception:
            return None
        fits = points.shape == (len(self._collection), 2) and points.dtype == np.float32
        return PlaneMap(points, note) if fits and bool(np.isfinite(points).all()) else None


def compute_map(collection: Collection, name: str) -> PlaneMap:
    """Coordinates of all samples.

    t-SNE, UMAP and the disk lay out some thousand samples, at equal steps in the order of the tree; every
    other one stands at the mean of the five of them nearest to it, weighted by nearness.

    Raises:
        ImportError: For UMAP without umap-learn.
    """
    count = len(collection)
    if name == "PCA" or (count < 30 and name != "disk"):
        return _pca(collection)
    rows = _landmarks(collection, _LANDMARKS[name])
    reading = collection.reading(rows)
    nodes = torch.from_numpy(np.asarray(collection.nodes[rows], np.int64))
    every = torch.arange(len(rows))
    if name == "disk":
        labelled = (nodes >= 0).nonzero().squeeze(1)
        if not len(labelled):
            return _pca(collection)
        disk = lay_out(reading, labelled, every, nodes, collection.taxonomy)
        points = disk.points
        note = (
            "Poincaré disk: distances from the centre are exact, angles fitted (correlation with the true "
            f"distances of nodes {disk.agreement:.2f})"
        )
    elif name == "UMAP":
        points, note = _umap(reading.vectors.numpy(), collection.geometry), "UMAP"
    else:
        points, note = project(reading, every, nodes, method="t-SNE", seed=_SEED).points, "t-SNE"
    if name != "disk":
        points = _fit_to_square(points)
        note += "; only neighbourhoods mean something, not axes or gaps"
    if len(rows) < count:
        points = _follow(collection, rows, points)
        note += (
            f". {len(rows):,} samples were laid out, the others stand between the {_NEAREST} nearest of them"
        )
    return PlaneMap(np.ascontiguousarray(points, np.float32), note)


def _pca(collection: Collection) -> PlaneMap:
    """Principal axes of at most 20,000 samples, on which all are laid."""
    count = len(collection)
    if not count:
        return PlaneMap(np.zeros((0, 2), np.float32), "no samples")
    some = _vectors(collection, np.linspace(0, count - 1, min(20_000, count)).round().astype(int))
    mean = some.mean(0)
    axes, values = principal_axes(_gram_root(some - mean))
    total = float((values**2).sum())
    share = float((values[:2] ** 2).sum()) / total if total else 1.0
    points = np.empty((count, 2))
    for start in range(0, count, 20_000):
        rows = np.arange(start, min(start + 20_000, count))
        points[rows] = (_vectors(collection, rows) - mean) @ axes.T
    note = f"PCA; the two axes hold {100 * share:.0f} % of the variance"
    return PlaneMap(_fit_to_square(points).astype(np.float32), note)


def _gram_root(centred: Array) -> Array:
    """A matrix `(d, d)` with the singular values and right vectors of a tall one `(n, d)`."""
    if len(centred) <= 2 * centred.shape[1]:
        return centred
    return np.asarray(np.linalg.qr(centred, mode="r"))


def _vectors(collection: Collection, rows: Array) -> Array:
    reading = collection.reading(rows)
    vectors = reading.vectors
    if collection.geometry == "sphere":
        vectors = torch.nn.functional.normalize(vectors, dim=1)
    return np.asarray(vectors.double().numpy())


def _landmarks(collection: Collection, most: int) -> Array:
    """Rows at equal steps in the order of the tree, so that every branch has its share."""
    order = np.argsort(collection.nodes, kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int)])


def _follow(collection: Collection, landmarks: Array, places: Array) -> Array:
    """Places of all samples, from those of the landmarks nearest to them."""
    base = collection.reading(landmarks)
    geometry, points = base.geometry, np.empty((len(collection), 2))
    for start in range(0, len(collection), 4096):
        rows = np.arange(start, min(start + 4096, len(collection)))
        near = geometry.pairwise_similarity(collection.reading(rows).points, base.points)
        values, which = near.topk(min(_NEAREST, len(landmarks)), dim=1)
        sharp = (values - values[:, :1]) / (values[:, :1] - values[:, -1:]).clamp(min=1e-12)
        weights = torch.softmax(3.0 * sharp.double(), dim=1).numpy()
        points[rows] = (weights[:, :, None] * places[which.numpy()]).sum(1)
    points[landmarks] = places
    return points


def _umap(vectors: Array, geometry: str) -> Array:
    try:
        from umap import UMAP  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            "the map UMAP needs umap-learn; install it with: pip install 'labeltree[umap]'"
        ) from error
    metric = "cosine" if geometry == "sphere" else "euclidean"
    return np.asarray(UMAP(metric=metric, random_state=_SEED, n_jobs=1).fit_transform(vectors), np.float64)


def _fit_to_square(points: Array) -> Array:
    """Moved and scaled into [−1, 1] by the 0.5 and 99.5 % quantiles; what lies beyond stands at the edge."""
    low, high = np.quantile(points, 0.005, axis=0), np.quantile(points, 0.995, axis=0)
    scale = float((high - low).max()) / 2 or 1.0
    return np.asarray(np.clip((points - (low + high) / 2) / scale / 1.05, -1.0, 1.0))
