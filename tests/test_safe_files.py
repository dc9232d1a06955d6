"""Files that are damaged, or made to do harm: one sentence of our own, quickly, and in bounded memory."""

import io
import pickle
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from labeltree import safe_files
from labeltree.errors import DataError, RunError
from labeltree.safe_files import (
    Reader,
    read_array,
    read_arrays,
    read_json,
    read_parquet,
    read_tensors,
    read_text,
    read_torch,
    read_yaml,
)

pytestmark = pytest.mark.slow

READER = Reader("a test", "make it again", RunError)
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{there}: &{there} [{', '.join(['*' + here] * 9)}]\n"
    for here, there in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture(autouse=True)
def _two_more_gigabytes() -> Iterator[None]:
    """No reader gets more than 2 GiB of address space beyond what there is."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def header_of(text: str) -> bytes:
    """An array file that is nothing but this header."""
    padded = text.encode("latin1") + b" " * (118 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return packed.getvalue()


def array_file(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


WHOLE = zipped(x=array_file(np.arange(4)))
HUGE = header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000,), }")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (WHOLE[: len(WHOLE) // 2], "damaged, or no file of NumPy arrays"),
        (WHOLE.replace(b"\x03\0\0\0\0\0\0\0", b"\x04\0\0\0\0\0\0\0"), "damaged, or no"),
        (b"", "damaged, or no file of NumPy arrays"),
        (zipped(x=b"no array"), "its array 'x' is damaged, or none"),
        (zipped(x=HUGE), r"should have 32,000,000,000 bytes by its header, but has another length"),
        (zipped(x=header_of("(" * 100)), "its array 'x' is damaged, or none"),
        (
            zipped(x=header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -3), }")),
            "by its header",
        ),
        (
            zipped(x=array_file(np.array([object()]))),
            r"holds object, neither numbers nor text: save .* \.astype\(str\)",
        ),
        (zipped(x=array_file(np.zeros(2, "M8[s]"))), r"holds datetime64\[s\], neither numbers nor text"),
    ],
)
def test_archives_of_arrays(content: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "file.npz"
    file.write_bytes(content)
    with pytest.raises(RunError, match=f"^'{file}' cannot be read as a test: .*{reason}.*; make it again$"):
        read_arrays(file, READER)


def test_an_archive_that_becomes_much_larger_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "file.npz"
    content = bytearray(zipped(x=array_file(np.arange(4))))
    place = content.index(b"PK\x01\x02") + 24  # the size in the directory at the end
    content[place : place + 4] = struct.pack("<I", 0xFFFFFFF0)
    directory = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    content[directory:end] = content[directory:end] * 2
    at = content.index(b"PK\x05\x06")
    content[at + 8 : at + 12] = struct.pack("<HH", 2, 2)
    content[at + 12 : at + 16] = struct.pack("<I", 2 * (end - directory))
    file.write_bytes(content)
    with pytest.raises(RunError, match="bytes would become 8,589,934,560"):
        read_arrays(file, READER)


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    given = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.array("text"),
        "c": np.array([], dtype=np.int64),
        "d": np.array([True, False]),
    }
    np.savez_compressed(tmp_path / "file.npz", allow_pickle=False, **given)
    found = read_arrays(tmp_path / "file.npz", READER)
    assert list(found) == list(given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert list(read_arrays(tmp_path / "file.npz", READER, only=["b"])) == ["b"]
    np.save(tmp_path / "file.npy", given["a"])
    np.testing.assert_array_equal(read_array(tmp_path / "file.npy", READER), given["a"])
    (tmp_path / "file.npy").write_bytes(HUGE)
    with pytest.raises(RunError, match="32,000,000,000 bytes"):
        read_array(tmp_path / "file.npy", READER)


class Code:
    """What a pickle would run when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("/nowhere/ran").touch, ())


@pytest.mark.parametrize(
    ("read", "suffix"), [(read_tensors, "safetensors"), (read_torch, "pt"), (read_parquet, "pq")]
)
def test_binary_files_that_are_cut_off_or_none(
    read: Callable[[Path, Reader], Any], suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"file.{suffix}"
    if suffix == "safetensors":
        save_file({"w": torch.arange(4.0)}, file)
    elif suffix == "pt":
        torch.save({"w": torch.arange(4.0)}, file)
    else:
        pq.write_table(pa.table({"w": [1.0, 2.0]}), file)
    assert read(file, READER) is not None
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-1], b"", b"\0" * 100, b"nothing of the kind"):
        file.write_bytes(content)
        with pytest.raises(
            RunError, match=r"^'.*' cannot be read as a test: it is damaged, or [^;]+; make it again$"
        ):
            read(file, READER)
    file.unlink()
    with pytest.raises(RunError, match=r"^there is no '.*' to be read as a test$"):
        read(file, READER)
    file.mkdir()
    with pytest.raises(RunError, match="it is a folder"):
        read(file, READER)


def test_a_checkpoint_that_could_run_code_is_not_run(tmp_path: Path) -> None:
    for number, content in enumerate((Code(), {"state_dict": Code()})):
        file = tmp_path / f"{number}.ckpt"
        torch.save(content, file)
        with pytest.raises(
            RunError, match="more than tensors and plain values, which could run code"
        ) as caught:
            read_torch(file, READER)
        assert "weights_only" not in str(caught.value)
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Code()))
    with pytest.raises(RunError, match="cannot be read"):
        read_torch(tmp_path / "old.pt", READER)


def test_a_parquet_file_of_few_bytes_and_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_files, "_UNPACKED", 40 << 20)
    file = tmp_path / "file.parquet"
    nothing = pa.nulls(1 << 20, pa.int8())
    with pq.ParquetWriter(file, pa.schema({"x": pa.int8()}), compression="zstd") as writer:
        for _ in range(6):
            writer.write_table(pa.table({"x": nothing}))
    with pytest.raises(RunError, match=r"bytes would become 50,331,648 or more"):
        read_parquet(file, READER)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (LAUGHS, "stands for more than 200,000 values"),
        ("a: &a [*a]", "line 1 has the alias *a within what it stands for"),
        ("a: &a {b: {c: *a}}", "line 1 has the alias"),
        ("a: " + "[" * 200 + "]" * 200, "nested more than 100 levels deep"),
        ("a: " + "{x: " * 100_000, "line 1"),
        ("\n".join(" " * level + "a:" for level in range(300)), "nested more than 100 levels deep"),
        ("a: [x\n", "is not YAML"),
        ("a: !!python/object/apply:os.system ['touch ran']", "line 1 has a tag of no plain value"),
        ("a: !mine 3", "line 1 has a tag of no plain value"),
        ("a: " + "1" * 5000, "an invalid number or date"),
        ("a: 2024-99-99", "an invalid number or date"),
        ("a: 1\n---\nb: 2", "is not YAML"),
        ("[1, 2]: 3", "is not YAML"),
        ("- a\n- b", "does not hold values by name"),
        ("1: 2", "does not hold values by name"),
        ("", "it is empty"),
        ("# nothing\n", "it is empty"),
        ("a: \x00", "is not YAML"),
        ("*a", "is not YAML"),
    ],
)
def test_yaml(content: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(content, "utf-8")
    with pytest.raises(RunError, match=f"^'{file}' cannot be read as a test: ") as caught:
        read_yaml(file, READER)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


def test_yaml_may_have_aliases(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("\ufeffa: &rates [{lr: 0.1}, {lr: 1e-3}]\nb: *rates\nc: {<<: {d: 1}, e: ä}\n", "utf-8")
    rates = [{"lr": 0.1}, {"lr": "1e-3"}]
    assert read_yaml(file, READER) == {"a": rates, "b": rates, "c": {"d": 1, "e": "ä"}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a": ' * 100_000, "it is nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "whole number of more than 4,000 digits"),
        ("{", "line 1 is not JSON"),
        ('{"a": 1,\n"b"}', "line 2 is not JSON"),
        ("[1]", "does not hold values by name"),
        ("null", "it is empty"),
        ("", "line 1 is not JSON"),
    ],
)
def test_json(content: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(content, "utf-8")
    with pytest.raises(RunError, match=f"^'{file}' cannot be read as a test: {reason}|^'{file}' .*{reason}"):
        read_json(file, READER)


def test_text(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    file.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(DataError, match=r"line 2 is not text in UTF-8; write it so"):
        read_text(file, Reader("a list", "write it so"))
    with pytest.raises(DataError, match="it is a folder"):
        read_text(tmp_path, Reader("a list", "write it so"))
    with file.open("wb") as empty:
        empty.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(DataError, match="1,099,511,627,776 bytes"):
        read_text(file, Reader("a list", "write it so"))


@pytest.mark.parametrize("kept", [False, True])
def test_a_parquet_file_of_one_long_text_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """A dictionary holds it once, so the file says nothing of the space that the rows take."""
    path = tmp_path / "bomb.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array(["x" * 500]))
    pq.write_table(pa.table({"text": texts if kept else texts.cast(pa.string())}), path, compression="zstd")
    reader = Reader("a table", "take another")
    assert len(read_parquet(path, reader)) == 40_000
    monkeypatch.setattr(safe_files, "_UNPACKED", 1 << 20)
    with pytest.raises(DataError, match="would become more than"):
        read_parquet(path, reader)
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    assert read_parquet(path, reader).schema.names == ["text"]


def test_a_parquet_file_keeps_its_schema(tmp_path: Path) -> None:
    """Geometry and classes of a table are in the metadata of its schema and of its fields."""
    field = pa.field("label", pa.int64(), metadata={"names": "a,b"})
    kinds = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["x", "y"])
    schema = pa.schema([field, pa.field("kind", kinds.type)], metadata={"geometry": "poincare"})
    pq.write_table(pa.table([pa.array([1, 2]), kinds], schema=schema), tmp_path / "table.parquet")
    table = read_parquet(tmp_path / "table.parquet", Reader("a table", "take another"))
    assert table.schema.metadata[b"geometry"] == b"poincare"
    assert table.schema.field("label").metadata[b"names"] == b"a,b"
    assert table.to_pydict() == {"label": [1, 2], "kind": ["x", "y"]}
