"""Files in object stores, `s3://bucket/name`: copied into the cache folder, and read there."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from labeltree.atomic import atomic_write, write_text
from labeltree.cache import data_home, free_bytes, one_at_a_time
from labeltree.errors import DataError
from labeltree.offline import OFFLINE, offline

__all__ = ["STORES", "is_remote", "local_copy"]

STORES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""The schemes of addresses, each with the package that reads it; only `s3` has been tried."""
_ADDRESS = re.compile(r"([a-z0-9]+):/{1,2}([^/].*)", re.DOTALL)  # `pathlib` makes one slash of two
_COPIES = 8  # files that are copied at a time


def is_remote(place: str | Path) -> bool:
    """Whether a place is an address in an object store."""
    return _address(place) is not None


def local_copy(place: str | Path) -> str:
    """A file, a folder or a pattern of shards on the disk: of an address, a copy in the cache folder.

    A file whose size, time and tag in the store are those of the copy is not fetched again; a file that a
    stopped process was copying is. Of a folder, what is no longer in the store is removed from the copy.

    Args:
        place: The address, such as `s3://bucket/train-{000..099}.tar`; what is no address is returned.

    Raises:
        DataError: If the package of the store is not installed, there is no such file, the disk has no room,
            or the store refuses.
    """
    address = _address(place)
    if address is None:
        return str(place)
    scheme, key = address
    shown = f"{scheme}://{key}"
    if offline():
        raise DataError(f"'{shown}' lies in an object store, and {OFFLINE} says that nothing may be fetched")
    if find_spec(STORES[scheme]) is None:
        extra = f"'labeltree[{scheme}]'" if scheme == "s3" else STORES[scheme]
        raise DataError(f"'{shown}' is read by {STORES[scheme]}, which is not installed: pip install {extra}")
    import fsspec

    from labeltree.data.shards.finding import expand_braces

    try:
        store = fsspec.filesystem(scheme)
        key = store._strip_protocol(shown)  # as the store names its files
        root, _, last = key.partition("{")[0].rpartition("/")
        whole = False
        if "{" in key:
            wanted, last = expand_braces(key), key[len(root) + 1 :]
        elif store.isdir(key):
            wanted, whole = [name for name in store.find(key) if not name.endswith("/")], True
        else:
            wanted = [key]
        home = data_home() / "copies" / hashlib.sha256(f"{scheme}://{root}".encode()).hexdigest()[:16]
        with one_at_a_time(home):
            _copy(store, wanted, root, home, shown)
            if whole:
                _remove_others(home / "files", last, {_inside(name, root) for name in wanted})
    except FileNotFoundError as error:
        raise DataError(f"'{shown}' names a file that is not in the store: {error}") from error
    except DataError:
        raise
    except Exception as error:  # each store has errors of its own
        raise DataError(f"'{shown}' cannot be fetched: {type(error).__name__}: {error}") from error
    return str(home / "files" / last)


def _address(place: str | Path) -> tuple[str, str] | None:
    matched = _ADDRESS.fullmatch(str(place))
    return None if matched is None or matched[1] not in STORES else (matched[1], matched[2])


def _copy(store: Any, wanted: Sequence[str], root: str, home: Path, shown: str) -> None:
    """Copy the files below a root that are not there yet, or that have changed."""
    notes = home / "files.json"
    seen: dict[str, str] = {}
    with suppress(OSError, ValueError):
        seen = dict(json.loads(notes.read_text("utf-8")))
    with ThreadPoolExecutor(_COPIES, "store") as pool:
        about = list(pool.map(store.info, wanted))
    names = [_inside(name, root) for name in wanted]
    keys = [_key(one) for one in about]
    left = [
        row
        for row, name in enumerate(names)
        if seen.get(name) != keys[row] or not (home / "files" / name).is_file()
    ]
    needed = sum(int(about[row].get("size") or 0) for row in left)
    if needed > (free := free_bytes(home)):
        raise DataError(
            f"'{shown}' takes {needed / 1e9:,.1f} GB, and the cache folder has {free / 1e9:,.1f} GB: name "
            "fewer files, mount the bucket as a folder, or let an engine read it (docs/how-far.md)"
        )

    def copy(row: int) -> int:
        target = home / "files" / names[row]
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target) as temporary:
            store.get_file(wanted[row], str(temporary))
            with suppress(KeyError, AttributeError, TypeError, OSError):  # alike on all machines
                changed = about[row]["LastModified"].timestamp()
                os.utime(temporary, (changed, changed))
        return row

    with ThreadPoolExecutor(_COPIES, "store") as pool:
        for row in pool.map(copy, left):
            seen[names[row]] = keys[row]
    if left:
        write_text(notes, json.dumps(seen))


def _remove_others(home: Path, folder: str, names: set[str]) -> None:
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
    return inner


def _key(about: dict[str, Any]) -> str:
    """What changes when a file does."""
    told = {
        name: str(about.get(name)) for name in ("size", "ETag", "etag", "LastModified", "mtime", "created")
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
