"""Addresses in object stores: files are copied once, into the cache folder; here from a store in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from labeltree.data import object_stores
from labeltree.data.object_stores import is_remote, local_copy
from labeltree.errors import DataError


@pytest.fixture
def store(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store with two shards and a folder."""
    monkeypatch.setitem(object_stores.STORES, "memory", "fsspec")
    monkeypatch.delenv("LABELTREE_OFFLINE", raising=False)
    memory = fsspec.filesystem("memory")
    for name in ("shards/a-00.tar", "shards/a-01.tar", "photos/dog/1.jpg", "photos/cat/2.jpg"):
        memory.pipe(f"/birds/{name}", name.encode())
    yield memory
    memory.rm("/birds", recursive=True)


def test_what_is_an_address() -> None:
    assert is_remote("s3://birds/a.tar")
    assert is_remote(Path("s3://birds/a.tar"))  # with one slash
    assert not any(
        map(is_remote, ("birds/a.tar", "s3/a.tar", "https://a.b/c.tar", "postgresql://a/b", "s3://"))
    )
    assert local_copy("birds/a.tar") == "birds/a.tar"


def test_files_patterns_and_folders(store: Any, cache_folder: Path) -> None:
    file = Path(local_copy("memory://birds/shards/a-01.tar"))
    assert file.read_text() == "shards/a-01.tar"
    assert file.is_relative_to(cache_folder / "copies")
    pattern = Path(local_copy("memory://birds/shards/a-{00..01}.tar"))
    assert pattern == file.parent / "a-{00..01}.tar"
    assert sorted(path.name for path in file.parent.iterdir()) == ["a-00.tar", "a-01.tar"]
    folder = Path(local_copy("memory://birds/photos"))
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg")}
    assert files == {"dog/1.jpg", "cat/2.jpg"}


def test_what_is_gone_from_a_folder_is_removed(store: Any) -> None:
    folder = Path(local_copy("memory://birds/photos"))
    store.rm("/birds/photos/cat/2.jpg")
    assert Path(local_copy("memory://birds/photos")) == folder
    assert [path.name for path in folder.iterdir()] == ["dog"]


def test_what_has_changed_is_copied_again(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "memory://birds/shards/a-{00..01}.tar"
    copied: list[str] = []
    get_file = type(store).get_file

    def noted(self: Any, name: str, *rest: Any) -> None:
        copied.append(name)
        get_file(self, name, *rest)

    monkeypatch.setattr(type(store), "get_file", noted)
    local_copy(address)
    local_copy(address)
    assert sorted(copied) == ["/birds/shards/a-00.tar", "/birds/shards/a-01.tar"]
    store.pipe("/birds/shards/a-01.tar", b"another")
    assert Path(local_copy(address)).with_name("a-01.tar").read_text() == "another"
    assert len(copied) == 3
    Path(local_copy(address)).with_name("a-00.tar").unlink()
    local_copy(address)
    assert len(copied) == 4


def test_refusals(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"'memory://birds/b.tar' names a file that is not in the store"):
        local_copy("memory://birds/b.tar")
    monkeypatch.setattr(object_stores, "free_bytes", lambda place: 3)
    with pytest.raises(DataError, match=r"takes 0\.0 GB, and the cache folder has 0\.0 GB: name fewer files"):
        local_copy("memory://birds/shards/a-00.tar")


@pytest.mark.parametrize("name", ["birds/x/../../../etc/passwd", "other/a", "birds", "birds/a\\b"])
def test_a_name_that_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(DataError, match="leads out of its folder"):
        object_stores._inside(name, "birds")


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABELTREE_OFFLINE", raising=False)
    monkeypatch.setattr(object_stores, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"s3fs, which is not installed: pip install 'labeltree\[s3\]'"):
        local_copy("s3://birds/a.tar")
    with pytest.raises(DataError, match="pip install gcsfs"):
        local_copy("gs://birds/a.tar")


def test_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELTREE_OFFLINE", "1")
    with pytest.raises(DataError, match="LABELTREE_OFFLINE says that nothing may be fetched"):
        local_copy("s3://birds/a.tar")
