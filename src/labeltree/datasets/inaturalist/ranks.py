"""iNaturalist's categories as trees: seven ranks, or genus and species."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from labeltree.errors import DataError

__all__ = ["RANKS", "genus_paths", "has_ranks", "rank_paths"]

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
"""Above the species, coarse to fine."""

Category = Mapping[str, Any]


def has_ranks(categories: Sequence[Category]) -> bool:
    """Whether the categories say their ranks; those of 2017 do not, nor do the first files of 2019."""
    return any(category.get("kingdom") for category in categories)


def rank_paths(categories: Sequence[Category]) -> dict[int, tuple[str, ...]]:
    """Paths of seven names, kingdom to species, by the category's id.

    A rank that a category does not give is filled by a node of its own, named after the next finer taxon:
    ``Cichlidae (order incertae sedis)``. So depth is rank for all species, and no two taxa become siblings
    or kin by what both lack: every pair that shares a given taxon shares just what it shares without the
    filled ranks.

    Raises:
        DataError: If a category has no name, or nothing else.
    """
    paths: dict[int, tuple[str, ...]] = {}
    for category in categories:
        path = [_name(category)]
        for rank in reversed(RANKS):
            given = str(category.get(rank) or "").strip()
            if not given:
                taxon = path[0].partition(" (")[0] if path[0].endswith("incertae sedis)") else path[0]
                given = f"{taxon} ({rank} incertae sedis)"
            path.insert(0, given)
        paths[_id(category)] = tuple(path)
    return _distinct(paths)


def genus_paths(categories: Sequence[Category]) -> dict[int, tuple[str, ...]]:
    """Paths of two names, genus and species, by the category's id; the genus is the first word of the name.

    Where a name is a genus of two super-categories, as of a bird and of a plant, these are two nodes:
    ``Prunella (Aves)``.

    Raises:
        DataError: If a category has no name, or nothing else.
    """
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for category in categories:
        kinds[_name(category).split()[0]].add(str(category.get("supercategory", "")))
    paths: dict[int, tuple[str, ...]] = {}
    for category in categories:
        genus = _name(category).split()[0]
        kind = str(category.get("supercategory", ""))
        paths[_id(category)] = (f"{genus} ({kind})" if len(kinds[genus]) > 1 else genus, _name(category))
    return _distinct(paths)


def _name(category: Category) -> str:
    name = str(category.get("name") or "").strip()
    if not name:
        raise DataError(f"a category has no name: {dict(category)}")
    return name


def _id(category: Category) -> int:
    if not isinstance(category.get("id"), int):
        raise DataError(f"category '{category.get('name')}' has no id")
    return int(category["id"])


def _distinct(paths: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Two categories of one path get their ids into their names."""
    several = {path for path, count in Counter(paths.values()).items() if count > 1}
    return {
        number: (*path[:-1], f"{path[-1]} ({number})") if path in several else path
        for number, path in paths.items()
    }
