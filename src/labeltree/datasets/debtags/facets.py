"""Facets of debtags as aspects: a tree of the tags of each facet, and one label per package in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from labeltree.datasets.debtags.lists import Package
from labeltree.taxonomy import Taxonomy

__all__ = ["FACETS", "facet_label", "facet_taxonomy", "tag_path", "tag_table"]

FACETS = ("role", "implemented-in", "interface", "uitoolkit", "use", "works-with", "suite")
"""Facets in which at least 5 % of the packages of Debian 12 have another label than the most frequent one."""

# A tag's finer parts follow a colon: works-with::image:raster. The tags of one facet also lie within each
# other without saying so: what has an X interface is tagged as graphical as well. This edge is ours.
_ABOVE: Mapping[str, str] = dict.fromkeys(
    ("interface::x11", "interface::3d", "interface::framebuffer", "interface::svga"), "graphical"
)


def tag_path(tag: str) -> tuple[str, ...]:
    """The path of a tag in the tree of its facet; empty for ``TODO``, which stands for a tag to come.

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

    Of several, those count that no finer one implies, and their lowest common ancestor is the label. Empty
    where that is the root, or there is no tag.

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
    """The tree of all tags of a facet that packages have, siblings by name; None if there are none."""
    paths = {tag_path(tag) for package in packages for tag in package.tags if tag.startswith(f"{facet}::")}
    return Taxonomy.from_paths(sorted(paths - {()}), root_name=facet) if paths - {()} else None


def tag_table(packages: Sequence[Package], facets: Sequence[str]) -> tuple[list[str], Tensor]:
    """Which tags each package has.

    Returns:
        The tags of the facets that packages have, by name, without ``TODO``; and 1 where a package has one,
        else 0: ``(n, T)`` int64. A package without any has -1 throughout: nobody has tagged it, which does
        not make it like another.
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
