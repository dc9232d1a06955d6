"""Which files are meant by a folder, a pattern or a file of shards, and which split each belongs to."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labeltree.data.shards.parquet import image_column_of
from labeltree.data.source import printable
from labeltree.errors import DataError
from labeltree.file_kinds import names_image
from labeltree.split_names import SPLIT_NAMES, SPLITS
from labeltree.system_files import is_system_file

__all__ = ["ShardKind", "Shards", "expand_braces", "find_shards"]

ShardKind = Literal["tar", "parquet"]
_SUFFIXES: dict[str, ShardKind] = {".tar": "tar", ".parquet": "parquet", ".pq": "parquet"}
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_SPLIT_OF = dict(zip(SPLITS, SPLITS, strict=True)) | SPLIT_NAMES
_FIRST_WORD = re.compile(r"[A-Za-z]+(?![A-Za-z])")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_SHARDS = 1_000_000


@dataclass(frozen=True)
class Shards:
    """Files of shards.

    Attributes:
        spec: What named them.
        kind: `tar` or `parquet`.
        root: The folder that all of them lie in.
        files: Absolute paths, in the order in which they are read.
        splits: Split of each file by its name or folder; None if these name no splits.
    """

    spec: str
    kind: ShardKind
    root: Path
    files: tuple[str, ...]
    splits: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"the shards '{printable(self.spec)}'"

    @property
    def names(self) -> list[str]:
        """The path of each file relative to the root."""
        return [printable(os.path.relpath(file, self.root)) for file in self.files]


def find_shards(spec: str | Path, image_column: Sequence[str] | str | None = None) -> Shards | None:
    """Find the shards that are meant by a path or pattern; None if it means something else.

    Shards are: a `.tar` file; a `.parquet` file with a column of image bytes; a pattern with braces such
    as `train-{000000..000099}.tar` or `{train,val}-{0..9}.tar`; a folder that holds only such files,
    itself or in folders named after splits.

    Args:
        spec: The path or pattern.
        image_column: Column of the images, if the user names one.

    Raises:
        DataError: If a shard of a pattern is missing, files are compressed, or kinds are mixed.
    """
    text = str(spec)
    path = Path(text).expanduser()
    if _BRACES.search(text) and not path.exists():
        files = _expand(str(path))
    elif path.is_dir():
        files = _list_folder(path)
    elif path.name.lower().endswith(_PACKED) and path.is_file():
        raise DataError(
            f"'{text}' is compressed, so that no sample in it can be read by itself; decompress it"
        )
    elif path.suffix.lower() in _SUFFIXES and path.is_file():
        files = [str(path)]
    else:
        return None
    kinds = {_SUFFIXES.get(Path(file).suffix.lower()) for file in files}
    if not files or None in kinds:
        return None
    if len(kinds) > 1:
        raise DataError(
            f"'{text}' holds both .tar and .parquet files; name one kind by a pattern such as "
            "'name-{000..099}.tar'"
        )
    kind = kinds.pop()
    assert kind is not None
    if kind == "parquet" and path.is_file() and not _holds_images(files[0], image_column):
        return None  # a table, or damaged, as its reader says
    files = [os.path.abspath(file) for file in files]
    root = path if path.is_dir() else Path(os.path.commonpath([os.path.dirname(file) for file in files]))
    root = Path(os.path.abspath(root))
    return Shards(text, kind, root, tuple(files), _splits(files, root))


def _holds_images(file: str, image_column: Sequence[str] | str | None) -> bool:
    try:
        return image_column_of(file, image_column) is not None
    except DataError:
        return False


def expand_braces(pattern: str) -> list[str]:
    """All names of a pattern with braces, whether there are such files or not.

    Example:
        >>> _choices("0..2"), _choices("008..010"), _choices("train,val")
        (['0', '1', '2'], ['008', '009', '010'], ['train', 'val'])
    """
    pieces = _BRACES.split(pattern)
    choices = [[piece] if place % 2 == 0 else _choices(piece) for place, piece in enumerate(pieces)]
    number = 1
    for options in choices:
        number *= len(options)
    if number > _MOST_SHARDS:
        raise DataError(f"the pattern '{pattern}' names {number:,} files; {_MOST_SHARDS:,} are the most")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _expand(pattern: str) -> list[str]:
    """All files named by a pattern with braces."""
    files = expand_braces(pattern)
    missing = [file for file in files if not os.path.isfile(file)]
    if missing:
        more = f" and {len(missing) - 1} more of {len(files)}" if len(missing) > 1 else ""
        raise DataError(f"the pattern '{pattern}' names the file '{missing[0]}'{more}, which is not there")
    return files


def _choices(piece: str) -> list[str]:
    if (bounds := _RANGE.fullmatch(piece)) is None:
        return piece.split(",")
    first, last = bounds.groups()
    if int(last) - int(first) >= _MOST_SHARDS:
        raise DataError(f"the pattern {{{piece}}} names more than {_MOST_SHARDS:,} files")
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]


def _list_folder(folder: Path) -> list[str]:
    """The shards in a folder, and in its folders named after splits; none if it has images or other folders.

    A folder of images may hold the archive from which they were unpacked.
    """
    shards: list[str] = []
    for entry in _sorted_entries(folder):
        if not entry.is_dir():
            if names_image(entry.name):
                return []
            if Path(entry.name).suffix.lower() in _SUFFIXES:
                shards.append(entry.path)
            continue
        inner = [
            inside for inside in _sorted_entries(entry.path) if Path(inside.name).suffix.lower() in _SUFFIXES
        ]
        if entry.name.lower() not in _SPLIT_OF or not inner:
            return []
        shards += [inside.path for inside in inner]
    return shards


def _sorted_entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot read the folder '{printable(str(folder))}': {error.strerror}") from error
    return [entry for entry in ordered if not is_system_file(entry.name)]


def _splits(files: Sequence[str], root: Path) -> tuple[str, ...] | None:
    """The split that each file's folder, or else the first word of its name, is called by.

    As with folders of images, names are splits if all are, and one is `train`.
    """
    splits = []
    for file in files:
        parts = Path(file).relative_to(root).parts
        word = _FIRST_WORD.match(parts[-1])
        splits.append(_SPLIT_OF.get((parts[0] if len(parts) > 1 else word[0] if word else "").lower(), ""))
    return tuple(splits) if all(splits) and "train" in splits and len(set(splits)) > 1 else None
