"""Addresses in object stores: files are copied once, into the cache folder; here from a store in memory."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

import labeltree as lt
from labeltree.data import object_stores
from labeltree.data.object_stores import is_remote, local_copy
from labeltree.errors import DataError, WriteError
from labeltree.inference.bulk.job import writes_folder
from labeltree.runs import EmbeddingTable


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


def test_a_folder_of_shards_is_written_as_parts(store: Any) -> None:
    """As from a folder of shards on the disk, which need no pattern."""
    assert writes_folder("memory://birds/shards", "out")
    assert writes_folder("memory://birds/shards/a-{00..01}.tar", "out")
    assert not writes_folder("memory://birds/photos", "out")
    assert not writes_folder("memory://birds/none", "out.csv")


def test_suspects_of_embeddings_in_a_store(store: Any, tmp_path: Path) -> None:
    tree = lt.Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    tree.save(tmp_path / "tree.json")
    nodes = tree.leaves.repeat(10)
    EmbeddingTable(torch.eye(tree.num_nodes)[nodes], nodes).save(tmp_path / "t.npz")
    store.pipe("/birds/t.npz", (tmp_path / "t.npz").read_bytes())
    assert lt.suspects(embeddings="memory://birds/t.npz", taxonomy=tmp_path / "tree.json").judged == 30
    with pytest.raises(DataError, match="names a file that is not in the store"):
        lt.suspects(embeddings="memory://birds/none.npz", taxonomy=tmp_path / "tree.json")


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


def test_what_a_process_has_listed_is_listed_again(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of fsspec keep what they have listed; a notebook that stays open must see new files."""
    listed = dict(store.find("/birds/photos", detail=True))
    store.pipe("/birds/photos/cat/3.jpg", b"new")
    fresh = {"/birds/photos/cat/3.jpg": store.info("/birds/photos/cat/3.jpg")}
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "find", lambda self, place, detail: listed)
        patch.setattr(type(store), "invalidate_cache", lambda self, path=None: listed.update(fresh))
        folder = Path(local_copy("memory://birds/photos"))
    assert sorted(path.name for path in folder.rglob("*.jpg")) == ["1.jpg", "2.jpg", "3.jpg"]


def test_names_with_several_slashes(store: Any) -> None:
    """The names in a store are not paths: `a//b` is another file than `a/b`."""
    store.pipe("/birds/scans//dog//1.jpg", b"first")
    folder = Path(local_copy("memory://birds/scans"))
    assert (folder / "dog" / "1.jpg").read_bytes() == b"first"
    assert (Path(local_copy("memory://birds/scans")) / "dog" / "1.jpg").is_file()
    store.pipe("/birds/scans/dog/1.jpg", b"second")
    with pytest.raises(DataError, match=r"'/birds/scans.+' and '/birds/scans.+', which are one file on"):
        local_copy("memory://birds/scans")


def test_what_is_there_of_a_copy_that_stopped_is_not_fetched_again(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    get_file = type(store).get_file

    def breaking(self: Any, name: str, *rest: Any) -> None:
        copied.append(name)
        if name.endswith("a-01.tar") and len(copied) == 2:
            raise OSError("the line is cut")
        get_file(self, name, *rest)

    monkeypatch.setattr(object_stores, "_COPIES", 1)
    monkeypatch.setattr(type(store), "get_file", breaking)
    with pytest.raises(DataError, match="cannot be fetched: OSError: the line is cut"):
        local_copy("memory://birds/shards/a-{00..01}.tar")
    local_copy("memory://birds/shards/a-{00..01}.tar")
    assert [name[-8:] for name in copied] == ["a-00.tar", "a-01.tar", "a-01.tar"]


def test_a_file_that_arrives_in_part(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "get_file", lambda self, name, to: Path(to).write_bytes(b"sha"))
        with pytest.raises(DataError, match=r"'/birds/shards/a-00.tar' .*, 3 of 15 bytes have arrived; try"):
            local_copy("memory://birds/shards/a-00.tar")
    assert Path(local_copy("memory://birds/shards/a-00.tar")).read_text() == "shards/a-00.tar"


def test_a_file_in_place_of_a_folder(store: Any) -> None:
    folder = Path(local_copy("memory://birds/photos"))
    store.rm("/birds/photos/dog", recursive=True)
    store.pipe("/birds/photos/dog", b"a file")
    assert (Path(local_copy("memory://birds/photos")) / "dog").read_bytes() == b"a file"
    store.rm("/birds/photos/dog")
    store.pipe("/birds/photos/dog/1.jpg", b"a folder")
    local_copy("memory://birds/photos")
    assert (folder / "dog" / "1.jpg").read_bytes() == b"a folder"


def test_a_folder_without_files_leaves_its_copy(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(local_copy("memory://birds/photos"))
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "find", lambda self, place, detail: {"/birds/photos/": {"size": 0}})
        with pytest.raises(DataError, match="'memory://birds/photos' is a folder without files"):
            local_copy("memory://birds/photos")
    assert (folder / "dog" / "1.jpg").is_file()


def test_a_full_disk_is_no_fault_of_the_store(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, name: str, to: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", to)

    monkeypatch.setattr(type(store), "get_file", full)
    with pytest.raises(WriteError, match="no space left on device; free some space there"):
        local_copy("memory://birds/shards/a-00.tar")


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("s3://me:hush/hush@birds/a.tar", "s3:/me:hush@birds/a.tar"):
        with pytest.raises(DataError, match=r"'s3://…@birds/a.tar' holds a password") as caught:
            local_copy(address)
        assert "hush" not in str(caught.value)
    assert object_stores._PASSWORD.match("box@account.dfs.core.windows.net/a:b/c@d") is None
    assert object_stores._PASSWORD.match("arn:aws:s3:us-west-2:123:accesspoint/a/b@c") is None


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
