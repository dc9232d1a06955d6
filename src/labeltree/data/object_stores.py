"""Files in object stores, `s3://bucket/name`: copied into the cache folder, and read there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from labeltree.atomic import atomic_write, write_text
from labeltree.cache import data_home, free_bytes, one_at_a_time
from labeltree.errors import DataError, LabeltreeError, check_place
from labeltree.offline import OFFLINE, offline

__all__ = ["STORES", "is_remote", "local_copy"]

STORES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""The schemes of addresses, each with the package that reads it; only `s3` has been tried."""
_ADDRESS = re.compile(r"([a-z0-9]+):/{1,2}([^/].*)", re.DOTALL)  # `pathlib` makes one slash of two
_PASSWORD = re.compile(r"(?!arn:)[^/@]*:.*@", re.DOTALL)  # before a bucket, as in addresses of servers
_COPIES = 8  # files that are copied at a time
_NOTED_S = 10.0  # after so many seconds at most it is noted which files are there


def is_remote(place: str | Path) -> bool:
    """Whether a place is an address in an object store."""
    return _address(place) is not None


def local_copy(place: str | Path) -> str:
    """A file, a folder or a pattern of shards on the disk: of an address, a copy in the cache folder.

    A file whose size, time and tag in the store are those of the copy is not fetched again; a file that a
    stopped process was copying is. Of a folder, what is no longer in the store is removed from the copy.
    Names with several slashes in a row, which a disk does not tell from one, lie where one would.

    Args:
        place: The address, such as `s3://bucket/train-{000..099}.tar`; what is no address is returned.

    Raises:
        DataError: If it is an object and no place, the package of the store is not installed, there is no
            such file, the disk has no room, the store refuses, or the address holds a password, which then is
            not shown.
        WriteError: If the cache folder cannot be written to.
    """
    check_place("data", place)
    address = _address(place)
    if address is None:
        return str(place)
    scheme, key = address
    if (keys := _PASSWORD.match(key)) is not None:
        raise DataError(
            f"'{scheme}://…@{key[keys.end() :]}' holds a password, which records and logs would keep; leave "
            "it out, and give it to the tools of the store (AWS_SECRET_ACCESS_KEY, ~/.aws)"
        )
    shown = f"{scheme}://{key}"
    if offline():
        raise DataError(f"'{shown}' lies in an object store, and {OFFLINE} says that nothing may be fetched")
    if find_spec(STORES[scheme]) is None:
        extra = f"'labeltree[{scheme}]'" if scheme == "s3" else STORES[scheme]
        raise DataError(f"'{shown}' is read by {STORES[scheme]}, which is not installed: pip install {extra}")
    import fsspec

    from labeltree.data.shards.shard_files import expand_braces

    try:
        store = fsspec.filesystem(scheme)
        store.invalidate_cache()  # what it has listed before in this process
        key = store._strip_protocol(shown)  # as the store names its files
        root, _, last = key.partition("{")[0].rpartition("/")
        home = data_home() / "copies" / hashlib.sha256(f"{scheme}://{root}".encode()).hexdigest()[:16]
        with one_at_a_time(home):
            if "{" not in key and store.isdir(key):
                about = {name: one for name, one in store.find(key, detail=True).items() if name[-1] != "/"}
                if not about:
                    raise DataError(f"'{shown}' is a folder without files")
                files = _place_files(about, root)
                _remove_others(home / "files", last, files)
            else:
                names = [key]
                if "{" in key:
                    names, last = expand_braces(key), key[len(root) + 1 :]
                with ThreadPoolExecutor(_COPIES, "store") as pool:
                    files = _place_files(dict(zip(names, pool.map(store.info, names), strict=True)), root)
            _copy(store, files, home, shown)
    except FileNotFoundError as error:
        raise DataError(f"'{shown}' names a file that is not in the store: {error}") from error
    except LabeltreeError:
        raise
    except Exception as error:  # each store has errors of its own
        raise DataError(f"'{shown}' cannot be fetched: {type(error).__name__}: {error}") from error
    return str(home / "files" / last)


def _address(place: str | Path) -> tuple[str, str] | None:
    matched = _ADDRESS.fullmatch(str(place))
    return None if matched is None or matched[1] not in STORES else (matched[1], matched[2])


def _place_files(about: Mapping[str, dict[str, Any]], root: str) -> dict[str, dict[str, Any]]:
    """What the store says of files, by their places below the root.

    Raises:
        DataError: If a place lies outside, or two files have the same.
    """
    places = {name: _inside(name, root) for name in about}
    twice, often = next(iter(Counter(places.values()).most_common(1)), ("", 0))
    if often > 1:
        names = " and ".join(f"'{name}'" for name, place in places.items() if place == twice)
        raise DataError(f"the store has {names}, which are one file on a disk; leave one out")
    return {place: {**about[name], "name": name} for name, place in places.items()}


def _copy(store: Any, files: Mapping[str, dict[str, Any]], home: Path, shown: str) -> None:
    """Copy the files that are not there yet, or that have changed."""
    notes = home / "files.json"
    seen: dict[str, str] = {}
    with suppress(OSError, ValueError):
        seen = dict(json.loads(notes.read_text("utf-8")))
    keys = {place: _key(about) for place, about in files.items()}
    left = [
        place
        for place, key in keys.items()
        if seen.get(place) != key or not (home / "files" / place).is_file()
    ]
    needed = sum(int(files[place].get("size") or 0) for place in left)
    if needed > (free := free_bytes(home)):
        raise DataError(
            f"'{shown}' takes {needed / 1e9:,.1f} GB, and the cache folder has {free / 1e9:,.1f} GB: name "
            "fewer files, mount the bucket as a folder, or let an engine read it (docs/how-far.md)"
        )

    def copy(place: str) -> None:
        _copy_file(store, files[place], home / "files" / place, shown)
        seen[place] = keys[place]

    noted = time.monotonic()
    try:
        with ThreadPoolExecutor(_COPIES, "store") as pool:
            for _ in pool.map(copy, left):
                if time.monotonic() - noted > _NOTED_S:
                    write_text(notes, json.dumps(seen.copy()))
                    noted = time.monotonic()
    finally:  # what is there need not be copied again
        if left:
            write_text(notes, json.dumps(seen))


def _copy_file(store: Any, about: Mapping[str, Any], target: Path, shown: str) -> None:
    """Copy a file, as a whole or not at all, with its time of change."""
    with atomic_write(target) as temporary:
        store.get_file(about["name"], str(temporary))
        size, arrived = about.get("size"), temporary.stat().st_size
        if size is not None and size != arrived:
            raise DataError(
                f"of '{about['name']}' in '{shown}', {arrived:,} of {size:,} bytes have arrived; try again"
            )
        with suppress(KeyError, AttributeError, TypeError, OSError):  # alike on all machines
            changed = _cut_fractions(about["LastModified"]).timestamp()
            os.utime(temporary, (changed, changed))


def _remove_others(home: Path, folder: str, names: Container[str]) -> None:
    """Remove what a copied folder holds beside the files of these names, and folders that are empty then."""
    for path in sorted((home / folder).rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):  # it is not empty
                path.rmdir()
        elif path.relative_to(home).as_posix() not in names:
            path.unlink()


def _inside(name: str, root: str) -> str:
    """The place of a file below the root.

    Raises:
        DataError: If it would lie outside.
    """
    inner = name.removeprefix(root).lstrip("/")
    parts = PurePosixPath(inner).parts
    if not parts or not name.startswith(root) or ".." in parts or "\\" in inner or "\0" in inner:
        raise DataError(f"the store has a file '{name}', whose name leads out of its folder; leave it out")
    return "/".join(parts)


def _key(about: Mapping[str, Any]) -> str:
    """What changes when a file does."""
    told = {
        name: str(_cut_fractions(about.get(name)))
        for name in ("size", "ETag", "etag", "LastModified", "mtime", "created")
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _cut_fractions(value: Any) -> Any:
    """A time without what a store tells of it in a list of files and not of the single file."""
    return value.replace(microsecond=0) if isinstance(value, datetime) else value
