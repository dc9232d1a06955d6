"""WordNet 3.0 (Miller 1995; Fellbaum 1998): download of its nouns; a data set of animal definitions."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import torch

from labeltree.cache import data_home
from labeltree.data.named_data import Needed, Published, register_dataset, register_download
from labeltree.data.source import Source
from labeltree.data.stratified import group_ids
from labeltree.data.wordnet_files.wordnet_files import Synset, WordNetNouns
from labeltree.data.wordnet_files.wordnet_trees import synsets_below
from labeltree.datasets.fetching.atomic_download import downloading
from labeltree.datasets.fetching.debian import has_apt, unpack_package
from labeltree.datasets.formats.hash_splits import stratified_hash_splits
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.taxonomy import Taxonomy

__all__ = ["definition", "fetch_wordnet", "open_wordnet_animals", "read_glosses", "wordnet_folder"]

HOME = "wordnet"
PACKAGE = "wordnet-base"
INSTALLED = Path("/usr/share/wordnet")
NOUN_FILES = {"data.noun": 82_115, "index.noun": 117_798, "noun.exc": 2_054}
"""Number of content lines in each file: synsets, words, and irregular plurals."""

_PACKAGE_SIZE = 6_467_132
NAME = "wordnet-animals"
LEAST = 10
"""Minimum number of leaves below a synset that is a class."""
VAL, TEST = 0.1, 0.3
_EXAMPLES = re.compile(r"(?:^|;)\s*\".*", re.DOTALL)


def wordnet_folder() -> Path:
    """The folder with `data.noun`, `index.noun` and `noun.exc`: in the cache, or as Debian installs it.

    Raises:
        DataError: If the files are in neither; the message has the command that downloads them.
    """
    for folder in (data_home() / HOME, INSTALLED):
        if all((folder / name).is_file() for name in NOUN_FILES):
            return folder
    raise DataError(
        f"the noun files of WordNet are neither in '{data_home() / HOME}' nor in '{INSTALLED}'; "
        f"'labeltree data get {HOME}' fetches them"
    )


def fetch_wordnet(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Copy WordNet's noun files into the cache folder from the Debian package, downloaded if need be.

    Returns:
        The folder of the files.

    Raises:
        DataError: If the download fails; the message says what to do instead.
    """
    folder = data_home() / HOME
    if not force and _problem(folder) is None:
        return folder
    with downloading(folder, "WordNet") as (work, fresh):
        unpacked = _unpack(work, progress or silent)
        for name in NOUN_FILES:
            if (unpacked / name).is_file():
                shutil.copyfile(unpacked / name, fresh / name)
        if problem := _problem(fresh):
            raise DataError(f"what the package {PACKAGE} holds is not WordNet 3.0: {problem}")
        for name in NOUN_FILES:
            os.replace(fresh / name, folder / name)
    return folder


def _unpack(work: Path, report: Progress) -> Path:
    if _problem(INSTALLED) is None:
        return INSTALLED
    if not has_apt():
        raise DataError(
            f"it comes from the Debian package {PACKAGE}, and this machine has no apt-get; put "
            f"{', '.join(NOUN_FILES)} of WordNet 3.0 into '{work.parent}'"
        )
    return unpack_package(PACKAGE, work, _PACKAGE_SIZE, report) / INSTALLED.relative_to("/")


def _problem(folder: Path) -> str | None:
    """Describe what is wrong with the files of a folder; None if they are the files of WordNet 3.0."""
    for name, expected in NOUN_FILES.items():
        path = folder / name
        if not path.is_file():
            return f"there is no '{path}'"
        with path.open("rb") as file:
            entries = sum(not line.startswith(b" ") for line in file)
        if entries != expected:
            return f"'{path}' has {entries:,} entries where {expected:,} were expected"
    return None


register_download(
    HOME,
    what="a dictionary; 'labeltree taxonomy from-wordnet' makes a taxonomy with it",
    summary="the noun files of WordNet 3.0, for the trees of ImageNet and of class names",
    licence="WordNet 3.0 licence (Princeton University)",
    size="6 MB to download, 20 MB on disk",
    fetch=fetch_wordnet,
)


def definition(gloss: str) -> str:
    """Strip a gloss of its examples, which follow the definition in quotes.

    Example:
        >>> definition('hybrid of a horse and a donkey; usually sterile; "a hinny is gentle"')
        'hybrid of a horse and a donkey; usually sterile'
    """
    return _EXAMPLES.sub("", gloss).strip(" ;\n")


def read_glosses(folder: Path, root: str = "animal.n.01", least: int = LEAST) -> Source:
    """The definitions of the leaves below a synset, labelled with the classes above them.

    Of several hypernyms a synset keeps the first that is below the root, as the lexicographers ordered them.
    Named individuals (instances) are left out. A class is a synset with enough leaves below it; the label of
    a leaf is the deepest class above it, which may be an inner node of the tree of classes, or its root.
    Leaves with equal definitions are a group. The words of a synset are not part of its text.

    Args:
        folder: Folder with `data.noun` and `index.noun`.
        root: Name of the synset.
        least: Minimum number of leaves below a class.

    Raises:
        TaxonomyError: If a file is missing or damaged.
        DataError: If there is no such synset, or it has too few leaves below it.
    """
    nouns = WordNetNouns(folder)
    synsets_of = nouns.find(root)
    if len(synsets_of) != 1:
        raise DataError(f"'{root}' is not one synset of the WordNet in '{folder}'; is it WordNet 3.0?")
    synsets, tree = _subtree(nouns, synsets_of[0])
    leaves = tree.leaves
    above = tree.ancestors[leaves]
    below = torch.bincount(above[above >= 0], minlength=tree.num_nodes)
    is_class = (below >= least) & (tree.height > 0)
    if int(is_class.sum()) < 2:
        raise DataError(f"'{root}' has {int(is_class.sum())} class(es) with {least} leaves or more below it")
    # In preorder, so the new numbers of the classes are their positions; all nodes above a class are classes.
    place = torch.where(is_class, is_class.cumsum(0) - 1, -1)
    kept = torch.nonzero(is_class).flatten()
    taxonomy = Taxonomy(
        [tree.names[node] for node in kept.tolist()], [-1, *place[tree.parent[kept[1:]]].tolist()]
    )
    labels = torch.where(above >= 0, place[above.clamp(min=0)], -1).amax(1)
    texts = [definition(synsets[tree.names[leaf]].gloss) for leaf in leaves.tolist()]
    return Source.in_order(
        NAME,
        taxonomy,
        labels,
        groups=group_ids(texts),
        split=stratified_hash_splits(texts, labels.tolist(), VAL, TEST),
        texts=texts,
    )


def _subtree(nouns: WordNetNouns, root: int) -> tuple[dict[str, Synset], Taxonomy]:
    """The synsets at and below the root by name, and their tree."""
    offsets = synsets_below(nouns, root, instances=False)
    index = {offset: i for i, offset in enumerate(offsets)}
    parents = [
        next((index[a] for a in nouns.hypernyms(offset, instances=False) if a in index), -1)
        if offset != root
        else -1
        for offset in offsets
    ]
    names = [nouns.name(offset) for offset in offsets]
    return {name: nouns.synsets[offset] for name, offset in zip(names, offsets, strict=True)}, Taxonomy(
        names, parents
    )


@register_dataset(
    NAME,
    summary="2,946 definitions of animals, texts, in 191 classes of WordNet's tree, of depth 10",
    licence="WordNet 3.0 licence (Princeton University)",
    size="6 MB to download, 20 MB on disk",
    fetch=fetch_wordnet,
    files=(
        Needed("data.noun", "the noun synsets of WordNet 3.0, in the Debian package wordnet-base"),
        Needed("index.noun", "its words, in the same package"),
    ),
    published=Published(
        splits={"train": 1_769, "val": 283, "test": 894},
        classes=(5, 8, 12, 23, 39, 41, 24, 17, 18, 3),
        source="our count of the WordNet 3.0 in wordnet-base",
    ),
    home=HOME,
)
def open_wordnet_animals(*, path: Path) -> Source:
    """Open the glosses of WordNet's animals; see `read_glosses`.

    Raises:
        DataError: If WordNet is missing; the message has the command that downloads it.
    """
    return read_glosses(path)
