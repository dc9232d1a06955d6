"""Which store a place names: a folder, or the URL of a server."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.cache import data_home
from labeltree.errors import DataError
from labeltree.index.addresses import Address, is_address
from labeltree.index.lance_store.lance_store import LanceStore
from labeltree.index.store import IndexSettings, Store, index_exists
from labeltree.plugins import named_parts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_free", "create_store", "index_folder", "is_index", "matrix_folders", "open_store"]


def create_store(
    where: str | Path, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
) -> Store:
    """Make the store that a place names; see `Store`.

    Args:
        where: a folder, or a URL.
        rows: Its first rows.
        settings: Of the index.
        overwrite: Replace an index that lies there.
    """
    check_free(where, overwrite=overwrite)
    if is_address(where):
        address = Address.parse(str(where))
        made: Store = _stores(address).create(address, rows, settings, overwrite=overwrite)
        return made
    return LanceStore.create(Path(where), rows, settings, overwrite=overwrite)


def open_store(where: str | Path) -> Store:
    """Open the store that a place names: a folder, a run with an index, or a URL."""
    if is_address(where):
        address = Address.parse(str(where))
        store: Store = _stores(address).open(address)
        return store
    _check_folder(where)
    return LanceStore.open(index_folder(where))


def index_folder(where: str | Path) -> Path:
    """The folder of an index: itself, or `index` in the folder of a run."""
    folder = Path(where).absolute()
    return (
        folder / "index" if not LanceStore.exists(folder) and LanceStore.exists(folder / "index") else folder
    )


def is_index(where: str | Path) -> bool:
    """Whether a place is an index: a folder with its files, or any URL; a run with an index is a run."""
    return is_address(where) or "://" in str(where) or LanceStore.exists(Path(where))


def check_free(where: str | Path, *, overwrite: bool) -> None:
    """Raise a `DataError` if no index can be made at a place, before what is costly is computed."""
    if is_address(where):
        address = Address.parse(str(where))
        if not overwrite and _stores(address).exists(address):
            raise index_exists(address.shown)
        return
    _check_folder(where)
    folder = Path(where).absolute()
    if LanceStore.exists(folder):
        if not overwrite:
            raise index_exists(where, "name another folder")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"'{where}' exists and is not an index; name a folder that is new or empty")


def matrix_folders(store: Store) -> list[Path]:
    """Where the matrix of exact search may lie: in the folder of the index, and in the cache."""
    cached = data_home() / "index" / hashlib.sha256(store.name.encode()).hexdigest()[:16]
    return [store.folder / "exact", cached] if isinstance(store, LanceStore) else [cached]


def _check_folder(where: str | Path) -> None:
    if "://" in str(where):
        scheme = str(where).split("://")[0]
        raise DataError(
            f"'{scheme}://' is not a place for an index; name a folder, or postgresql://... or qdrant+http://..."
        )


def _stores(address: Address) -> Any:
    """The class of the stores on a kind of server, which has `create`, `open` and `exists`."""
    return named_parts("stores")[address.kind].load()
