"""Nested folders of images: the folders are the taxonomy."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from labeltree.data.images.image_files import ImageSettings
from labeltree.data.listed_images import open_listed
from labeltree.data.source import Source, printable
from labeltree.data.tables.row_labels import note_other_form
from labeltree.data.unused_rows import UnusedRows
from labeltree.errors import DataError, TaxonomyError, UnknownLabelError
from labeltree.file_kinds import IMAGE_SUFFIXES
from labeltree.lazy import torch
from labeltree.split_names import SPLIT_NAMES, SPLITS
from labeltree.system_files import is_system_file
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import compose_twins, join_path, some, twins_sentence
from labeltree.taxonomy.placeholders import MissingNames

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["folder_labels", "folder_taxonomy", "left_out", "open_folder", "walk_images"]

_PHOTOGRAPHS = frozenset((".arw", ".cr2", ".cr3", ".dng", ".nef"))
_PICTURES = _PHOTOGRAPHS | frozenset((".eps", ".exr", ".hdr", ".ico", ".j2k", ".jp2", ".jpx", ".jxl"))
_PICTURES |= frozenset((".pcx", ".psd", ".qoi", ".svg", ".tga"))
"""Extensions of pictures that are not in IMAGE_SUFFIXES: leaving them out is probably not what was meant."""
_MOST_OTHERS = 5  # extensions that are named
_log = logging.getLogger("labeltree.data")
_SPLIT_OF = dict(zip(SPLITS, SPLITS, strict=True)) | SPLIT_NAMES


@dataclass(frozen=True)
class _Image:
    """An image, with the folders on its path from the root."""

    path: str
    folders: tuple[str, ...]

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def open_folder(
    root: str | Path,
    *,
    taxonomy: Taxonomy | None = None,
    missing_labels: Sequence[str] | str = (),
    **images: Unpack[ImageSettings],
) -> Source:
    """Open a folder of images.

    An image's label is the folder it lies in, at any depth: an inner folder is an inner node. Images
    directly in the root have no label. Files without an image extension are left out, and a note of the
    source counts them. A folder without an image in it or below it is no class, and a note names it. What
    systems leave is ignored, see `is_system_file`. If the folders at depth 1 are called `train` and
    `test` (or `val`), they are the split, and the taxonomy begins below them.

    Args:
        root: The folder.
        taxonomy: If given, folders are looked up in it: by their path, or by their own name.
        missing_labels: Names of folders that are not classes, such as `unknown`: their images get the label
            of the folder above, or none.
        **images: How images are read; see `ImageSettings`.

    Raises:
        DataError: If the folder is missing or has no images, an image cannot be read, or links form a loop.
        TaxonomyError: If a folder is not in the given taxonomy.
    """
    top = Path(os.path.abspath(root))
    others: Counter[str] = Counter()
    files, folders, empty, split = _images_and_folders(top, others)
    missing = MissingNames(missing_labels)
    files = [_Image(image.path, missing.cut(image.folders)) for image in files]
    said = [left_out(others)] if others else []
    is_given = taxonomy is not None
    if taxonomy is None:
        taxonomy, notes = _taxonomy(folders, root, missing)
        said += _without_images(empty)
        said += _note_beside_splits({path[0] for path in folders}) if split is None else []
        said += notes
    by_folder = _nodes(taxonomy, dict.fromkeys(image.folders for image in files), top)
    said += note_other_form(by_folder, by_folder.values(), taxonomy) if is_given else []
    unused = _coarser(taxonomy, [image.folders for image in files])
    source = open_listed(
        printable(top.name),
        top,
        [os.path.relpath(image.path, top) for image in files],
        torch.tensor([by_folder[image.folders] for image in files]),
        taxonomy,
        split=split,
        **images,
    )
    return dataclasses.replace(
        source, missing_labels=missing.found, unused=unused, notes=(*said, *source.notes)
    )


def left_out(others: Counter[str]) -> str:
    """A sentence on the files that are not images by their extension, which is also a warning if some are.

    Args:
        others: How many there are of each extension, in lower case.
    """
    named = sorted(others, key=lambda extension: (extension not in _PICTURES, -others[extension], extension))
    listed = [
        f"{printable(extension) or 'none'} ({others[extension]:,})" for extension in named[:_MOST_OTHERS]
    ]
    more = f" and {len(named) - len(listed)} more" if len(named) > len(listed) else ""
    total = others.total()
    what = f"{total:,} {'file was' if total == 1 else 'files were'} left out because of the extension: "
    what += f"{', '.join(listed)}{more}"
    if not _PICTURES.isdisjoint(others):
        _log.warning("%s. Pictures in these formats are not read from folders: convert them to PNG", what)
    return what


def _without_images(empty: Sequence[tuple[str, ...]]) -> list[str]:
    """A sentence on the folders that hold no image, if there are any."""
    if not empty:
        return []
    what = "1 folder holds no image and is not a class" if len(empty) == 1 else ""
    what = what or f"{len(empty):,} folders hold no image and are not classes"
    return [f"{what}: {some(map(join_path, empty))}"]


def _note_beside_splits(names: set[str]) -> list[str]:
    """A sentence on folders that would be splits, if others did not lie beside them."""
    splits = {name for name in names if name.lower() in _SPLIT_OF}
    if len(splits) < 2 or "train" not in {_SPLIT_OF[name.lower()] for name in splits} or splits == names:
        return []
    others = some(sorted(names - splits))
    return [
        f"{some(sorted(splits))} are read as classes and not as splits, because {others} lies beside them: "
        "move that elsewhere if they are splits"
    ]


def _coarser(taxonomy: Taxonomy, folders: Sequence[tuple[str, ...]]) -> UnusedRows:
    """The images whose label is coarser than their folder says, counted in the order of their paths."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, path in enumerate(folders):
        rows.setdefault(path, []).append(row)
    unused = UnusedRows.none()
    for path, of_folder in rows.items():
        label = path if not path or taxonomy.candidates(path) else path[-1]
        if path and (why := taxonomy.why_coarser(label)):
            unused += UnusedRows.because(np.array(of_folder), ["folder"], why)
    return unused


def folder_taxonomy(root: str | Path) -> Taxonomy:
    """The taxonomy that `open_folder` gives a folder of images; no image is read."""
    return folder_labels(root)[0]


def folder_labels(root: str | Path) -> tuple[Taxonomy, Tensor]:
    """The taxonomy and the labels `(n,)` that `open_folder` gives a folder of images; no image is read."""
    top = Path(os.path.abspath(root))
    images, folders, _, _ = _images_and_folders(top)
    taxonomy, notes = _taxonomy(folders, root, MissingNames(()))
    for note in notes:
        _log.warning("labeltree: %s: %s", root, note)
    return taxonomy, torch.tensor([_node(taxonomy, image.folders, top) for image in images])


def _taxonomy(
    folders: list[tuple[str, ...]], root: str | Path, missing: MissingNames
) -> tuple[Taxonomy, list[str]]:
    """The taxonomy, and a note on folders whose names differ in the composition of accents alone."""
    if not folders:
        raise DataError(f"the images of '{root}' lie in no folders below it; folders are the labels")
    labels = dict.fromkeys(path[: missing.place(path)[0]] for path in folders)
    if not any(labels):
        raise DataError(f"all folders of '{root}' are among missing_labels: no class is left")
    composed = compose_twins(name for path in folders for name in path)
    taxonomy = Taxonomy.from_paths([composed.get(name, name) for name in label] for label in labels if label)
    return taxonomy, [twins_sentence(composed)] if composed else []


def _images_and_folders(
    top: Path, others: Counter[str] | None = None
) -> tuple[list[_Image], list[tuple[str, ...]], list[tuple[str, ...]], np.ndarray[Any, Any] | None]:
    """All images, all folders that are labels, the folders without images, and the split of each image.

    A folder with only empty folders in it is one folder without images. The split is None if folders define
    none. Other files are counted by extension in `others`, if it is given.
    """
    if not top.is_dir():
        raise DataError(f"there is no folder '{top}'")
    images: list[_Image] = []
    folders: list[tuple[str, ...]] = []
    for path, file in walk_images(top, others):
        if file is None:
            folders.append(path)
        else:
            images.append(_Image(file, path))
    if not images:
        raise DataError(
            f"the folder '{top}' has no images; known extensions are {' '.join(sorted(IMAGE_SUFFIXES))}"
        )
    full = {image.folders[:depth] for image in images for depth in range(len(image.folders) + 1)}
    empty = [path for path in folders if path not in full and path[:-1] in full]
    splits = {path for path in empty if len(path) == 1 and path[0].lower() in _SPLIT_OF}
    folders = [path for path in folders if path in full]
    if not _are_splits({path[0] for path in (*folders, *splits)}, images):
        return images, folders, empty, None
    split = np.array([_SPLIT_OF[image.folders[0].lower()] for image in images])
    below = [_Image(image.path, image.folders[1:]) for image in images]
    labels = sorted({path[1:] for path in folders if len(path) > 1})
    known = set(labels)  # a class that is empty in one split may have images in another
    return below, labels, [path for path in empty if path not in splits and path[1:] not in known], split


def walk_images(
    top: str | Path, others: Counter[str] | None = None
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """The images and folders below a folder: the images of each folder by name, then its folders by name.

    Only the names of the folders on the way to the present one are in memory.

    Args:
        top: The folder.
        others: If given, the files that are not images are counted in it by extension, in lower case.

    Yields:
        The printable names of the folders from the top; and the path of an image in the last one, or None for
        that folder itself.

    Raises:
        DataError: If a folder cannot be read, or links form a loop.
    """
    yield from _walk(str(top), (), (os.path.realpath(top),), Counter() if others is None else others)


def _walk(
    folder: str, path: tuple[str, ...], above: tuple[str, ...], others: Counter[str]
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    images, inner = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_system_file(entry.name):
                    continue
                if _is_folder(entry):
                    inner.append(entry.name)
                elif (extension := os.path.splitext(entry.name)[1].lower()) in IMAGE_SUFFIXES:
                    images.append(entry.name)
                else:
                    others[extension] += 1
    except OSError as error:
        raise DataError(f"cannot read the folder '{printable(folder)}': {error.strerror}") from error
    for name in sorted(images):
        yield path, os.path.join(folder, name)
    del images
    for name in sorted(inner):
        place = os.path.join(folder, name)
        real = os.path.realpath(place)
        if real in above:
            raise DataError(f"the link '{printable(place)}' leads back to a folder above it; remove it")
        below = (*path, printable(name))
        yield below, None
        yield from _walk(place, below, (*above, real), others)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder; a broken link or a link to itself is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _are_splits(names: set[str], images: list[_Image]) -> bool:
    """Whether the folders at depth 1 are a split: train and at least one other split, and nothing else."""
    splits = {_SPLIT_OF.get(name.lower()) for name in names}
    return (
        None not in splits and "train" in splits and len(names) > 1 and all(image.folders for image in images)
    )


def _nodes(taxonomy: Taxonomy, folders: Iterable[tuple[str, ...]], top: Path) -> dict[tuple[str, ...], int]:
    """The node of every folder; an error names the first that has none, and knows all."""
    nodes, unknown = {}, {}
    for path in folders:
        try:
            nodes[path] = _node(taxonomy, path, top)
        except TaxonomyError as error:
            unknown[path] = error
    if unknown:
        first = next(iter(unknown.values()))
        raise UnknownLabelError(str(first), unknown) from first
    return nodes


def _node(taxonomy: Taxonomy, path: tuple[str, ...], top: Path) -> int:
    if not path:
        return -1
    try:
        return taxonomy.find(path)
    except TaxonomyError as error:
        try:
            return taxonomy.find(path[-1])
        except TaxonomyError as by_name:
            shown = os.path.join(top, *path)
            raise TaxonomyError(f"folder '{shown}': {by_name if len(path) == 1 else error}") from error
