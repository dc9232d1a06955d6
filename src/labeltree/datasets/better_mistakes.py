"""tieredImageNet-H and iNaturalist19-H of Making Better Mistakes (Bertinetto et al. 2020): trees, splits."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, first_existing, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.listings import read_listing
from labeltree.datasets.imagenet import images_in
from labeltree.datasets.imagenet_trees import imagenet_classes
from labeltree.errors import DataError, TaxonomyError
from labeltree.split_names import SPLITS
from labeltree.system_files import is_system_file
from labeltree.taxonomy import Taxonomy

__all__ = ["Benchmark", "read_benchmark"]

Folders = Callable[[str], Sequence[Path]]
"""The folders in which the publisher's files of a class may lie."""

_CLONE = "making-better-mistakes"  # of github.com/fiveai
_LIST = re.compile(r"(?:^|/)(train|val|test)/([^/]+)\.txt$")
_PREPARED = ("", "_images")  # after the name of a split: Making Better Mistakes' folders, and HAFrame's


@dataclass(frozen=True)
class Benchmark:
    """A data set of which Making Better Mistakes has a tree and splits.

    Attributes:
        name: Name of the data set.
        edges: The file of the tree, `parent child` a line.
        splits: Pattern of the archive of splits, and of the folder in it.
        classes: Pattern of the classes.
        images: Where the publisher's images are, for messages.
        folders: Function from the data set's folder to `Folders`.
        title: Function from a node of the file to its name in the tree.
    """

    name: str
    edges: str
    splits: str
    classes: str
    images: Needed
    folders: Callable[[Path], Folders]
    title: Callable[[str], str] = str

    @property
    def tree_places(self) -> tuple[str, ...]:
        """Where the file of the tree may lie."""
        return (self.edges, f"data/{self.edges}", f"{_CLONE}/data/{self.edges}")

    @property
    def split_places(self) -> tuple[str, ...]:
        """Where the splits may lie, as an archive or unpacked."""
        return tuple(
            f"{folder}{self.splits}" for folder in ("", "dataset_splits/", f"{_CLONE}/dataset_splits/")
        )

    @property
    def needed(self) -> tuple[Needed, ...]:
        """What must be in the data set's folder."""
        prepared = tuple(f"test{suffix}/{self.classes}" for suffix in _PREPARED)
        return (
            Needed(self.tree_places, f"the tree, data/{self.edges} of {_CLONE}"),
            Needed(
                (*self.split_places, *prepared),
                f"the splits, dataset_splits/ of {_CLONE}; or test/ with a folder a class, as they say",
            ),
            Needed((*self.images.choices, *(f"train{suffix}" for suffix in _PREPARED)), self.images.what),
        )


def read_benchmark(path: Path, benchmark: Benchmark) -> ListedImages:
    """List the images of a data set: the publisher's, by the lists of the splits, or those of split folders.

    If `test/` has a folder of a class, the images are taken to be sorted already: a folder a class in
    `train/`, `val/` and `test/`, or in `train_images/` and so on.

    Raises:
        DataError: If files are missing, a split lacks a class, or a list names what is not there.
        TaxonomyError: If the edges form no tree.
    """
    edges = first_existing(path, benchmark.tree_places)
    taxonomy, node_of = _read_tree(edges, benchmark.title)
    suffix = next((s for s in _PREPARED if _has_classes(path / f"test{s}", node_of)), None)
    if suffix is not None:
        listed = {part: _walk_split(path, f"{part}{suffix}", node_of, edges) for part in SPLITS}
    else:
        listed = _listed_images(path, benchmark, node_of, edges)
    files: list[str] = []
    nodes: list[int] = []
    split: list[str] = []
    for part, by_class in listed.items():
        for name in sorted(by_class):
            files += by_class[name]
            nodes += [node_of[name]] * len(by_class[name])
            split += [part] * len(by_class[name])
    return ListedImages(path, files, torch.tensor(nodes), taxonomy, split)


def _read_tree(path: Path, title: Callable[[str], str]) -> tuple[Taxonomy, dict[str, int]]:
    """The tree of a file of edges, and the node of each class: of each leaf."""
    edges = read_listing(path, ("parent", "child"))
    pairs = list(zip(edges.texts("child"), edges.texts("parent"), strict=True))
    names: dict[Hashable, str] = {name: title(name) for pair in pairs for name in pair}
    try:
        taxonomy = Taxonomy.from_edges(pairs, names=names)
    except TaxonomyError as error:
        raise TaxonomyError(f"'{path}': {error}") from error
    parents = {parent for _, parent in pairs}
    return taxonomy, {child: taxonomy.find(names[child]) for child, _ in pairs if child not in parents}


def _has_classes(folder: Path, classes: Collection[str]) -> bool:
    return folder.is_dir() and any(entry.name in classes and entry.is_dir() for entry in folder.iterdir())


def _walk_split(path: Path, part: str, classes: Collection[str], edges: Path) -> dict[str, list[str]]:
    """The images of each class in a folder with a folder a class, relative to the data set's."""
    folder = path / part
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}' beside the other splits")
    images: dict[str, list[str]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not is_system_file(entry.name):
            names = [f"{part}/{entry.name}/{os.path.basename(file)}" for file in images_in(entry)]
            images |= {entry.name: names} if names else {}
    _check_classes(f"'{folder}'", images, classes, edges)
    return images


def _check_classes(where: str, present: Collection[str], classes: Collection[str], edges: Path) -> None:
    """Check that a split has images of all classes and of nothing else."""
    if strange := sorted(set(present) - set(classes)):
        raise DataError(f"{where} has '{strange[0]}', which is not a class of '{edges}'")
    if lacking := sorted(set(classes) - set(present)):
        raise DataError(
            f"{where} has no images of {len(lacking)} of {len(classes)} classes, '{lacking[0]}' the first; "
            "it is incomplete"
        )


def _listed_images(
    path: Path, benchmark: Benchmark, classes: Collection[str], edges: Path
) -> dict[str, dict[str, list[str]]]:
    """The publisher's images that the lists of each split name, by class."""
    splits = next((place for pattern in benchmark.split_places for place in sorted(path.glob(pattern))), None)
    if splits is None:
        raise DataError(f"there is no '{path / benchmark.splits}', the splits of {_CLONE}")
    lists = _read_lists(splits)
    folders_of = benchmark.folders(path)
    names_in = cache(lambda folder: frozenset(os.listdir(folder)) if folder.is_dir() else frozenset())
    below = cache(lambda folder: os.path.relpath(folder, path))
    listed: dict[str, dict[str, list[str]]] = {}
    missing: list[str] = []
    for part in SPLITS:
        lists_of = {name: images for name, images in lists[part].items() if images}
        _check_classes(f"'{part}' of '{splits}'", lists_of, classes, edges)
        listed[part] = {name: [] for name in lists_of}
        for name, images in lists_of.items():
            folders = folders_of(name)
            for image in images:
                folder = next((folder for folder in folders if image in names_in(folder)), None)
                if folder is None:
                    missing.append(f"{name}: {image}")
                else:
                    listed[part][name].append(f"{below(folder)}/{image}")
    if missing:
        raise DataError(
            f"'{splits}' names {len(missing):,} images that are not in '{path}', the first of class "
            f"{missing[0]}; unpack there {benchmark.images.what}"
        )
    return listed


def _read_lists(splits: Path) -> dict[str, dict[str, list[str]]]:
    """Split → class → names of images, from an archive or a folder of lists."""
    lists: dict[str, dict[str, list[str]]] = {part: {} for part in SPLITS}
    for where, text in _texts(splits):
        match = _LIST.search(where)
        if match and not any(is_system_file(folder) for folder in where.split("/")):
            lists[match[1]][match[2]] = text.split()
    return lists


def _texts(splits: Path) -> list[tuple[str, str]]:
    """Paths and texts of the lists."""
    if splits.is_dir():
        files = sorted(splits.rglob("*.txt"))
        return [(file.relative_to(splits).as_posix(), file.read_text("utf-8", "replace")) for file in files]
    try:
        with zipfile.ZipFile(splits) as archive:
            names = [name for name in archive.namelist() if _LIST.search(name)]
            return [(name, archive.read(name).decode("utf-8", "replace")) for name in names]
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"'{splits}' is damaged or half downloaded: {error}") from error


def _imagenet_title(wnid: str) -> str:
    """`n02119789 kit fox` for a class, the synset alone for a node above."""
    return _imagenet_titles().get(wnid, wnid)


@cache
def _imagenet_titles() -> dict[str, str]:
    return {c.wnid: c.name for c in imagenet_classes()}


def _imagenet_folders(path: Path) -> Folders:
    """Training images lie in a folder a class, those of validation likewise or flat."""
    root = first_existing(path, ("train", "ILSVRC/Data/CLS-LOC/train")).parent
    return lambda wnid: (root / "train" / wnid, root / "val" / wnid, root / "val")


def _inaturalist_folders(path: Path) -> Folders:
    """Images lie in a folder named by the category's number, below that of its kind."""
    folders = {folder.name: folder for folder in sorted((path / "train_val2019").glob("*/*"))}

    def folders_of(name: str) -> Sequence[Path]:
        number = name.removeprefix("nat").lstrip("0") or "0"
        return (folders[number],) if number in folders else ()

    return folders_of


_TIERED = Benchmark(
    "tiered-imagenet-h",
    "tiered_imagenet_isa.txt",
    "splits_tiered*",
    "n*",
    Needed(
        ("train", "ILSVRC/Data/CLS-LOC/train"),
        "ImageNet's training images, a folder a class (ILSVRC2012_img_train.tar), and val/",
    ),
    _imagenet_folders,
    _imagenet_title,
)
_INATURALIST = Benchmark(
    "inaturalist-2019-h",
    "inaturalist19_isa.txt",
    "splits_inat*",
    "nat*",
    Needed("train_val2019", "the images of iNaturalist 2019 (train_val2019.tar.gz)"),
    _inaturalist_folders,
)
_SOURCE = "Bertinetto et al. 2020, its splits and trees"

for _benchmark, _summary, _licence, _published in (
    (
        _TIERED,
        "456,000 photographs of ImageNet, 608 classes in a tree of 13 levels, the root included",
        "ImageNet's terms of access: non-commercial research and education",
        Published(
            {"train": 425_600, "val": 15_200, "test": 15_200},
            (2, 5, 21, 24, 65, 108, 146, 213, 127, 93, 36, 2),
            _SOURCE,
        ),
    ),
    (
        _INATURALIST,
        "268,243 photographs of 1,010 species in a tree of 8 levels, the root included",
        "iNaturalist competition: non-commercial research and education, images not to be passed on",
        Published({"train": 187_385, "val": 40_121, "test": 40_737}, (3, 4, 9, 34, 57, 72, 1_010), _SOURCE),
    ),
):
    register_reader(
        _benchmark.name,
        partial(read_benchmark, benchmark=_benchmark),
        summary=_summary,
        licence=_licence,
        files=_benchmark.needed,
        published=_published,
    )
