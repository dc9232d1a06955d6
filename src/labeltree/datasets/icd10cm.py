"""ICD-10-CM: 46,881 diagnoses; training on their descriptions, testing on synonyms."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from labeltree.cache import data_home
from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.data.stratified import group_ids
from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.datasets.fetching.packages import wheel_files
from labeltree.datasets.formats.hash_splits import hash_splits
from labeltree.errors import DataError
from labeltree.progress import Progress
from labeltree.taxonomy import Taxonomy

__all__ = ["fetch_icd10cm", "open_icd10cm", "read_icd10cm"]


NAME = "icd-10-cm"
PATTERN = "icd10c*tabular*.xml"
VAL = 0.2
"""Share of the inclusion terms used for validation."""

_WHEEL = ("simple-icd-10-cm", "1.5.0")
_FILE = "icd10c-tabular-April-1-2026.xml"
FILES = {_FILE: Expected(9_747_661, "f161f8182aff3ce3a2a78e202f8259c08eaee2c670a9e45b0072445c52302935")}


@dataclass
class Tabular:
    """The tabular list, filled while reading.

    Attributes:
        names: Names of the nodes; the root first.
        parents: Parents of the nodes.
        texts: Descriptions and inclusion terms.
        codes: Node of each text, as an index into `names`.
        is_term: Whether each text is an inclusion term.
    """

    names: list[str] = field(default_factory=lambda: ["ICD-10-CM"])
    parents: list[int] = field(default_factory=lambda: [-1])
    texts: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    is_term: list[bool] = field(default_factory=list)

    def node(self, name: str, parent: int) -> int:
        """Add a node."""
        self.names.append(name)
        self.parents.append(parent)
        return len(self.names) - 1

    def text(self, text: str, node: int, is_term: bool) -> None:
        """Add a text."""
        self.texts.append(text)
        self.codes.append(node)
        self.is_term.append(is_term)

    def add(self, diagnosis: ElementTree.Element, parent: int) -> None:
        """Add a code, its texts, and the codes below it."""
        code, description = _text(diagnosis, "name"), _text(diagnosis, "desc")
        node = self.node(f"{code} {description}", parent)
        self.text(description, node, is_term=False)
        for note in diagnosis.findall("inclusionTerm/note"):
            if term := _plain(note.text):
                self.text(term, node, is_term=True)
        for finer in diagnosis.findall("diag"):
            self.add(finer, node)


def read_icd10cm(path: Path) -> Source:
    """Read the tabular list of ICD-10-CM.

    The tree is chapter, block, category, subcategories. A sample is a text, its label a code, which may be
    an inner node. Training uses the description of every code; a fifth of the inclusion terms, by the hash
    of their words, is for validation, the rest for testing. Texts that differ only in case or spaces are a
    group; an inclusion term that is also the description of a code is for training.

    Blocks that only contain other blocks are left out, since the file does not mark them. Seventh characters
    are left out as well, since they have no separate descriptions.

    Args:
        path: The file `icd10cm-tabular-….xml` of a release.

    Raises:
        DataError: If the file is damaged or of another kind.
    """
    try:
        tabular = _tabular(_read_xml(path))
    except ValueError as error:
        raise DataError(f"'{path}' is not the tabular list of ICD-10-CM: {error}") from error
    except RecursionError as error:
        raise DataError(f"'{path}' is not the tabular list of ICD-10-CM: codes lie too deep") from error
    taxonomy = Taxonomy(tabular.names, tabular.parents)  # the file is in preorder, and so are its nodes
    keys = [text.casefold() for text in tabular.texts]
    described = {key for key, is_term in zip(keys, tabular.is_term, strict=True) if not is_term}
    held_out = np.array([key not in described for key in keys])
    return Source.in_order(
        NAME,
        taxonomy,
        torch.tensor(tabular.codes),
        groups=group_ids(keys),
        split=np.where(held_out, hash_splits(keys, VAL, 1 - VAL), "train"),
        texts=tabular.texts,
    )


def _tabular(root: ElementTree.Element) -> Tabular:
    if root.tag != "ICD10CM.tabular":
        raise ValueError(f"its root is <{root.tag[:40]}> where <ICD10CM.tabular> was expected")
    tabular = Tabular()
    for chapter in root.iterfind("chapter"):
        blocks = [block for block in chapter.iterfind("section") if block.find("diag") is not None]
        if not blocks:
            continue
        above = tabular.node(_text(chapter, "desc"), 0)
        for block in blocks:
            node = tabular.node(_text(block, "desc"), above)
            for diagnosis in block.iterfind("diag"):
                tabular.add(diagnosis, node)
    if not tabular.texts:
        raise ValueError("it has no codes")
    return tabular


def _text(element: ElementTree.Element, tag: str) -> str:
    text = _plain(element.findtext(tag))
    if not text:
        near = _plain(element.findtext("name")) or element.get("id", "?")
        raise ValueError(f"<{element.tag}> {near} has no <{tag}>")
    return text


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())


def fetch_icd10cm(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the tabular list into the cache folder, from a Python package; nothing of the package is run.

    Returns:
        The folder of the file.

    Raises:
        DataError: If the download fails; the message says what to do instead.
    """
    folder = data_home() / NAME
    otherwise = f"run the command again, or put the tabular list of a release ({PATTERN}) into '{folder}'"
    if force or not any(folder.glob(PATTERN)):
        with wheel_files(folder, "ICD-10-CM", _WHEEL, FILES, progress, otherwise=otherwise) as fresh:
            os.replace(fresh / _FILE, folder / _FILE)
    return folder


@register_dataset(
    NAME,
    summary="46,881 descriptions of diagnoses and 12,569 other words for them, texts, in a tree of depth 7",
    licence="ICD-10-CM: a work of the US government (NCHS); ICD-10 (c) WHO; its package MIT",
    size="1 MB to download, 10 MB on disk",
    fetch=fetch_icd10cm,
    files=(
        Needed(PATTERN, "the tabular list of a release of ICD-10-CM, as XML; ours is that of April 2026"),
    ),
    published=Published(
        splits={"train": 46_886, "val": 2_596, "test": 9_968},
        classes=(22, 285, 1_918, 10_096, 14_578, 20_109, 180),
        source="our count of the release of April 2026",
    ),
)
def open_icd10cm(*, path: Path) -> Source:
    """Open ICD-10-CM from a folder with the tabular list of one release; see `read_icd10cm`.

    Raises:
        DataError: If the folder has no such file or several, or the file is damaged.
    """
    files = sorted(path.glob(PATTERN))
    if len(files) != 1:
        names = ", ".join(f"'{file.name}'" for file in files) or "none"
        raise DataError(
            f"one tabular list of ICD-10-CM ({PATTERN}) was expected in '{path}'; there is {names}"
        )
    return read_icd10cm(files[0])


class _NoDoctype(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        """Refuse document types: a few lines of entity declarations can expand to any amount of text."""
        raise ValueError("it declares a document type, which no official file does")


def _read_xml(path: Path) -> ElementTree.Element:
    """Read an XML file and return its root.

    Raises:
        ValueError: If the file is not XML, or declares a document type.
    """
    try:
        return ElementTree.parse(path, ElementTree.XMLParser(target=_NoDoctype())).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
