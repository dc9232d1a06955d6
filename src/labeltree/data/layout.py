"""Whether a folder holds what a named data set needs, and as much as its authors say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeltree.data.progress import Progress
from labeltree.data.registry import DatasetEntry, Needed
from labeltree.data.source import SPLITS, Source
from labeltree.errors import DataError, LabeltreeError

__all__ = ["Inventory", "check_layout", "missing_files", "require_files"]


@dataclass(frozen=True)
class Inventory:
    """What a folder holds of a data set.

    Attributes:
        problems: What is missing or not as published, a sentence each; empty = complete.
        samples: Of each split, in order; of ``all`` where there are no splits. Empty if it cannot be opened.
        labels: Distinct labels of the samples at each depth, coarse to fine.
        unlabelled: Samples without a label.
    """

    problems: tuple[str, ...]
    samples: dict[str, int]
    labels: tuple[int, ...]
    unlabelled: int = 0


def missing_files(entry: DatasetEntry, path: Path) -> list[str]:
    """A sentence for every file or folder that a data set needs and that is not below ``path``."""
    if entry.files and not path.is_dir():
        wanted = dict.fromkeys(needed.what for needed in entry.files)
        return [f"there is no folder '{path}'. It should hold {'; '.join(wanted)}"]
    return [_sentence(needed, path) for needed in entry.files if not _is_there(needed, path)]


def require_files(entry: DatasetEntry, path: Path) -> None:
    """Make sure that all files are there.

    Raises:
        DataError: With what is missing, where it was expected, and how to get it.
    """
    missing = missing_files(entry, path)
    if not missing:
        return
    how = (
        f"'labeltree data get {entry.name}' fetches the data set"
        if entry.fetch is not None
        else "unpack its official archives there, or name the folder where they are with data_path"
    )
    raise DataError(f"data set '{entry.name}': {'; '.join(missing)}. {how[0].upper()}{how[1:]}")


def check_layout(entry: DatasetEntry, path: Path, *, progress: Progress | None = None) -> Inventory:
    """Look what a folder holds of a data set, and compare it with what its authors published.

    Nothing is written and nothing raised for incomplete data. Unreadable images are reported, not counted.
    """
    missing = missing_files(entry, path)
    if missing:
        return Inventory(tuple(missing), {}, ())
    try:
        source = entry.open(path=path, image_size=8, on_error="raise", cache=False, progress=progress)
        problems: list[str] = []
    except LabeltreeError as error:
        problems = [str(error)]
        try:
            source = entry.open(path=path, image_size=8, on_error="skip", cache=False, progress=progress)
        except LabeltreeError:
            return Inventory(tuple(problems), {}, ())
    samples, labels = _samples(source), _labels(source)
    problems += _differences(entry, samples, labels)
    return Inventory(tuple(problems), samples, labels, int((source.nodes < 0).sum()))


def _sentence(needed: Needed, path: Path) -> str:
    return f"there is no {' or '.join(repr(str(path / p)) for p in needed.choices)} ({needed.what})"


def _is_there(needed: Needed, path: Path) -> bool:
    return any(next(_matches(path, pattern), None) is not None for pattern in needed.choices)


def _matches(path: Path, pattern: str) -> Iterator[Path]:
    if "*" in pattern or "?" in pattern:
        return path.glob(pattern) if path.is_dir() else iter(())
    return iter([path / pattern] if (path / pattern).exists() else [])


def _samples(source: Source) -> dict[str, int]:
    if source.split is None:
        return {"all": len(source)}
    counts = {split: int((source.split == split).sum()) for split in SPLITS}
    counts["in no split"] = len(source) - sum(counts.values())
    return {split: count for split, count in counts.items() if count}


def _labels(source: Source) -> tuple[int, ...]:
    """Distinct nodes at each depth among the paths of the samples' labels."""
    nodes = np.unique(source.nodes[source.nodes >= 0].numpy())
    above = source.taxonomy.ancestors.numpy()[nodes, 1:]
    counts = [int((np.unique(column) >= 0).sum()) for column in above.T]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def _differences(entry: DatasetEntry, samples: dict[str, int], labels: tuple[int, ...]) -> list[str]:
    published = entry.published
    if published is None:
        return []
    problems = [
        f"{samples.get(split, 0):,} samples in '{split}' where {count:,} are published ({published.source})"
        for split, count in published.splits.items()
        if samples.get(split, 0) != count
    ]
    if published.classes and len(published.classes) != len(labels):
        problems.append(f"labels have {len(labels)} depths where {len(published.classes)} are expected")
    problems += [
        f"{found:,} classes at depth {depth} where {count:,} are published ({published.source})"
        for depth, (found, count) in enumerate(zip(labels, published.classes, strict=False), 1)
        if count is not None and found != count
    ]
    return problems
