"""Descriptions of Debian packages, with their tags: several labels of one text, which overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from labeltree.cache import data_home
from labeltree.data.groups import grouped
from labeltree.data.hash_splits import hash_splits
from labeltree.data.progress import Progress, silent
from labeltree.data.registry import Needed, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.debtags.facets import FACETS, facet_label, facet_taxonomy, tag_table
from labeltree.datasets.debtags.lists import Package, read_lists, read_packages, write_packages
from labeltree.datasets.fetching.bringing import bringing
from labeltree.datasets.fetching.debian import fetch_lists, has_apt
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["debtags_taxonomy", "fetch_debtags", "open_debtags", "open_debtags_programs", "package_source"]

NAME = "debtags"
PROGRAMS = "debtags-programs"
FILE = "packages.jsonl.gz"
VAL, TEST = 0.1, 0.3

# Debian's sections; the areas above them are ours.
SECTIONS: dict[str, tuple[str, ...]] = {
    "desktop": ("fonts", "gnome", "gnustep", "kde", "x11", "xfce"),
    "development": ("debug", "devel", "embedded", "vcs"),
    "games": ("games",),
    "languages": (
        *("cli-mono", "gnu-r", "golang", "haskell", "interpreters", "java", "javascript", "lisp", "ocaml"),
        *("perl", "php", "python", "ruby", "rust"),
    ),
    "libraries": ("introspection", "libdevel", "libs", "oldlibs"),
    "media": ("graphics", "sound", "video"),
    "network": ("comm", "hamradio", "httpd", "mail", "net", "news", "web", "zope"),
    "science": ("education", "electronics", "math", "science"),
    "system": ("admin", "database", "kernel", "metapackages", "otherosfs", "shells", "tasks", "utils"),
    "text": ("doc", "editors", "localization", "tex", "text"),
    "other": ("misc",),
}


def debtags_taxonomy() -> Taxonomy:
    """Areas and sections: 11 + 58 nodes below the root."""
    paths = [(area, section) for area, sections in SECTIONS.items() for section in sections]
    return Taxonomy.from_paths(paths, root_name="debian")


def package_source(packages: Sequence[Package], name: str = NAME, facets: Sequence[str] = FACETS) -> Source:
    """Packages as samples.

    The label is the section; an aspect is a facet, its label that of `facet_label`; ratings are the 0 and 1
    of `tag_table`. The binary packages of a source package, and those with equal texts, are a group. The
    split goes by the hash of the group's first source package by name.

    Args:
        packages: At least one.
        name: Of the data set.
        facets: The aspects; those without any tag are left out.
    """
    taxonomy = debtags_taxonomy()
    area = {section: area for area, row in SECTIONS.items() for section in row}
    sections = [package.section.rpartition("/")[2] for package in packages]
    paths = [(area[section], section) if section in area else ("other", "misc") for section in sections]
    trees = {facet: tree for facet in facets if (tree := facet_taxonomy(packages, facet)) is not None}
    aspects = [
        tree.encode([facet_label(package.tags, facet) or None for package in packages])
        for facet, tree in trees.items()
    ]
    firsts = _first_sources(packages)
    return Source(
        name=name,
        taxonomy=taxonomy,
        nodes=taxonomy.encode(paths),
        instances=torch.arange(len(packages)),
        store=None,
        rows=torch.arange(len(packages)),
        groups=grouped(firsts),
        split=hash_splits(firsts, VAL, TEST),
        aspect_taxonomies=tuple(trees.values()),
        aspects=torch.stack(aspects, 1) if aspects else None,
        ratings=tag_table(packages, facets)[1],
        texts=[package.text for package in packages],
    )


def _first_sources(packages: Sequence[Package]) -> list[str]:
    """For each package the first, by name, of the source packages that equal texts tie to its own."""
    above: dict[str, str] = {}

    def first(source: str) -> str:
        while above.setdefault(source, source) != source:
            above[source] = above[above[source]]
            source = above[source]
        return source

    with_text: dict[str, str] = {}
    for package in packages:
        low, high = sorted((first(package.source), first(with_text.setdefault(package.text, package.source))))
        above[high] = low
    return [first(package.source) for package in packages]


def fetch_debtags(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring the tagged packages into the cache folder, from the lists of the machine's package sources.

    Returns:
        Their folder.

    Raises:
        DataError: If they cannot be had, with what to do instead.
    """
    folder = data_home() / NAME
    if (folder / FILE).is_file() and not force:
        return folder
    if not has_apt():
        raise DataError(
            f"'{NAME}' is made of Debian's package lists, which apt-get fetches, and this machine has none; "
            f"run 'labeltree data get {NAME}' on a machine with Debian, and copy '{FILE}' into '{folder}'"
        )
    report = progress or silent
    with bringing(folder, "the package lists", "run the command again") as (work, _):
        lists = fetch_lists(work, report)
        report("reading the descriptions and tags of the packages", 0, 0)
        write_packages(folder / FILE, read_lists(lists))
    return folder


_LICENCE = "of each package its own; read locally, not to be passed on"
_FILES = (
    Needed(FILE, f"the tagged packages; 'labeltree data get {NAME}' makes it of Debian's package lists"),
)


@register_dataset(
    NAME,
    summary="descriptions of 30,300 Debian packages, texts, in 57 sections; facets of their tags as aspects",
    licence=_LICENCE,
    size="16 MB to download, 4 MB on disk",
    fetch=fetch_debtags,
    files=_FILES,
    home=NAME,
)
def open_debtags(*, path: Path) -> Source:
    """Open all tagged packages; see `package_source`.

    Raises:
        DataError: If they are not there or damaged, with the command that gets them.
    """
    return package_source(read_packages(path / FILE))


@register_dataset(
    PROGRAMS,
    summary="those 8,335 of debtags that are programs, texts, with the other facets as aspects",
    licence=_LICENCE,
    size="16 MB to download, 4 MB on disk",
    fetch=fetch_debtags,
    files=_FILES,
    home=NAME,
)
def open_debtags_programs(*, path: Path) -> Source:
    """Open the packages with the tag ``role::program``; the facet role is no aspect.

    Raises:
        DataError: If they are not there or damaged, with the command that gets them.
    """
    programs = [p for p in read_packages(path / FILE) if "role::program" in p.tags]
    if not programs:
        raise DataError(f"'{path / FILE}' has no package with the tag role::program")
    return package_source(programs, PROGRAMS, [facet for facet in FACETS if facet != "role"])
