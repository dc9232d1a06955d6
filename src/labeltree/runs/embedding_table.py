"""The embeddings table: a file format for the evaluation of any embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.geometry import Geometry, get_geometry
from labeltree.runs.aspects import aspect_names, aspects_from_text, check_aspects, text_of_aspects
from labeltree.runs.missing_columns import no_embeddings, no_group_column, no_labels
from labeltree.runs.parts import PartFolder
from labeltree.runs.table_file_columns import (
    as_floats,
    as_integers,
    as_texts,
    group_names,
    read_answers,
    read_columns,
    read_groups,
    read_nodes,
)
from labeltree.runs.usual_columns import name_as_usual
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["RAW_VECTORS", "STANDARDISED_VECTORS", "EmbeddingTable"]

RAW_VECTORS = "raw vectors"
"""What vectors are called that nothing was done to."""
STANDARDISED_VECTORS = "standardised vectors"
"""What vectors are called that were standardised by column, and nothing else."""

_OF_ONE = ("image_embeddings", "text_embeddings")
_INTEGERS = ("aspects", "aspect_predictions", "label_sets", "depth_predictions")  # columns of integers
_TENSORS = (
    *_OF_ONE,
    "features",
    "instances",
    "groups",
    "predictions",
    "depth_predictions",
    "aspects",
    "aspect_predictions",
    "label_sets",
)
_TEXTS = ("split", "paths", "group_names", "ids", "contents")
_KNOWN = frozenset((*_TENSORS, *_TEXTS)) | frozenset(
    (
        *("embeddings", "nodes", "labels", "splits", "sample"),
        *("geometry", "curvature", "aspect_taxonomies", "encoder_digest", "taxonomy_digest"),
    )
)
"""Columns of a file with a meaning of their own, in the plural; others of one text a row are attributes."""


@dataclass(frozen=True)
class EmbeddingTable:
    """Embeddings of samples with their labels, one sample per row.

    Attributes:
        embeddings: `(n, d)` float32, outputs of the head, points of `geometry`.
        nodes: `(n,)` int64 labels, nodes of a taxonomy, −1 where missing.
        split: `(n,)` array of str (`train`, `val`, `test`; `unseen` if the class was hidden from
            training), or None if the table has no splits.
        features: `(n, f)` float32, outputs of the encoder; None if there is only one representation.
        instances: `(n,)` int64 sample ids; default: row numbers.
        paths: `(n,)` array of str, path of each sample's image; None if unknown.
        predictions: `(n,)` int64 nodes predicted by the model, −1 where it made no prediction; None if the
            model has no classifier.
        depth_predictions: `(n, l)` int64 nodes that a model predicts separately at each depth, coarse → fine,
            the last being its `predictions`, −1 where it made none. None if these follow from `predictions`,
            or there are none.
        geometry: `sphere`, `euclidean` or `poincare`.
        curvature: Curvature of the Poincaré ball, below 0; not used by the other geometries.
        aspects: `(n, A)` int64 further labels of the same samples, nodes of each column's own taxonomy, −1
            where missing; None if there are no aspects.
        aspect_taxonomies: One taxonomy per column of `aspects`, saved with the table.
        aspect_names: Names of the aspects; default: the names of the taxonomies' roots, or `aspect 1` … if
            these are not informative.
        aspect_predictions: `(n, A)` int64 nodes predicted for each aspect, −1 where there is no prediction.
        groups: `(n,)` int64 group of each sample; samples of one group (such as a patient) are not
            independent; a sample with −1 is a group by itself. None if there are no groups.
        image_embeddings: `(n, d)` float32 embeddings of each sample's image alone, rows of NaN where it has
            none, if samples have images and texts and `embeddings` are of both; None otherwise.
        text_embeddings: `(n, d)` float32 embeddings of its text alone, likewise.
        group_names: `(n,)` array of str, name of each sample's group, empty for samples without a group;
            None if unknown.
        attributes: Further columns of the samples, such as the lesion or the hospital: name → `(n,)` array
            of str, empty where missing.
        label_sets: `(n, k)` int64 all labels of each sample, −1 where there is no further one, if samples
            have several; `nodes` then holds their common ancestor, the root if they have nothing else in
            common. None: each sample has one label.
        ids: `(n,)` array of str, unique name of each sample; None if unknown.
        contents: `(n,)` array of str, fingerprint of each sample that is named by its row, see
            `labeltree.data.corrections.sample_contents`; None if unknown.
        texts: Text of each sample, for people; None if they have none. They are not saved with it.
        taxonomy: Taxonomy of `nodes` of a table that `open_table` has opened; it is not saved with it.
        encoder_digest: Fingerprint of the weights that made the embeddings; empty if unknown.
        learned_features: Whether the encoder has learned from labels of these samples, None if that is not
            known; it is not saved.
        head_fits_labels: Whether a head has drawn the embeddings to the labels of these samples, of features
            that it does not change: the encoder was frozen, or the head was solved; it is not saved.
    """

    embeddings: Tensor
    nodes: Tensor
    split: np.ndarray[Any, Any] | None = None
    features: Tensor | None = None
    instances: Tensor | None = None
    paths: np.ndarray[Any, Any] | None = None
    geometry: str = "sphere"
    curvature: float = -1.0
    predictions: Tensor | None = None
    depth_predictions: Tensor | None = None
    aspects: Tensor | None = None
    aspect_taxonomies: tuple[Taxonomy, ...] = ()
    aspect_names: tuple[str, ...] = ()
    aspect_predictions: Tensor | None = None
    groups: Tensor | None = None
    group_names: np.ndarray[Any, Any] | None = None
    image_embeddings: Tensor | None = None
    text_embeddings: Tensor | None = None
    label_sets: Tensor | None = None
    attributes: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    ids: np.ndarray[Any, Any] | None = None
    contents: np.ndarray[Any, Any] | None = None
    texts: Sequence[str] | None = None
    taxonomy: AnyTaxonomy | None = None
    encoder_digest: str = ""
    learned_features: bool | None = None
    head_fits_labels: bool = False

    def __post_init__(self) -> None:
        if self.embeddings.ndim != 2 or not self.embeddings.is_floating_point():
            raise DataError(f"embeddings must be a float (n, d) array, got {_describe(self.embeddings)}")
        n = len(self.embeddings)
        for name in ("nodes", *_TENSORS, *_TEXTS):
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise DataError(
                    f"the table has {n} embeddings but {len(column)} {name}; they must be as many"
                )
        for name, texts in self.attributes.items():
            if len(texts) != n:
                raise DataError(f"the table has {n} embeddings but {len(texts)} entries in '{name}'")
            if name in _KNOWN:
                raise DataError(
                    f"'{name}' has a meaning of its own in a table; give the attribute another name"
                )
        for name in _OF_ONE:
            column = getattr(self, name)
            if column is not None and column.shape != self.embeddings.shape:
                raise DataError(
                    f"{name} must have the shape of embeddings, {tuple(self.embeddings.shape)}; it has "
                    f"{tuple(column.shape)}"
                )
        for name in ("label_sets", "depth_predictions"):
            column = getattr(self, name)
            if column is not None and column.ndim != 2:
                raise DataError(f"{name} must be integers, (n, k), got {_describe(column)}")
        if self.predictions is None:  # those of each depth belong to them
            object.__setattr__(self, "depth_predictions", None)
        self._check_aspects(n)
        sums_up = bool(self.embeddings.sum().isfinite())  # far faster than to look at each number
        if not sums_up and not bool(torch.isfinite(self.embeddings).all()):
            rows = (~torch.isfinite(self.embeddings)).any(1).nonzero()[:, 0].tolist()
            more = f", as do {len(rows) - 1} more of {n}" if len(rows) > 1 else ""
            raise DataError(f"embedding row {rows[0]} holds NaN or infinity{more}; leave such rows out")

    def _check_aspects(self, n: int) -> None:
        if self.aspects is None and (self.aspect_taxonomies or self.aspect_predictions is not None):
            raise DataError("the table has aspect_taxonomies or aspect_predictions but no aspects")
        for name in ("aspects", "aspect_predictions"):
            if getattr(self, name) is not None:
                check_aspects(name, getattr(self, name), n, self.aspect_taxonomies)
        names = aspect_names(self.aspect_taxonomies, self.aspect_names)
        object.__setattr__(self, "aspect_names", names)  # the table is frozen, its defaults are computed

    def __repr__(self) -> str:
        return _table_line(self)

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def tree(self) -> Taxonomy:
        """The tree of the labels.

        Raises:
            DataError: If it is unknown, or a DAG.
        """
        if not isinstance(self.taxonomy, Taxonomy):
            raise DataError("the tree of the table's labels is not known; name its file with --taxonomy")
        return self.taxonomy

    @property
    def names(self) -> list[str]:
        """A unique name of each sample: its id, else its path if paths are unique, else its instance."""
        if self.ids is not None:
            return [str(name) for name in self.ids.tolist()]
        paths = [] if self.paths is None else [str(path) for path in self.paths.tolist()]
        if paths and all(paths) and len(set(paths)) == len(paths):
            return paths
        numbers = range(len(self)) if self.instances is None else self.instances.tolist()
        return [str(number) for number in numbers]

    @property
    def vectors(self) -> Tensor:
        """What classifiers read: the features, or the embeddings of a table without features."""
        return self.embeddings if self.features is None else self.features

    @property
    def space(self) -> Geometry:
        """The geometry object of the embeddings."""
        return get_geometry(self.geometry, self.curvature)

    def rows(self, index: Tensor) -> EmbeddingTable:
        """Select rows by `index`: `(m,)` int64 positions or `(n,)` bool mask."""
        where = index.nonzero().squeeze(1) if index.dtype == torch.bool else index
        picked: dict[str, Any] = {}
        for name in ("embeddings", "nodes", *_TENSORS):
            column = getattr(self, name)
            picked[name] = None if column is None else column[where]
        for name in _TEXTS:
            array = getattr(self, name)
            picked[name] = None if array is None else array[where.numpy()]
        picked["texts"] = None if self.texts is None else [self.texts[row] for row in where.tolist()]
        picked["attributes"] = {name: texts[where.numpy()] for name, texts in self.attributes.items()}
        return replace(self, **picked)

    def relabelled(self, nodes: Tensor) -> EmbeddingTable:
        """The same samples with labels `(n,)`; one with another label than before has this one alone."""
        sets = self.label_sets
        if sets is not None:
            alone = torch.cat([nodes[:, None], sets.new_full(sets[:, 1:].shape, -1)], 1)
            sets = torch.where((nodes != self.nodes)[:, None], alone, sets)
        return replace(self, nodes=nodes, label_sets=sets)

    def one_label_a_row(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows `(m,)` with one label each: rows `(p,)`, repeated for each of several labels; labels."""
        if self.label_sets is None:
            return rows, self.nodes[rows]
        sets = self.label_sets[rows]
        given = sets >= 0
        given[:, 0] |= ~given.any(1)
        return rows[given.nonzero()[:, 0]], sets[given]

    @property
    def several(self) -> Tensor:
        """Whether samples have several labels, `(n,)` bool."""
        if self.label_sets is None:
            return torch.zeros(len(self), dtype=torch.bool)
        return (self.label_sets >= 0).sum(1) > 1

    def select(self, split: str) -> EmbeddingTable:
        """The rows of one split; an error if there are none."""
        if self.split is None:
            raise DataError("this embeddings table has no splits")
        mask = torch.from_numpy(np.asarray(self.split == split))
        if not bool(mask.any()):
            known = sorted(set(self.split.tolist()))
            raise DataError(f"the embeddings table has no rows of split '{split}'; it has {known}")
        return self.rows(mask)

    @property
    def tells_groups(self) -> bool:
        """Whether there are groups other than those of copies, which have no name where others have."""
        return self.groups is not None and (self.group_names is None or bool((self.group_names != "").any()))

    def units(self, column: str) -> Tensor:
        """The samples that are judged together, `(n,)` int64; −1 for a sample by itself.

        Args:
            column: `group`, or the name of an attribute: samples of one group with the same value, as lesion
                1 of one patient is not that of another. Names tell groups: `groups` joins who share a file.

        Raises:
            DataError: If there is no such column; or the table has splits and the values are above its
                groups: a hospital of many patients, or a patient whose lesions are the groups.
        """
        if column == "group":
            if self.groups is None:
                raise DataError(
                    "the table has no groups to judge by; give it a column 'groups' (patient, lesion), or "
                    "name one in training, --table.group_column"
                )
            return self.groups if self.group_names is None else _named_groups(self.groups, self.group_names)
        values = self.attribute(column)
        given = np.asarray(values != "")
        codes = np.unique(values, return_inverse=True)[1].reshape(-1)
        groups = np.full(len(codes), -1) if self.groups is None else self.groups.numpy()
        if self.group_names is not None:  # groups without a name are copies of one sample
            groups = np.unique(self.group_names, return_inverse=True)[1].reshape(-1)
            groups[self.group_names == ""] = -1
        if self.split is not None and _lie_above(codes[given], groups[given]):
            raise DataError(
                f"every group lies within one '{column}', so it cannot be judged by: other samples of the "
                f"same '{column}' may have been trained on. Train with --table.group_column {column}"
            )
        units = np.unique(np.stack([groups, codes]), axis=1, return_inverse=True)[1].reshape(-1)
        return torch.from_numpy(np.where(given, units, -1))

    def attribute(self, name: str) -> np.ndarray[Any, Any]:
        """The values `(n,)` str of an attribute, empty where missing.

        Raises:
            DataError: If there is no such attribute.
        """
        if name not in self.attributes:
            known = f"it has {', '.join(sorted(self.attributes))}" if self.attributes else "it has none"
            raise DataError(
                f"the table has no attribute '{name}'; {known}. Name columns of the data to keep in "
                f"training, --table.keep_columns {name}"
            )
        return self.attributes[name]

    def aspect(self, number: int) -> EmbeddingTable:
        """The same samples with the labels and predictions of one aspect, nodes of the aspect's taxonomy."""
        if self.aspects is None or not 0 <= number < len(self.aspect_names):
            raise DataError(f"there is no aspect {number}: the table has {len(self.aspect_names)} aspects")
        answers = self.aspect_predictions
        return replace(
            self,
            nodes=self.aspects[:, number],
            predictions=None if answers is None else answers[:, number],
            depth_predictions=None,
            aspects=None,
            aspect_taxonomies=(),
            aspect_names=(),
            aspect_predictions=None,
            label_sets=None,
        )

    def save(self, path: str | Path, taxonomy: AnyTaxonomy | None = None) -> None:
        """Write the table atomically as `.npz` or `.parquet`, depending on the suffix.

        Args:
            path: The file.
            taxonomy: The taxonomy of `nodes`; its digest is noted, so that `load` refuses to read their
                numbers as nodes of another one.
        """
        path = Path(path)
        columns: dict[str, Any] = {"embeddings": self.embeddings.numpy(), "nodes": self.nodes.numpy()}
        for name in (*_TENSORS, *_TEXTS):
            column = getattr(self, name)
            if column is not None:
                columns[name] = (
                    column.numpy() if isinstance(column, Tensor) else np.asarray(column, dtype=str)
                )
        columns |= {name: np.asarray(texts, dtype=str) for name, texts in self.attributes.items()}
        note: dict[str, Any] = {"geometry": self.geometry, "curvature": self.curvature}
        if self.aspects is not None:
            note["aspect_taxonomies"] = text_of_aspects(self.aspect_names, self.aspect_taxonomies)
        if self.encoder_digest:
            note["encoder_digest"] = self.encoder_digest
        if taxonomy is not None:
            note["taxonomy_digest"] = taxonomy.digest
        with atomic_write(path) as temporary:
            if path.suffix == ".npz":
                np.savez(temporary, **note, **columns)
            elif path.suffix == ".parquet":
                _save_parquet(temporary, columns, {key: str(value) for key, value in note.items()})
            else:
                raise DataError(f"cannot write embeddings to '{path}': use .npz or .parquet")

    @classmethod
    def load(
        cls,
        path: str | Path,
        taxonomy: AnyTaxonomy | None = None,
        *,
        by_name: bool = False,
        group_column: str | None = None,
    ) -> EmbeddingTable:
        """Read a table, written by labeltree or by any other program.

        Required are `embeddings` (n, d) and either `nodes` (int64 node ids of the taxonomy) or `labels`
        (names or `a/b/c` paths, empty = missing; needs `taxonomy`). Optional: `split`, `features`,
        `instances`, `groups` (numbers or names), `paths`, `predictions` (nodes or labels predicted by
        the model), `depth_predictions` (n, l), `geometry`, `curvature`; `label_sets` (n, k); any other
        column of one text or number a row becomes one of the `attributes`; `aspects` (n, A) and
        `aspect_predictions` (n, A), which need the `aspect_taxonomies` that `save` writes. The singular of
        each name is accepted too, and so are the usual names of vectors and labels; see `name_as_usual`.

        Args:
            path: An `.npz`, `.parquet` or `.csv` file whose embeddings are an array, a column of lists of
                numbers, or columns of numbers `f0`, `f1` …; or the folder that `labeltree embed --out
                FOLDER/` writes. Rows without embeddings are left out.
            taxonomy: Taxonomy to convert `labels` to nodes and to check nodes against.
            by_name: Whether labels and predictions must be names, because the numbers of nodes may be others
                than those of `taxonomy`.
            group_column: The column to take the groups from, such as `patient`; None = `groups`.

        Raises:
            DataError: If the file is missing, unreadable or lacks a column, or holds numbers of nodes where
                names are needed, or numbers that were written with another taxonomy.
            TaxonomyError: If a label is not in the taxonomy.
        """
        path = Path(path)
        parts = PartFolder(path)
        if not path.is_file() and not parts.exists():
            raise DataError(f"no embeddings at '{path}'")
        given = parts.read_columns() if parts.exists() else read_columns(path)
        raw = name_as_usual(given)
        if group_column is not None:
            if np.asarray(raw.get(group_column)).ndim != 1:
                raise no_group_column(path, given, group_column)
            raw["groups"] = raw[group_column]
            raw.pop("group_names", None)  # those of the column `groups`
        _add_plurals(raw)
        if by_name:
            _require_names(path, raw)
        elif taxonomy is not None:
            _check_digest(path, raw, taxonomy)
        if "embeddings" not in raw:
            raise no_embeddings(path, given)
        if "nodes" not in raw and "labels" not in raw:
            raise no_labels(path, given, taxonomy)
        _check_rows(path, raw)
        text = {k: as_texts(path, k, raw[k]) for k in _TEXTS if k in raw}
        further: dict[str, Any]
        further = {k: as_integers(path, k, raw[k], columns=True) for k in _INTEGERS if k in raw}
        attributes = {
            name: as_texts(path, name, column)
            for name, column in raw.items()
            if name not in _KNOWN and name + "s" not in _KNOWN and _one_a_row(column, raw["embeddings"])
        }
        names, taxonomies = aspects_from_text(path, str(raw.get("aspect_taxonomies", "[]")))
        further |= {name: as_floats(path, name, raw[name]) for name in _OF_ONE if name in raw}
        embeddings = as_floats(path, "embeddings", raw["embeddings"])
        features = as_floats(path, "features", raw["features"]) if "features" in raw else None
        if features is not None and torch.equal(features, embeddings):  # as raw pixels, held once
            features = embeddings
        return cls(
            embeddings=embeddings,
            nodes=read_nodes(path, raw, taxonomy),
            split=text.get("split"),
            features=features,
            instances=as_integers(path, "instances", raw["instances"]) if "instances" in raw else None,
            groups=read_groups(path, raw["groups"]) if "groups" in raw else None,
            group_names=group_names(path, raw.get("groups"))
            if "group_names" not in raw
            else text["group_names"],
            paths=text.get("paths"),
            ids=text.get("ids"),
            contents=text.get("contents"),
            taxonomy=None,
            geometry=str(raw.get("geometry", "sphere")),
            curvature=_curvature(path, raw.get("curvature", -1.0)),
            predictions=read_answers(path, raw, taxonomy),
            aspect_taxonomies=taxonomies,
            aspect_names=names,
            attributes=attributes,
            encoder_digest=str(raw.get("encoder_digest", "")),
            **further,
        )


def _add_plurals(raw: dict[str, Any]) -> None:
    """Add the columns that have their names in the singular, and the paths of samples that are called so."""
    if "sample" in raw:
        raw.setdefault("paths", raw["sample"])
    for plural in ("embeddings", "nodes", "labels", "splits", "paths", "ids", *_TENSORS):
        singular = plural.removesuffix("s")
        name = "split" if plural == "splits" else plural
        if name not in raw:
            alias = next((a for a in (singular, plural) if a in raw), None)
            if alias is not None:
                raw[name] = raw[alias]


def _table_line(table: EmbeddingTable) -> str:
    """How many samples there are, of which kind, and what else is known of them."""
    said = [f"{len(table):,} samples", f"{table.embeddings.shape[1]}-d {table.geometry}"]
    if table.features is not None:
        said.append(f"{table.features.shape[1]}-d features")
    if table.split is not None:
        names, counts = np.unique(table.split, return_counts=True)
        said += [f"{name or 'no split'} {count:,}" for name, count in zip(names, counts, strict=True)]
    if table.groups is not None:
        said.append(f"{len(np.unique(table.groups[table.groups >= 0])):,} groups")
    return f"EmbeddingTable({', '.join([*said, *table.attributes])})"


def _save_parquet(path: Path, columns: dict[str, Any], note: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for name, column in columns.items():
        if column.ndim == 2:
            arrays[name] = pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])
        else:
            arrays[name] = pa.array(column)
    table = pa.table(arrays)
    pq.write_table(table.replace_schema_metadata(note), path)


def _named_groups(groups: Tensor, names: np.ndarray[Any, Any]) -> Tensor:
    """Number `(n,)` of each sample's group by its name, or of copies without one; −1 for the others."""
    codes = torch.from_numpy(np.unique(names, return_inverse=True)[1].reshape(-1))
    unnamed = torch.from_numpy(names == "")
    return torch.where(unnamed, torch.where(groups < 0, -1, groups + len(codes)), codes)


def _lie_above(codes: np.ndarray[Any, Any], groups: np.ndarray[Any, Any]) -> bool:
    """Whether every group has one code, and some code has several groups."""
    pairs = np.unique(np.stack([groups, codes])[:, groups >= 0], axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1] > len(np.unique(pairs[1])))


def _one_a_row(column: Any, embeddings: Any) -> bool:
    """Whether a column has a text or a number for each row."""
    array = np.asarray(column)
    if array.shape != np.asarray(embeddings).shape[:1] or array.dtype.kind not in "UOiufb":
        return False
    return array.dtype.kind != "O" or all(
        value is None or isinstance(value, str | int | float) for value in array.tolist()
    )


def _check_rows(path: Path, raw: Mapping[str, Any]) -> None:
    """Raise a `DataError` if there are more or fewer labels than embeddings."""
    name = "nodes" if "nodes" in raw else "labels"
    shape, labels = np.asarray(raw["embeddings"]).shape, np.asarray(raw[name]).shape
    if len(shape) == 2 and len(labels) == 1 and shape[0] != labels[0]:
        turned = shape[1] == labels[0]
        say = "write embeddings.T: a row is a sample" if turned else "there must be as many"
        raise DataError(f"'{path}' has {shape[0]} embeddings but {labels[0]} {name}; {say}")


def _require_names(path: Path, raw: dict[str, Any]) -> None:
    """Leave numbers of nodes aside where there are names, or raise a `DataError`."""
    if "labels" in raw:
        raw.pop("nodes", None)
    raw.pop("depth_predictions", None)
    numbers = [
        name
        for name in ("nodes", "predictions")
        if name in raw and np.asarray(raw[name]).dtype.kind not in "UO"
    ]
    if numbers:
        raise DataError(
            f"'{path}' gives {' and '.join(numbers)} as numbers, which only the taxonomy that they were "
            f"written with explains: put it beside, as '{path.with_suffix('.taxonomy.json').name}', or write "
            "names instead"
        )


def _check_digest(path: Path, raw: Mapping[str, Any], taxonomy: AnyTaxonomy) -> None:
    """Raise a `DataError` if numbers of nodes were written with another taxonomy than this."""
    noted = str(raw.get("taxonomy_digest", ""))
    if noted and noted != taxonomy.digest and "nodes" in raw:
        beside = path.with_suffix(".taxonomy.json").name
        raise DataError(
            f"the numbers of nodes in '{path}' were written with another taxonomy (digest {noted[:16]}) than "
            f"this one (digest {taxonomy.digest[:16]}), where they may mean other classes; put that taxonomy "
            f"beside the file, as '{beside}', or give labels by name, in a column 'labels'"
        )


def _curvature(path: Path, given: Any) -> float:
    try:
        return float(str(given))
    except ValueError as error:
        raise DataError(f"'curvature' in '{path}' is not a number") from error


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
