"""Samples one after the other: as `open_source` gives them, with cheap skipping and little memory."""

import json
import logging
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from shard_files import LABELS, cut, parquet, png, write_shard, write_tar

from labeltree.data import open_source, streaming
from labeltree.data.streaming import count_samples, stream_samples
from labeltree.errors import DataError


def folder_of_images(root: Path, number: int = 7) -> Path:
    """Nested folders of images."""
    for i in range(number):
        file = root / LABELS[i % 3] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(i))
    (root / "top.png").write_bytes(png(99))
    (root / "notes.txt").write_text("no image")
    return root


def image_table(root: Path) -> Path:
    """A table of images."""
    folder_of_images(root)
    rows = [f"{LABELS[i % 3]}/{i}.png,{LABELS[i % 3]}" for i in (3, 1, 2, 0)]
    path = root / "table.csv"
    path.write_text("\n".join(["image,label", *rows]))
    return path


def tars(root: Path) -> Path:
    """Tar shards."""
    write_shard(root / "a-0.tar", range(4))
    write_shard(root / "a-1.tar", range(4, 9))
    return root


def parquets(root: Path) -> Path:
    """Parquet shards."""
    parquet(root / "a-0.parquet", range(5))
    parquet(root / "a-1.parquet", range(5, 8))
    return root


def text_table(root: Path) -> Path:
    """A table of texts."""
    root.mkdir()
    path = root / "texts.tsv"
    path.write_text("\n".join(["text\tlabel", *(f"words {i} \t{LABELS[i % 3]}" for i in range(9))]))
    return path


def texts_in_tars(root: Path) -> Path:
    """Tar shards of texts."""
    members = {}
    for i in range(6):
        members |= {f"{i}.txt": f"words {i}", f"{i}.cls": LABELS[i % 3]}
    return write_tar(root / "texts.tar", members)


MAKERS = [folder_of_images, image_table, tars, parquets, text_table, texts_in_tars]


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def spec(request, tmp_path) -> Path:
    """Data of every kind."""
    return request.param(tmp_path / "data")


def test_streams_give_the_samples_of_a_source(spec):
    source, found = open_source(spec, image_size=8, channels=3), list(stream_samples(spec))
    assert [sample.name for sample in found] == source.sample_names()
    if source.store is None:
        assert [sample.text() for sample in found] == source.read(range(len(source)))
        with pytest.raises(DataError, match="it is a text"):
            found[0].pixels(8, 3)
    else:
        pixels = np.stack([sample.pixels(8, 3) for sample in found])
        assert torch.equal(torch.from_numpy(pixels), source.load(range(len(source))))
        with pytest.raises(DataError, match="it is an image"):
            found[0].text()


def test_skipping_gives_the_rest(spec):
    names = [sample.name for sample in stream_samples(spec)]
    for skip in range(len(names) + 2):
        assert [sample.name for sample in stream_samples(spec, skip=skip)] == names[skip:]
    assert count_samples(spec) in (None, len(names))


def test_skipping_decodes_nothing(spec, monkeypatch):
    monkeypatch.setattr(streaming, "decode", None)
    monkeypatch.setattr(streaming, "read_part", None)
    assert len(list(stream_samples(spec, skip=1))) > 0


def test_samples_can_be_sent_to_another_process(spec):
    for sample in stream_samples(spec):
        assert pickle.loads(pickle.dumps(sample)) == sample


def test_fields(tmp_path):
    for maker in (image_table, tars, text_table, texts_in_tars):
        name = "cls" if maker is texts_in_tars else "label"
        found = next(iter(stream_samples(maker(tmp_path / maker.__name__), fields=[name])))
        assert found.fields == {name: LABELS[0]}
    found = next(iter(stream_samples(parquets(tmp_path / "parquets"), fields=["label"])))
    assert found.fields == {"label": "0"}
    with pytest.raises(DataError, match="no column 'lable'; did you mean 'label'"):
        next(iter(stream_samples(tmp_path / "image_table" / "table.csv", fields=["lable"])))
    with pytest.raises(DataError, match="is a folder of images and has no columns; leave 'label' out"):
        next(iter(stream_samples(folder_of_images(tmp_path / "f"), fields=["label"])))


def test_samples_without_content_have_a_name_and_a_reason(tmp_path):
    write_tar(tmp_path / "a.tar", {"0.json": "{}", "1.png": png(1), "2.png": b"broken", "3.png": b""})
    found = list(stream_samples(tmp_path / "a.tar"))
    assert [sample.name for sample in found] == ["a.tar/0", "a.tar/1.png", "a.tar/2.png", "a.tar/3.png"]
    reasons = ["it has no image", None, "it is not an image in a format", "the file is empty"]
    for sample, reason in zip(found, reasons, strict=True):
        if reason is not None:
            with pytest.raises(DataError, match=reason):
                sample.pixels(8, 3)
    pq.write_table(pa.table({"image": [png(0), None, b""]}), tmp_path / "a.parquet")
    found = list(stream_samples(tmp_path / "a.parquet"))
    assert [sample.name for sample in found] == [f"a.parquet/row {row}" for row in (1, 2, 3)]
    with pytest.raises(DataError, match="it has no image"):
        found[1].pixels(8, 3)
    (tmp_path / "a.csv").write_text("image\na.png\n\n../out.png\n")
    found = list(stream_samples(tmp_path / "a.csv"))
    assert [sample.name for sample in found][:1] == ["a.png"]
    with pytest.raises(DataError, match="there is no such file"):
        found[0].pixels(8, 3)
    with pytest.raises(DataError, match="lies outside the table's folder"):
        found[-1].pixels(8, 3)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "b.csv").write_text("image\npipe.png\n")
    with pytest.raises(DataError, match="it is not a file but a pipe"):
        next(iter(stream_samples(tmp_path / "b.csv"))).pixels(8, 3)


def test_damaged_shards(tmp_path, caplog):
    folder = tars(tmp_path / "data")
    cut(folder / "a-0.tar", 512 * 9)
    with pytest.raises(DataError, match="cut off"):
        list(stream_samples(folder))
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        found = list(stream_samples(folder, on_error="skip"))
    assert "The rest of it is skipped" in caplog.text
    assert len(found) == len(open_source(folder, on_error="skip"))
    for skip in range(len(found)):
        rest = list(stream_samples(folder, skip=skip, on_error="skip"))
        assert [sample.name for sample in rest] == [sample.name for sample in found[skip:]]
    folder = parquets(tmp_path / "parquets")
    cut(folder / "a-0.parquet", 500)
    with pytest.raises(DataError, match="damaged, or no Parquet file"):
        list(stream_samples(folder))
    assert len(list(stream_samples(folder, on_error="skip"))) == 3


def test_what_cannot_be_streamed(tmp_path):
    with pytest.raises(DataError, match="is neither a folder, nor a table"):
        next(iter(stream_samples(tmp_path / "nothing")))
    (tmp_path / "a.csv").write_text("words\none\n")
    with pytest.raises(DataError, match="name one as image_column or text_column"):
        next(iter(stream_samples(tmp_path / "a.csv")))
    assert next(iter(stream_samples(tmp_path / "a.csv", text_column="words"))).text() == "one"
    rows = {"note": ["one"], "image": ["a.png"]}
    (tmp_path / "shards").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "shards" / "a.parquet")
    with pytest.raises(DataError, match="has no column of image bytes"):
        next(iter(stream_samples(tmp_path / "shards")))


def test_whole_row_groups_and_files_are_passed_over_unread(tmp_path, monkeypatch):
    folder = parquets(tmp_path / "data")
    rows = []
    monkeypatch.setattr(
        streaming, "image_bytes", lambda column: rows.append(len(column)) or [b""] * len(column)
    )
    assert len(list(stream_samples(folder, skip=5))) == 3
    assert sum(rows) == 3
    rows.clear()
    assert len(list(stream_samples(folder, skip=3))) == 5
    assert sum(rows) == 5


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tar", "csv", "parquet"])
def test_memory_does_not_grow_with_the_number_of_samples(kind, tmp_path):
    peaks = []
    for number in (500, 4_500):
        path = tmp_path / f"{number}.{kind}"
        if kind == "tar":
            write_tar(path, {f"{i}.png": b"x" for i in range(number)})
        elif kind == "csv":
            path.write_text("\n".join(["image", *(f"folder/{i}.png" for i in range(number))]))
        else:
            pq.write_table(pa.table({"image": [b"x" * 100] * number}), path, row_group_size=250)
        tracemalloc.start()
        assert sum(1 for _ in stream_samples(path)) == number
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Of a tar file the keys are kept, to find those that come twice.
    assert peaks[1] < peaks[0] + 4_000 * (200 if kind == "tar" else 40)


def test_json_fields_become_text(tmp_path):
    fields = {"label": "a", "number": 3.0, "truth": True, "none": None, "deep": {"x": 1}, "many": [1]}
    path = write_tar(tmp_path / "a.tar", {"0.png": png(0), "0.json": json.dumps(fields)})
    found = next(iter(stream_samples(path, fields=list(fields))))
    assert found.fields == {"label": "a", "number": "3", "truth": "True"}
