"""Tar files as WebDataset writes them: consecutive members with the same key are one sample."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from labeltree.data.images.encoded import read_part
from labeltree.data.source import printable
from labeltree.data.table_columns import cell_text
from labeltree.errors import DataError
from labeltree.file_kinds import IMAGE_SUFFIXES
from labeltree.safe_files import value_from_json
from labeltree.system_files import is_system_file

__all__ = ["TarSample", "is_image", "read_fields", "tar_samples"]

_TEXTS = frozenset({"cls", "cls2", "txt", "text", "caption", "label", "id"})
_TRIED = 2000  # members that tell where the names of samples end
_LONGEST_TEXT = 1 << 20
_IMAGES = frozenset(extension.removeprefix(".") for extension in IMAGE_SUFFIXES)


@dataclass(frozen=True, slots=True)
class TarSample:
    """A sample in a tar file.

    Attributes:
        key: The members' path up to the first dot of the file name; up to the last one where the names of
            samples have dots, see `tar_samples`.
        members: Offset and size in bytes of each member, by extension: what follows that dot, in lower case.
    """

    key: str
    members: dict[str, tuple[int, int]]

    def image(self, extension: str | None = None) -> str | None:
        """The extension of the sample's image, or None if it has none.

        Args:
            extension: The extension that is wanted; None = the first member that is an image, preferably
                with an extension without a dot (`jpg` rather than `seg.png`).
        """
        if extension is not None:
            return extension if extension in self.members else None
        images = self.images()
        return images[0] if images else None

    def images(self) -> list[str]:
        """The extensions of the members that are images, those without a dot first."""
        return sorted(filter(is_image, self.members), key=lambda extension: "." in extension)


def is_image(extension: str) -> bool:
    """Whether a member with this extension (`jpg`, `seg.png`) is an image."""
    return extension.rpartition(".")[2] in _IMAGES


def tar_samples(path: str) -> Iterator[TarSample]:
    """The samples of a tar file, in order; only the members' headers are read.

    The name of a sample ends at the first dot of its file names, as WebDataset has it, unless the first
    members of the shard show that names have dots (`a1.5x.jpg`, `a1.5x.cls`): texts such as `cls` all follow
    a further dot; or what stands between the first and the last dot belongs to one sample each. Then it ends
    at the last dot.

    Directories, links, what systems leave (see `is_system_file`), files without an extension and WebDataset's
    `__…` members are passed over.

    Raises:
        DataError: If the file is no tar file, is damaged or cut off, which is found after the samples before
            that place; if an extension occurs twice in a sample, or the members of a sample lie apart.
    """
    where = f"the shard '{printable(path)}'"
    keys: set[str] = set()
    key = ""
    members: dict[str, tuple[int, int]] = {}
    split = str.rpartition if _names_have_dots(path, where) else str.partition
    for name, offset, size in _members(path, where):
        if not _is_part(name):
            continue
        folder, slash, file = name.rpartition("/")
        base, _, extension = split(file, ".")
        prefix, extension = f"{folder}{slash}{base}", extension.lower()
        if prefix != key:
            if members:
                yield TarSample(key, members)
            if prefix in keys:
                raise DataError(
                    f"{where} has members of the sample '{printable(prefix)}' in two places: those of a "
                    "sample follow each other, as 'tar --sort=name' writes them, and each has its own name"
                )
            keys.add(prefix)
            key, members = prefix, {}
        if extension in members:
            raise DataError(
                f"{where} has '{printable(name)}' twice, or in capital and small letters; the name of a "
                "sample ends at the first dot, so give each another name before its first dot"
            )
        members[extension] = (offset, size)
    if members:
        yield TarSample(key, members)


def _is_part(name: str) -> bool:
    """Whether a member belongs to a sample."""
    base, _, extension = name.rpartition("/")[2].partition(".")
    return bool(base and extension) and not (
        name.startswith("__") or any(map(is_system_file, name.split("/")))
    )


def _names_have_dots(path: str, where: str) -> bool:
    """Whether the names of samples have dots, by the first members of a shard; see `tar_samples`."""
    keys_of: dict[str, set[str]] = {}
    plain_texts = dotted_texts = False
    try:
        for name, _, _ in islice(_members(path, where), _TRIED):
            if not _is_part(name):
                continue
            folder, _, file = name.rpartition("/")
            key, _, extension = file.partition(".")
            between, dot, last = extension.lower().rpartition(".")
            is_text = last == "json" or last in _TEXTS
            if dot:
                keys_of.setdefault(between, set()).add(f"{folder}/{key}")
                dotted_texts |= is_text
            else:
                plain_texts |= is_text
    except DataError:  # raised again where the damage lies
        pass
    if not keys_of:
        return False
    own = len(set.union(*keys_of.values())) > 1 and all(len(keys) == 1 for keys in keys_of.values())
    return own or (dotted_texts and not plain_texts)


def _members(path: str, where: str) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each file in a tar file."""
    again = "fetch or write it again"
    try:
        with open(path, "rb") as opened, tarfile.TarFile(path, "r", opened) as tar:
            end = os.fstat(opened.fileno()).st_size
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # else tarfile keeps all of them in memory
                if member.offset_data + member.size > end:
                    raise DataError(f"{where} has been cut off within '{printable(member.name)}'; {again}")
                if member.isreg() and not member.issparse():
                    yield member.name.removeprefix("./"), member.offset_data, member.size
            # tarfile takes a broken header for the end.
            opened.seek(tar.offset)
            last = opened.read(tarfile.BLOCKSIZE)
            if len(last) < tarfile.BLOCKSIZE:
                raise DataError(f"{where} has been cut off: it has no mark at its end; {again}")
            if last.strip(b"\0"):
                raise DataError(f"{where} is damaged at byte {tar.offset:,}; {again}")
    except tarfile.TarError as error:
        why = "is not a tar file, or has been cut off" if os.path.getsize(path) else "is empty"
        raise DataError(f"{where} {why}; {again}") from error
    except OSError as error:
        raise DataError(f"{where} cannot be read: {(error.strerror or str(error)).lower()}") from error


def read_fields(path: str, sample: TarSample) -> dict[str, str]:
    """The texts of a sample by name: of its members `cls`, `txt` and the like, and the fields of its
    `json`; lists and nested fields are passed over.

    Raises:
        DataError: If one is no text in UTF-8, or no JSON object.
    """
    fields: dict[str, str] = {}
    for extension, (offset, size) in sample.members.items():
        if extension != "json" and extension not in _TEXTS:
            continue
        where = f"the shard '{printable(path)}': '{printable(sample.key)}.{extension}'"
        if size > _LONGEST_TEXT:
            raise DataError(f"{where} has {size:,} bytes, and {_LONGEST_TEXT:,} are the most that are read")
        try:
            text = read_part(path, offset, size).decode("utf-8-sig")
            content: Any = value_from_json(text) if extension == "json" else {extension: text}
        except UnicodeDecodeError as error:
            raise DataError(f"{where} is not text in UTF-8") from error
        except ValueError as error:
            raise DataError(f"{where} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise DataError(f'{where} holds no values by name; write an object such as {{"label": "dog"}}')
        values = {
            name: cell_text(value) for name, value in content.items() if isinstance(value, str | int | float)
        }
        fields |= {name: value for name, value in values.items() if value is not None}
    return fields
