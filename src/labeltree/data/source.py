"""A source: samples of any data set as images, texts or vectors, with labels, ids, groups and splits."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from labeltree.data.unused_rows import UnusedRows
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.notebooks import html_sentences
from labeltree.preprocessing import ImageLook, Preprocessing
from labeltree.split_names import CALIB, SPLITS, UNSEEN
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import moved_nodes
from labeltree.taxonomy.label_sets import common_ancestors, distinct_labels
from labeltree.taxonomy.versions.label_reader import LabelReader

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "DIGEST_BYTES",
    "ImageStore",
    "Modality",
    "Source",
    "TableRows",
    "bytes_digest",
    "combined_digests",
    "digest_set",
    "file_digest",
    "have_digest",
    "plain_text",
    "printable",
    "text_begin",
]

Array = np.ndarray[Any, Any]

Modality = Literal["image", "text", "vector"]
DIGEST_BYTES = 16
"""Length of a content digest: the first half of a SHA-256, enough to rule out collisions by chance."""
_DIGESTED_AT_ONCE = 1024
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # controls, changes of direction


def printable(path: str) -> str:
    """Make a path printable: bytes that are not UTF-8, and what a terminal would obey, become escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def text_begin(text: str, width: int = 40) -> str:
    """The beginning of a text, printable and on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


class ImageStore(Protocol):
    """A store of images: in memory, in a mapped file, or as files that are decoded on demand."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`(c, h, w)` of every image."""

    def __len__(self) -> int: ...

    def load(self, rows: Tensor) -> Tensor:
        """Images `(n, c, h, w)`, uint8, of the rows `(n,)`."""


@dataclass(frozen=True)
class TableRows:
    """In which rows of their table samples stand.

    Attributes:
        per_row: The most samples that a row can have.
        first: First row of each sample `(n,)`, if one can have several rows.
    """

    per_row: int = 1
    first: Array | None = None

    def find(self, instances: Array) -> Array:
        """The row, from 0, of each of the samples with ids `(m,)`."""
        rows = instances // self.per_row
        return rows if self.first is None else self.first[rows]


@dataclass(frozen=True, eq=False)
class Source:
    """Samples of a data set.

    Attributes:
        name: Name of the data set.
        taxonomy: Taxonomy of the labels.
        nodes: Label of each sample, `(n,)` int64: a leaf, an inner node, or -1 where it is missing.
        instances: Stable ids `(n,)` int64: positions in the whole data set, which subsets keep.
        store: The images; None if there are none.
        rows: Row of each sample in the store, in the texts or in the vectors, `(n,)` int64.
        groups: Group of each sample `(n,)` int64. Samples of one group stay on one side of every split; a
            sample with -1 is a group by itself.
        label_sets: All labels `(n, k)` int64 of each sample, none above another, -1 where there is no
            further one; `nodes` holds their common ancestor, which is the root, 0, if they share nothing
            else. A sample whose entry in `nodes` is another one has been relabelled: that is its only
            label. None if no sample has several labels.
        group_names: Name in the data of each sample's group (such as a patient's number), `(n,)` str, empty
            for samples without a group; None if the data have no names.
        attributes: Further columns that are kept with the samples, such as the lesion or the hospital: name →
            `(n,)` str, empty where missing. Results can be broken down by them, samples judged together.
        split: Split of each sample: `train`, `val` or `test`; `unseen` if its class is hidden from
            training; an empty string if it is in no split. None if there are no splits yet.
        files: File of each row of the store, if there are files.
        names: Name of each row within the data set, independent of the location of the data: the file
            relative to the data folder, or the place of the row in its table, such as `line 7`; None if
            samples have only ids.
        digests: Digest of the content of each row of the store, `(rows, 16)` uint8; None = computed from
            the pixels.
        texts: Text of each row; None if there are none. A source has images, texts or both. Where it has
            both, an empty text is a missing one, and the store says which images are missing
            (`labeltree.data.images.stores.SomeImages`).
        columns: For a table: which of its columns were read as `images`, `texts`, `labels`, `groups`,
            `split`, `aspects` and `kept`.
        missing_labels: Names of classes that stand for missing labels, and how many samples lost their
            label, or the finer part of it, to each.
        notes: Sentences about decisions made when the data were read, and about alternatives.
        unused: The rows that are not used, have no label, or a coarser one than they say, with the reasons:
            rows of a table; else samples by number, in the order of the data set.
        unread: Samples of the whole data set that were left out because they cannot be read: the id that
            each would have → its name (file, or row) and the reason.
        unread_units: Of these, by the same ids, the name of the group, empty without one, and the attributes.
        aspect_taxonomies: Taxonomies of the A aspects, further labels of the same samples (for MLCL).
        aspects: Labels of the aspects `(n, A)` int64, nodes of the aspect's taxonomy, -1 where missing;
            None if there are no aspects.
        ratings: Ordinal ratings `(n, R)` int64, by which the similarity of samples is measured, -1 where
            missing: one per aspect, or others, such as 0 and 1 for the tags of a sample; None if there are
            none.
        look: What the images are like, if they are files whose size was not given.
        vectors: The vectors, which exclude images and texts; None if there are none.
        table_rows: In which rows of a table the samples stand; None if they are not those of a table.
        own_splits: Splits that the data themselves give, and no share changes.
        label_reader: Reads a label of a table of corrections as those of the data were read; None = by the
            taxonomy, see `read_labels`.
    """

    name: str
    taxonomy: Taxonomy
    nodes: Tensor
    instances: Tensor
    store: ImageStore | None
    rows: Tensor
    groups: Tensor | None = None
    split: Array | None = None
    files: Sequence[str] | None = None
    aspect_taxonomies: tuple[Taxonomy, ...] = ()
    aspects: Tensor | None = None
    ratings: Tensor | None = None
    texts: Sequence[str] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing_labels: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unused: UnusedRows | None = None
    group_names: Array | None = None
    attributes: Mapping[str, Array] = field(default_factory=dict)
    names: Sequence[str] | None = None
    digests: Array | None = None
    label_sets: Tensor | None = None
    unread: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    unread_units: Mapping[int, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    look: ImageLook | None = None
    vectors: VectorStore | None = None
    table_rows: TableRows | None = None
    own_splits: frozenset[str] = frozenset()
    label_reader: LabelReader | None = None

    @classmethod
    def in_order(
        cls, name: str, taxonomy: Taxonomy, nodes: Tensor, *, store: ImageStore | None = None, **columns: Any
    ) -> Source:
        """Make a whole data set whose sample i has row i and id i.

        Args:
            name: Name of the data set.
            taxonomy: Taxonomy of the labels.
            nodes: Labels `(n,)`.
            store: The images.
            **columns: Further attributes.
        """
        rows = torch.arange(len(nodes))
        return cls(name, taxonomy, nodes, instances=rows, store=store, rows=rows, **columns)

    def __post_init__(self) -> None:
        n = len(self.nodes)
        if self.store is None and self.texts is None and self.vectors is None:
            raise DataError(f"source '{self.name}' has neither images nor texts nor vectors")
        for column in ("instances", "rows", "groups", "group_names", "split", "aspects", "ratings"):
            values = getattr(self, column)
            if values is not None and len(values) != n:
                raise DataError(f"source '{self.name}': {column} has {len(values)} entries for {n} samples")
        for column, values in self.attributes.items():
            if len(values) != n:
                raise DataError(
                    f"source '{self.name}': attribute '{column}' has {len(values)} entries for {n} samples"
                )
        self._check_nodes("nodes", self.nodes, self.taxonomy)
        self._check_aspects()
        if self.label_sets is not None:
            self._check_label_sets(self.label_sets)

    def _check_label_sets(self, label_sets: Tensor) -> None:
        if label_sets.ndim != 2 or len(label_sets) != len(self):
            raise DataError(
                f"source '{self.name}': label_sets has shape {tuple(label_sets.shape)}, expected "
                f"({len(self)}, k): a row of labels for each sample"
            )
        self._check_nodes("label_sets", label_sets, self.taxonomy)
        relabelled = common_ancestors(label_sets, self.taxonomy) != self.nodes
        own = torch.cat([self.nodes[:, None], label_sets.new_full(label_sets[:, 1:].shape, -1)], 1)
        kept = torch.where(relabelled[:, None], own, label_sets)
        several = kept.shape[1] > 1 and bool((kept[:, 1] >= 0).any())
        object.__setattr__(self, "label_sets", kept if several else None)  # follows from the columns given

    def _check_nodes(self, what: str, nodes: Tensor, taxonomy: Taxonomy) -> None:
        if len(nodes) and not (int(nodes.min()) >= -1 and int(nodes.max()) < taxonomy.num_nodes):
            raise DataError(
                f"source '{self.name}': {what} run from {int(nodes.min())} to {int(nodes.max())}, "
                f"but the taxonomy has {taxonomy.num_nodes} nodes"
            )

    def _check_aspects(self) -> None:
        width = len(self.aspect_taxonomies)
        if (self.aspects is None) != (width == 0):
            raise DataError(
                f"source '{self.name}' has {width} aspect_taxonomies but {'no' if width else 'some'} aspects"
            )
        if self.aspects is not None:
            if self.aspects.shape != (len(self), width):
                raise DataError(
                    f"source '{self.name}': aspects has shape {tuple(self.aspects.shape)}, expected "
                    f"{(len(self), width)}: a column for each of {width} aspect_taxonomies"
                )
            for number, taxonomy in enumerate(self.aspect_taxonomies):
                self._check_nodes(f"aspects[:, {number}]", self.aspects[:, number], taxonomy)
        if self.ratings is not None and self.ratings.ndim != 2:
            raise DataError(
                f"source '{self.name}': ratings has shape {tuple(self.ratings.shape)}, expected a column each"
            )
        if self.ratings is not None and self.ratings.numel() and int(self.ratings.min()) < -1:
            raise DataError(
                f"source '{self.name}': ratings hold {int(self.ratings.min())}, expected 0 or more, or -1 "
                "where one is missing"
            )

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        what = " and ".join(
            f"image_shape={self.image_shape}" if kind == "image" else f"{kind}s" for kind in self.modalities
        )
        return f"Source({self.name!r}, {len(self)} samples, {what}, {self.taxonomy!r})"

    def _repr_html_(self) -> str:
        return str(html_sentences([repr(self), *self.notes])) + self.taxonomy._repr_html_()

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """The modalities of every sample: `image`, `text` or both, or `vector`."""
        by_kind: dict[Modality, Any] = {"image": self.store, "text": self.texts, "vector": self.vectors}
        return tuple(kind for kind, samples in by_kind.items() if samples is not None)

    def present(self, rows: Tensor) -> Tensor:
        """Whether rows `(n,)` of the store and the texts hold an image, and a text: `(n, 2)` bool."""
        present = torch.zeros(len(rows), 2, dtype=torch.bool)
        if self.store is not None:
            there = getattr(self.store, "there", None)
            present[:, 0] = True if there is None else there[rows]
        if self.texts is not None:
            present[:, 1] = torch.tensor([bool(self.texts[row].strip()) for row in rows.tolist()])
        return present

    @property
    def every_label(self) -> Tensor:
        """The labels of all samples `(m,)`, all of those that have several; -1 where one has none."""
        sets = self.label_sets
        if sets is None:
            return self.nodes
        return torch.cat([sets[:, 0], sets[:, 1:][sets[:, 1:] >= 0]])

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`(c, h, w)` of every image.

        Raises:
            DataError: If the samples have no images.
        """
        return self._images.image_shape

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How the images were cut out of their files; None = the largest centred square, or not at all."""
        return getattr(self._images, "preprocessing", None)

    def load(self, indices: Tensor | Sequence[int]) -> Tensor:
        """Images `(b, c, h, w)`, uint8, of the samples `indices`.

        Raises:
            DataError: If the samples have no images, or a file has become unreadable since the source was
                opened.
        """
        return self._images.load(self.rows[torch.as_tensor(indices, dtype=torch.int64)])

    def read(self, indices: Tensor | Sequence[int]) -> list[str]:
        """Texts of the samples `indices`.

        Raises:
            DataError: If the samples have no texts.
        """
        if self.texts is None:
            raise DataError(f"source '{self.name}' has {self.modalities[0]}s, no texts")
        rows = self.rows[torch.as_tensor(indices, dtype=torch.int64)]
        return [self.texts[row] for row in rows.tolist()]

    @property
    def _images(self) -> ImageStore:
        if self.store is None:
            raise DataError(f"source '{self.name}' has {self.modalities[0]}s, no images")
        return self.store

    def paths(self, indices: Tensor | Sequence[int]) -> list[str]:
        """Files of the samples `indices`, printable; an empty list where the images are not files."""
        if self.files is None:
            return []
        rows = self.rows[torch.as_tensor(indices, dtype=torch.int64)]
        return [printable(self.files[row]) for row in rows.tolist()]

    def sample_names(self) -> list[str]:
        """The printable name of each sample within the data set; samples of one file share a name."""
        if self.names is None:
            return [f"sample {instance}" for instance in self.instances.tolist()]
        return [printable(self.names[row]) for row in self.rows.tolist()]

    def sample_digests(self) -> Array:
        """Digests of the content of each sample, its image and its text, `(n, 16)` uint8.

        For an image file, this is the digest of the file's bytes, computed when it was decoded.
        """
        return self.row_digests(self.rows)

    def copy_digests(self) -> Array:
        """Digests `(n, k, 16)` uint8 by which copies are known: two samples are copies if they share one.

        These are `sample_digests`, and with texts those of the texts without case and blanks, the last.
        """
        forms = (str,) if self.texts is None else (str, plain_text)
        return np.stack(self._digests_by_form(self.rows, forms), axis=1)

    def row_digests(self, rows: Tensor) -> Array:
        """Digests `(m, 16)` uint8 of the content of rows `(m,)` of the store and the texts.

        See `sample_digests`.
        """
        return self._digests_by_form(rows, (str,))[0]

    def _digests_by_form(self, rows: Tensor, forms: Sequence[Callable[[str], str]]) -> list[Array]:
        """The digests `(m, 16)` of rows, with the texts in each form; once if there are no texts."""
        if self.vectors is not None:
            known = self.vectors.digests() if self.digests is None else self.digests
            return [known[rows.numpy()]] * len(forms)
        images = None
        if self.store is not None:
            once, places = rows.unique(return_inverse=True)  # type: ignore[no-untyped-call]
            images = self._image_digests(once)[places.numpy()]
        texts = self.texts
        if texts is None:
            assert images is not None
            return [images]
        of_texts = [_text_digests(form(texts[row]) for row in rows.tolist()) for form in forms]
        return of_texts if images is None else [combined_digests(images, each) for each in of_texts]

    def _image_digests(self, rows: Tensor) -> Array:
        if self.digests is not None:
            chosen: Array = self.digests[rows.numpy()]
            return chosen
        # Resized pixels are computed, and may differ in their last bit on another processor.
        store: ImageStore = getattr(self._images, "original", self._images)
        parts = [_row_digests(store.load(part).numpy()) for part in torch.split(rows, _DIGESTED_AT_ONCE)]
        return np.concatenate([np.zeros((0, DIGEST_BYTES), np.uint8), *parts])

    def subset(self, indices: Tensor | Sequence[int]) -> Source:
        """The samples `indices`, in this order, with the same ids and taxonomy."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        return dataclasses.replace(
            self,
            nodes=self.nodes[index],
            instances=self.instances[index],
            rows=self.rows[index],
            groups=None if self.groups is None else self.groups[index],
            group_names=None if self.group_names is None else self.group_names[index.numpy()],
            attributes={name: column[index.numpy()] for name, column in self.attributes.items()},
            split=None if self.split is None else self.split[index.numpy()],
            aspects=None if self.aspects is None else self.aspects[index],
            ratings=None if self.ratings is None else self.ratings[index],
            label_sets=None if self.label_sets is None else self.label_sets[index],
        )

    def units_by_id(self, indices: Tensor | Sequence[int]) -> dict[int, tuple[str, dict[str, str]]]:
        """The name of the group, empty without one, and the attributes of the samples `indices`, by id."""
        names, kept = self.group_names, self.attributes.items()
        return {
            int(self.instances[row]): (
                "" if names is None else str(names[row]),
                {name: str(values[row]) for name, values in kept},
            )
            for row in torch.as_tensor(indices, dtype=torch.int64).tolist()
        }

    @property
    def read_labels(self) -> LabelReader:
        """Reads labels that a person writes about the samples, as those of the data were read."""
        return self.label_reader or LabelReader(self.taxonomy)

    def on_taxonomy(self, taxonomy: Taxonomy, nodes: Tensor, places: Tensor) -> Source:
        """The same samples with labels of another taxonomy.

        Args:
            taxonomy: The other taxonomy.
            nodes: Their labels there `(n,)`; of a sample with several labels, these are moved instead.
            places: `(N,)` the node there of each node of the present taxonomy, -1 where there is none.
        """
        sets = self.label_sets
        if sets is not None:
            several = (sets >= 0).sum(1) > 1
            sets = distinct_labels(moved_nodes(sets, places), taxonomy)
            nodes = torch.where(several, common_ancestors(sets, taxonomy), nodes)
        return dataclasses.replace(
            self,
            taxonomy=taxonomy,
            nodes=nodes,
            label_sets=sets,
            label_reader=self.read_labels.then(places),
        )

    def with_split(self, split: Sequence[str] | Array) -> Source:
        """The same samples with another split."""
        return dataclasses.replace(self, split=np.asarray(split, dtype=str))

    def of_split(self, split: str) -> Source:
        """The samples of one split.

        Raises:
            DataError: If there are no splits, or none of this name.
        """
        if self.split is None:
            raise DataError(f"source '{self.name}' has no splits yet; make_splits(source) makes them")
        if split not in (*SPLITS, CALIB, UNSEEN):
            raise DataError(f"split is '{split}'; it must be one of {', '.join((*SPLITS, CALIB, UNSEEN))}")
        return self.subset(torch.from_numpy(np.flatnonzero(self.split == split)))


def plain_text(text: str) -> str:
    """The form in which texts are compared: without case, and with single blanks.

    Example:
        >>> plain_text(" A red\tCap ")
        'a red cap'
    """
    return " ".join(text.casefold().split())


def digest_set(digests: Array) -> set[bytes]:
    """The digests `(..., 16)` as bytes."""
    return {row.tobytes() for row in digests.reshape(-1, digests.shape[-1])}


def have_digest(digests: Array, known: Collection[bytes]) -> Array:
    """Which samples `(n,)` bool have one of their digests `(n, k, 16)` among those known."""
    return np.array([any(each.tobytes() in known for each in row) for row in digests], dtype=bool)


def file_digest(path: str | Path) -> bytes:
    """The digest of a file's bytes; zeros if unreadable or not a regular file (a pipe would block)."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return bytes(DIGEST_BYTES)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()[:DIGEST_BYTES]
    except (OSError, ValueError):  # the name may not be a valid path
        return bytes(DIGEST_BYTES)


def bytes_digest(content: bytes) -> bytes:
    """The digest of a file's content, as `file_digest` gives it."""
    return hashlib.sha256(content).digest()[:DIGEST_BYTES]


def _row_digests(array: Array) -> Array:
    """The digest of each row of an array `(n, ...)` of bytes: `(n, 16)` uint8."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    return _stack(hashlib.sha256(row.data).digest() for row in rows.view(np.uint8))


def _text_digests(texts: Iterable[str]) -> Array:
    """The digest of each text: `(n, 16)` uint8."""
    return _stack(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)


def combined_digests(first: Array, second: Array) -> Array:
    """Combine two digests of each sample, such as of its image and its text, into one.

    Args:
        first: `(n, a)` uint8.
        second: `(n, b)` uint8.

    Returns:
        `(n, 16)` uint8.
    """
    return _row_digests(np.concatenate([first, second], axis=1))


def _stack(digests: Iterable[bytes]) -> Array:
    joined = b"".join(digest[:DIGEST_BYTES] for digest in digests)
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST_BYTES)
