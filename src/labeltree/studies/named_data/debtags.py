"""Descriptions of Debian packages with their tags: each facet of the tags is an aspect, a tree of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from labeltree.cache import data_home
from labeltree.data.named_data import Needed, register_dataset
from labeltree.data.source import Source
from labeltree.data.stratified import group_ids
from labeltree.datasets.fetching.atomic_download import downloading
from labeltree.datasets.fetching.debian import fetch_lists, has_apt
from labeltree.datasets.formats.hash_splits import hash_splits
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.studies.named_data.debian_packages import Package, read_lists, read_packages, write_packages
from labeltree.taxonomy import Taxonomy

__all__ = [
    "FACETS",
    "debtags_taxonomy",
    "facet_label",
    "facet_taxonomy",
    "fetch_debtags",
    "open_debtags",
    "open_debtags_programs",
    "package_source",
    "tag_path",
    "tag_table",
]

FACETS = ("role", "implemented-in", "interface", "uitoolkit", "use", "works-with", "suite")
"""Facets in which at least 5 % of the packages of Debian 12 have another label than the most frequent one."""

# A tag's finer parts follow a colon: works-with::image:raster. The tags of one facet also lie within each
# other without saying so: what has an X interface is tagged as graphical as well. This edge is ours.
_ABOVE: Mapping[str, str] = dict.fromkeys(
    ("interface::x11", "interface::3d", "interface::framebuffer", "interface::svga"), "graphical"
)
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


def tag_path(tag: str) -> tuple[str, ...]:
    """The path of a tag in the tree of its facet; empty for the placeholder `TODO`.

    Example:
        >>> tag_path("works-with::image:raster"), tag_path("interface::x11"), tag_path("use::TODO")
        (('image', 'raster'), ('graphical', 'x11'), ())
    """
    parts = tuple(tag.partition("::")[2].split(":"))
    if parts[-1] == "TODO":
        return ()
    return (_ABOVE[tag], *parts) if tag in _ABOVE else parts


def facet_label(tags: Sequence[str], facet: str) -> tuple[str, ...]:
    """The label of a package in a facet: the path of its tag.

    Tags implied by finer tags are ignored; if several remain, the label is their lowest common ancestor.
    Empty if this is the root, or there is no tag.

    Example:
        >>> facet_label(["works-with::image", "works-with::image:raster", "use::editing"], "works-with")
        ('image', 'raster')
        >>> facet_label(["works-with::image:raster", "works-with::image:vector"], "works-with")
        ('image',)
        >>> facet_label(["works-with::audio", "works-with::video"], "works-with")
        ()
    """
    paths = {tag_path(tag) for tag in tags if tag.startswith(f"{facet}::")} - {()}
    finest = [
        path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)
    ]
    common: list[str] = []
    for names in zip(*finest, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return tuple(common)


def facet_taxonomy(packages: Sequence[Package], facet: str) -> Taxonomy | None:
    """The tree of all tags of a facet that occur in packages, siblings sorted by name; None if none occur."""
    paths = {tag_path(tag) for package in packages for tag in package.tags if tag.startswith(f"{facet}::")}
    return Taxonomy.from_paths(sorted(paths - {()}), root_name=facet) if paths - {()} else None


def tag_table(packages: Sequence[Package], facets: Sequence[str]) -> tuple[list[str], Tensor]:
    """Indicator matrix of the tags of each package.

    Returns:
        The T tags of the facets that occur, sorted by name, without `TODO`; and an array `(n, T)` int64,
        1 where a package has the tag, else 0. The row of a package without any tag is -1: being
        untagged does not make packages similar.
    """
    wanted = {
        tag
        for package in packages
        for tag in package.tags
        if tag.partition("::")[0] in facets and tag_path(tag)
    }
    names = sorted(wanted)
    column = {name: number for number, name in enumerate(names)}
    hot = [(row, column[tag]) for row, p in enumerate(packages) for tag in p.tags if tag in column]
    table = torch.zeros(len(packages), len(names), dtype=torch.int64)
    if hot:
        rows, columns = torch.tensor(hot).unbind(1)
        table[rows, columns] = 1
    table[table.sum(1) == 0] = -1
    return names, table


def debtags_taxonomy() -> Taxonomy:
    """Areas and sections: 11 + 58 nodes below the root."""
    paths = [(area, section) for area, sections in SECTIONS.items() for section in sections]
    return Taxonomy.from_paths(paths, root_name="debian")


def package_source(packages: Sequence[Package], name: str = NAME, facets: Sequence[str] = FACETS) -> Source:
    """Packages as samples.

    The label is the section; each facet is an aspect with the label of `facet_label`; ratings are the matrix
    of `tag_table`. Binary packages of the same source package, and packages with equal texts, form a group.
    The split depends on the hash of the group's alphabetically first source package.

    Args:
        packages: The packages, at least one.
        name: Name of the data set.
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
    return Source.in_order(
        name,
        taxonomy,
        taxonomy.encode(paths),
        groups=group_ids(firsts),
        split=hash_splits(firsts, VAL, TEST),
        aspect_taxonomies=tuple(trees.values()),
        aspects=torch.stack(aspects, 1) if aspects else None,
        ratings=tag_table(packages, facets)[1],
        texts=[package.text for package in packages],
    )


def _first_sources(packages: Sequence[Package]) -> list[str]:
    """For each package the alphabetically first source package in its group."""
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
    """Download the tagged packages into the cache folder, from the lists of the machine's package sources.

    Returns:
        The folder of the packages.

    Raises:
        DataError: If the download fails; the message says what to do instead.
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
    with downloading(folder, "the package lists", "run the command again") as (work, _):
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
        DataError: If they are missing or damaged; the message has the command that downloads them.
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
    """Open the packages with the tag `role::program`; the facet role is no aspect.

    Raises:
        DataError: If they are missing or damaged; the message has the command that downloads them.
    """
    programs = [p for p in read_packages(path / FILE) if "role::program" in p.tags]
    if not programs:
        raise DataError(f"'{path / FILE}' has no package with the tag role::program")
    return package_source(programs, PROGRAMS, [facet for facet in FACETS if facet != "role"])
