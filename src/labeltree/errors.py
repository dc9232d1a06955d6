"""Errors of labeltree, with messages that say what is wrong, where, and what to do instead."""

import errno
import os
import re
import shlex
from collections.abc import Iterable

__all__ = [
    "DataError",
    "FolderInUseError",
    "LabeltreeError",
    "OtherSettingsError",
    "RecipeError",
    "RunError",
    "TaxonomyError",
    "UnknownLabelError",
    "WriteError",
    "check_place",
    "find_unknown",
    "say_how_to_list",
    "say_to_write",
    "typed",
]


class LabeltreeError(Exception):
    """Base of all errors that the command line prints as one sentence."""


class TaxonomyError(LabeltreeError, ValueError):
    """A taxonomy is malformed, or a label does not belong to it."""


class UnknownLabelError(TaxonomyError):
    """Labels of data are not in the taxonomy that they are read with.

    Attributes:
        paths: The names of each of them, coarse to fine.
    """

    def __init__(self, sentence: str, paths: Iterable[tuple[str, ...]]) -> None:
        super().__init__(sentence)
        self.paths = tuple(paths)


def find_unknown(error: BaseException | None) -> UnknownLabelError | None:
    """The error on unknown labels that led to an error; None if it has another cause."""
    while error is not None and not isinstance(error, UnknownLabelError):
        error = error.__cause__
    return error


def say_how_to_list(error: BaseException, taxonomy: object, data: object) -> str:
    """The end of a sentence on unknown labels of which it names a few: the command that lists all."""
    unknown = find_unknown(error)
    if unknown is None or all(path[-1] in str(error) for path in unknown.paths if path):
        return ""
    return f"; 'labeltree taxonomy review {typed(taxonomy)} --data {typed(data)}' lists all of these labels"


class DataError(LabeltreeError, ValueError):
    """A data set is missing, incomplete or unreadable."""


class RecipeError(LabeltreeError, ValueError):
    """A recipe is missing, has an unknown setting or a value of the wrong kind."""


class RunError(LabeltreeError, RuntimeError):
    """A run folder is missing, incomplete or unsuitable for the operation."""


class OtherSettingsError(RunError):
    """A run folder holds a run with different settings."""


class FolderInUseError(RunError):
    """Another process is writing in a folder."""


class WriteError(LabeltreeError, OSError):
    """A file or folder cannot be written: the disk is full, or writing is not permitted.

    `errno`, `strerror` and `filename` are those of the original `OSError`.
    """

    def __str__(self) -> str:
        reason = (self.strerror or "the system does not say why").lower()
        return (
            f"cannot write '{self.filename}': {reason}; {_REMEDIES.get(self.errno or 0, 'write elsewhere')}"
        )


_NO_ROOM = "free some space there, or write elsewhere"
_NOT_PERMITTED = "make it writable, or write elsewhere"
_REMEDIES = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or write elsewhere",
    errno.EROFS: _NOT_PERMITTED,
    errno.EACCES: _NOT_PERMITTED,
    errno.EPERM: _NOT_PERMITTED,
}


def check_place(name: str, place: object, error: type[LabeltreeError] = DataError) -> None:
    """Refuse an object, such as a data frame, where the place of a file or folder is expected.

    Args:
        name: Of the argument.
        place: What it is.
        error: Its class.

    Raises:
        LabeltreeError: If it is neither text nor a path.
    """
    if not isinstance(place, str | os.PathLike):
        kind = type(place).__name__
        raise error(
            f"{name} is of type {kind}, where the place of a folder or file is expected{say_to_write(place)}"
        )


def say_to_write(value: object) -> str:
    """What to do with data in memory where a file is expected, as the end of a sentence."""
    if hasattr(value, "to_parquet"):
        return "; write it, as by frame.to_parquet('data.parquet'), and name the file"
    if len(getattr(value, "shape", ())) == 2:
        return (
            "; write it with its labels, as by numpy.savez('data.npz', vectors=vectors, labels=labels), and "
            "name the file"
        )
    return ""


def typed(path: object) -> str:
    """A path within a command of a message, as a shell reads it: in double quotes if it needs any."""
    text = str(path)
    if shlex.quote(text) == text:
        return text
    return '"' + re.sub(r'(["$`\\\\])', r"\\\1", text) + '"'
