"""A run as a function of batches: the rows of bulk, from any kind of batch, and sums that add up."""

import operator
import pickle
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import labeltree as lt
from labeltree.errors import DataError, FolderInUseError, RunError
from labeltree.inference.bulk import batch_model, shared_decider
from labeltree.metrics.functional.classification import mistake_severity, tree_accuracy
from labeltree.ridge import Moments, TreeRidge

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "image_size": 28, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run, and forty new images and a broken one."""
    home = tmp_path_factory.mktemp("batches")
    photos = make_image_folder(home / "photos")
    lt.train(photos, "hwc+lam", out=home / "run", progress_bar=False, val=0.3, **SETTINGS)
    shutil.rmtree(photos)
    make_image_folder(home / "new", per_leaf=8, seed=1)
    (home / "new" / "broken.png").write_bytes(b"no image")
    return home


@pytest.fixture(scope="module")
def frame(place: Path) -> pd.DataFrame:
    files = sorted((place / "new").rglob("*.png"))
    names = [str(file.relative_to(place / "new")) for file in files]
    labels = [name.rpartition("/")[0] or None for name in names]
    return pd.DataFrame({"path": names, "label": labels}, index=range(5, 5 + len(names)))


def model_of(place: Path, what: Any = "predict", **options: Any) -> lt.BatchModel:
    return lt.BatchModel(place / "run", "path", what, **{"image_folder": place / "new", **options})


@pytest.mark.parametrize("what", ["predict", "embed"])
def test_rows_are_those_of_bulk(place: Path, frame: pd.DataFrame, what: str) -> None:
    model = lt.load(place / "run")
    out = place / f"bulk-{what}"
    (model.predict_to if what == "predict" else model.embed_to)(place / "new", out, labelled=True)
    expected = pq.read_table(out / "part-00000.parquet")
    rows = model_of(place, what, labels="label")(pa.Table.from_pandas(frame, preserve_index=False))
    assert rows.column_names == expected.column_names
    order = [rows["sample"].to_pylist().index(name) for name in expected["sample"].to_pylist()]
    rows = rows.take(order)
    for name in rows.column_names:
        if name in ("embeddings", "probability", "p_known", "guesses"):
            continue
        assert rows[name].to_pylist() == expected[name].to_pylist(), name
    if what == "embed":
        ours, theirs = (table["embeddings"].drop_null().to_pylist() for table in (rows, expected))
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-5, atol=1e-6)
        assert rows.schema.metadata[b"geometry"] == expected.schema.metadata[b"geometry"]


def test_kinds_of_batches(place: Path, frame: pd.DataFrame) -> None:
    """A batch comes back in the form in which it was given; arrays by name as a table."""
    model = model_of(place, name="path")
    table = model(pa.Table.from_pandas(frame))
    assert model({name: frame[name].to_numpy() for name in frame}).equals(table)
    record = model(pa.RecordBatch.from_pandas(frame))
    assert isinstance(record, pa.RecordBatch)
    assert pa.Table.from_batches([record]).equals(table)
    rows = model(frame)
    assert rows.index.tolist() == frame.index.tolist()
    assert rows["answer"].isna().sum() == rows["problem"].notna().sum() == 1
    assert [len(each) for each in model.map([frame[:3], frame[3:3], frame[3:]])] == [3, 0, len(frame) - 3]
    empty = model(pa.RecordBatch.from_pandas(frame[:0]))
    assert (len(empty), empty.schema.names) == (0, model.schema.names)


def test_paths_bytes_and_pixels(place: Path, frame: pd.DataFrame) -> None:
    good = frame[frame["label"].notna()]
    files = [place / "new" / name for name in good["path"]]
    expected = model_of(place)(good)["node"].tolist()
    contents = pd.DataFrame({"image": [file.read_bytes() for file in files], "id": range(len(files))})
    rows = lt.BatchModel(place / "run", "image", name="id")(contents)
    assert rows["node"].tolist() == expected
    assert rows["sample"].tolist() == [str(number) for number in range(len(files))]
    pixels = {"image": np.stack([np.asarray(Image.open(file)) for file in files])}
    rows = lt.BatchModel(place / "run", "image")(pixels)
    assert rows["node"].to_pylist() == expected
    assert rows["sample"].null_count == len(files)


def test_what_cannot_be_read_is_a_row(place: Path) -> None:
    cells = ["none.png", None, float("nan"), "", b"", b"abc", "s3://bucket/a.png", 3, "../new"]
    rows = model_of(place)({"path": np.array(cells, dtype=object)})
    assert rows["node"].null_count == len(cells)
    problems = rows["problem"].to_pylist()
    assert problems[1:5] == ["its 'path' is empty"] * 4
    assert "engine" in problems[6]
    assert all(problems)


def test_pickled_are_paths_and_options(
    place: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process loads the run once, however many objects, batches and threads it has."""
    model = model_of(place, coverage=0.8)
    expected = model(frame)
    content = pickle.dumps(model)
    assert len(content) < 2000
    batch_model._loaded.cache_clear()
    opened, load = [], batch_model.OpenedModel
    monkeypatch.setattr(batch_model, "OpenedModel", lambda *a, **k: (opened.append(a), load(*a, **k))[1])
    found: list[pd.DataFrame] = []
    threads = [Thread(target=lambda: found.append(pickle.loads(content)(frame))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert all(rows["node"].equals(expected["node"]) for rows in found)
    batch_model._loaded.cache_clear()


def test_processes_wait_for_the_one_that_calibrates(
    place: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines start many processes at once, and the folder of the run has one lock."""
    batch_model._loaded.cache_clear()
    tries, calibrate = [], shared_decider.open_decider

    def opened(*given: Any) -> Any:
        tries.append(given)
        if len(tries) < 3:
            raise FolderInUseError("in use")
        return calibrate(*given)

    monkeypatch.setattr(shared_decider, "open_decider", opened)
    monkeypatch.setattr(shared_decider, "_PAUSE_S", 0)
    assert len(model_of(place)(frame)) == len(frame)
    assert len(tries) == 3


def test_files_of_options_are_those_of_here_and_now(
    place: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers have other working directories."""
    shutil.copy(place / "run" / "taxonomy.json", tmp_path / "tree.json")
    taxonomy = lt.load(place / "run").taxonomy
    leaves = [taxonomy.path_name(int(leaf)) for leaf in taxonomy.leaves]
    pd.DataFrame(1 - np.eye(len(leaves)), leaves, leaves).to_csv(tmp_path / "costs.csv")
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps([model_of(place, taxonomy=Path("tree.json")), model_of(place, cost="costs.csv")])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert [len(model(frame[:3])) for model in pickle.loads(content)] == [3, 3]
    assert len(model_of(place, cost="tree")(frame[:3])) == 3


def test_labels_are_read_as_those_of_tables(
    place: Path, frame: pd.DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whole numbers that an empty cell has made floats, breadcrumbs, names of nodes anywhere, bytes."""
    paths = [str(place / "new" / name) for name in frame["path"][:6]]
    random = np.random.default_rng(0)
    for branch, name in (("warm", "1"), ("warm", "2"), ("cold", "3")):
        folder = tmp_path / "photos" / branch / name
        folder.mkdir(parents=True)
        for number in range(8):
            Image.fromarray(random.integers(0, 255, (28, 28, 3), np.uint8)).save(folder / f"{number}.png")
    lt.train(tmp_path / "photos", "hwc", out=tmp_path / "run", progress_bar=False, val=0.3, **SETTINGS)
    taxonomy = lt.load(tmp_path / "run").taxonomy
    model = lt.BatchModel(tmp_path / "run", "path", "embed", labels="label")
    labels: Any = [3.0, np.nan, "warm > 2", "1", b"cold/3", "warm/7"]
    rows = model(pa.table({"path": paths, "label": ["3", None, "warm > 2", "1", "cold/3", "warm/7"]}))
    three, two, one = map(taxonomy.find, ("cold/3", "warm/2", "warm/1"))
    assert rows["nodes"].to_pylist() == [three, -1, two, one, three, -1]
    assert rows["labels"].to_pylist() == ["3", None, "warm/2", "1", "cold/3", "warm/7"]
    assert (
        rows["nodes"].to_pylist() == model(pd.DataFrame({"path": paths, "label": labels}))["nodes"].tolist()
    )
    assert "lacks 'warm/7'; such labels count as missing" in caplog.text
    assert float(model.moments({"path": paths, "label": labels}).counts.sum()) == 4
    with pytest.raises(DataError, match="the column 'label' has a list as a label"):
        model({"path": paths[:1], "label": [["warm", "2"]]})
    pd.DataFrame({"image": paths[:3], "label": ["3", "warm > 2", "1"]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    done = lt.load(tmp_path / "run").embed_to(tmp_path / "t.csv", tmp_path / "out")
    assert (done.samples, done.unknown_labels) == (3, 0)  # a folder of parts reads them alike


def test_names_may_be_of_any_kind(place: Path, frame: pd.DataFrame) -> None:
    days = pd.date_range("2026-01-01", periods=3)
    for column, names in (("day", days), ("id", [b"a", 1.0, None])):
        rows = model_of(place, name=column)({"path": frame["path"].tolist()[:3], column: list(names)})
        expected = [str(day) for day in days] if column == "day" else ["a", "1", None]
        assert rows["sample"].to_pylist() == expected
    paths = [Path(name) for name in frame["path"][:2]]
    assert model_of(place)({"path": paths})["sample"].to_pylist() == [str(path) for path in paths]


def test_sums_are_those_of_one_machine(place: Path, frame: pd.DataFrame) -> None:
    model = model_of(place, "embed", labels="label")
    good = frame[frame["label"].notna()]
    taxonomy = lt.load(place / "run").taxonomy
    features = model_of(place, "embed", features=True)(good)["features"]
    alone = Moments.of(torch.tensor(np.stack(features)), taxonomy.encode(good["label"]))
    total = reduce(
        operator.add,
        [pickle.loads(pickle.dumps(model.moments(frame[at : at + 9]))) for at in range(0, 45, 9)],
    )
    assert torch.equal(total.counts, alone.counts)
    heads = [TreeRidge.of(sums, taxonomy, penalty=0.1, scale=1.0) for sums in (total, alone)]
    torch.testing.assert_close(heads[0].weight, heads[1].weight, rtol=1e-4, atol=1e-6)
    merged = TreeRidge.of(model.moments(frame[:20]), taxonomy, penalty=0.1, scale=1.0).pool(
        TreeRidge.of(model.moments(frame[20:]), taxonomy, penalty=0.1, scale=1.0)
    )
    torch.testing.assert_close(merged.weight, heads[1].weight, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="name their column"):
        model_of(place).moments(frame)


def test_numbers_of_evaluation_from_counts(place: Path, frame: pd.DataFrame) -> None:
    """Counts of pairs of label and answer add, and means over samples follow from them."""
    rows = model_of(place, labels="label")(frame).dropna(subset=["node", "label_node"]).astype({"node": int})
    taxonomy = lt.load(place / "run").taxonomy
    counts = reduce(
        lambda one, other: one.add(other, fill_value=0),
        [part.groupby(["label_node", "node"]).size() for part in (rows[:10], rows[10:])],
    )
    label, node = (torch.tensor(counts.index.get_level_values(i).astype(int).to_numpy()) for i in (0, 1))
    weight = torch.tensor(counts.to_numpy(), dtype=torch.float64)
    truth, answer = (torch.tensor(rows[name].astype(int).to_numpy()) for name in ("label_node", "node"))
    for metric in (tree_accuracy, mistake_severity):
        values = metric(node, label, taxonomy, undecided="negative", reduction="none").double()
        kept = ~values.isnan()
        summed = (values * weight)[kept].sum() / weight[kept].sum()
        alone = metric(answer, truth, taxonomy, undecided="negative", reduction="none").double().nanmean()
        torch.testing.assert_close(summed, alone, rtol=1e-12, atol=0, equal_nan=True)


def test_refusals(place: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the batch has no column 'image'; it has path, label"):
        lt.BatchModel(place / "run", "image")(frame)
    with pytest.raises(RunError):
        lt.BatchModel(tmp_path, "path")
    with pytest.raises(ValueError, match="coverage"):
        model_of(place, coverage=2.0)
    with pytest.raises(TypeError):
        model_of(place, cover=0.9)
    for options in ({"per": "group"}, {"explained": True}):
        with pytest.raises(ValueError, match="does not go with batches"):
            model_of(place, **options)
    twice = pd.concat([frame["path"], frame["path"]], axis=1)
    with pytest.raises(DataError, match="the batch has 2 columns 'path'; leave one"):
        model_of(place)(twice)


@pytest.mark.usefixtures("few_words")
def test_texts_and_vectors(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.array(["a/x", "a/y", "b/z"]).repeat(12)
    vectors = (np.eye(6)[np.arange(36) // 12] + 0.1 * random.normal(size=(36, 6))).astype("f4")
    np.savez(tmp_path / "v.npz", vectors=vectors, label=labels)
    lt.train(tmp_path / "v.npz", "tree-ridge", out=tmp_path / "run", progress_bar=False, accelerator="cpu")
    batch = {"vector": [*vectors[:5], vectors[0][:3], None], "id": list("abcdefg")}
    rows = lt.BatchModel(tmp_path / "run", "vector", name="id", coverage=0.5)(batch)
    expected = lt.load(tmp_path / "run").predict(vectors[:5], coverage=0.5)
    assert rows["node"].to_pylist()[:5] == expected.answers.nodes.tolist()
    assert rows["problem"].to_pylist()[5] == "has 3 numbers; the run reads vectors of 6"
    words = [f"{word} thing" for word in ("red", "green", "blue") for _ in range(12)]
    pd.DataFrame({"text": words, "label": labels}).to_csv(tmp_path / "t.csv", index=False)
    lt.train(
        tmp_path / "t.csv", "hwc", encoder="small-text", out=tmp_path / "texts", progress_bar=False, epochs=1,
        batch_size=12, accelerator="cpu",
    )  # fmt: skip
    rows = lt.BatchModel(tmp_path / "texts", "text", coverage=0.5)({"text": [words[0], " ", words[20]]})
    expected = lt.load(tmp_path / "texts").predict([words[0], words[20]], coverage=0.5)
    assert [rows["node"].to_pylist()[at] for at in (0, 2)] == expected.answers.nodes.tolist()
    assert rows["problem"].to_pylist()[1]
