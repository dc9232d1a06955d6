"""Bulk embedding and prediction: the same numbers from every source, and exactly resumable."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch

import labeltree as lt
from forked import end_forked, start_forked
from labeltree.cli.main import main
from labeltree.data import stream_samples
from labeltree.errors import (
    DataError,
    FolderInUseError,
    OtherSettingsError,
    RunError,
    TaxonomyError,
    WriteError,
)
from labeltree.inference.bulk import BulkJob, process, run_bulk, shared_decider
from labeltree.inference.bulk import launch_processes as launch
from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.inference.bulk.process import Place, run_process
from labeltree.inference.calibrate_run import open_decider
from labeltree.lock import lock_folder
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.runs.parts import PartWriter

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "image_size": 28, "accelerator": "cpu"}
SIZE = 16  # samples of a part


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run whose data are gone."""
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos")
    path = lt.train(photos, "hwc+lam", out=home / "run", progress_bar=False, val=0.3, **SETTINGS).path
    shutil.rmtree(photos)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """Forty new images, not to be changed by a test."""
    return make_image_folder(tmp_path_factory.mktemp("new") / "photos", per_leaf=8, seed=1)


@pytest.fixture(scope="module")
def undisturbed(run: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    done = run_bulk(job(run, photos, out))
    assert (done.samples, done.parts, done.written, done.complete) == (40, 3, 40, True)
    return out


def job(run: Path, data: Path | str, out: Path, **options: object) -> BulkJob:
    return BulkJob(str(run), str(data), str(out), **{"part_size": SIZE, **options})  # type: ignore[arg-type]


def rows(out: Path) -> pa.Table:
    return ds.dataset(out).to_table()


def same(out: Path, other: Path) -> bool:
    """Whether two folders have the same parts with the same rows, and nothing is left over."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (out, other)]
    return names[0] == names[1] and all(
        pq.read_table(out / name).equals(pq.read_table(other / name))
        for name in names[0]
        if name.endswith(".parquet")
    )


# What is written


def test_embeddings_are_those_of_the_model(run: Path, photos: Path, undisturbed: Path) -> None:
    expected = lt.load(run).embed(data=photos)
    found = EmbeddingTable.load(undisturbed, lt.load(run).taxonomy)
    assert expected.paths is not None
    assert found.paths is not None
    assert [name.removeprefix(f"{photos}/") for name in expected.paths.tolist()] == found.paths.tolist()
    torch.testing.assert_close(found.embeddings, expected.embeddings, rtol=1e-5, atol=1e-6)
    assert (found.geometry, found.curvature) == (expected.geometry, expected.curvature)
    labels = lt.load(run).taxonomy.encode([name.rsplit("/", 1)[0] for name in found.paths.tolist()])
    assert torch.equal(found.nodes, labels)
    assert found.features is None


def test_a_file_says_where_it_comes_from(run: Path, undisturbed: Path) -> None:
    model = lt.load(run)
    for number in range(3):
        noted = pq.read_metadata(PartFolder(undisturbed).part(number)).metadata
        about = json.loads(noted[b"about"])
        assert about["model"] == model.run.weights_digest
        assert about["labeltree"]
        assert about["asked"] == "embeddings"
        assert lt.Taxonomy.from_dict(json.loads(noted[b"taxonomy"])) == model.taxonomy
        assert noted[b"geometry"].decode() == model.network.objective.geometry.name
    manifest = PartFolder(undisturbed).read_manifest()
    assert manifest["counts"] == {"parts": 3, "samples": 40, "unreadable": 0, "unknown_labels": 0}
    assert lt.Taxonomy.from_file(PartFolder(undisturbed).taxonomy) == model.taxonomy


def test_features_and_half_precision(run: Path, photos: Path, tmp_path: Path, undisturbed: Path) -> None:
    run_bulk(job(run, photos, tmp_path / "out", features=True, dtype="float16", labelled=False))
    table = rows(tmp_path / "out")
    assert table.schema.field("features").type.value_type == pa.float16()
    assert "labels" not in table.column_names
    found = EmbeddingTable.load(tmp_path / "out")
    expected = lt.load(run).embed(data=photos)
    torch.testing.assert_close(found.features, expected.features, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(found.embeddings, expected.embeddings, rtol=2e-3, atol=2e-3)
    assert found.nodes.tolist() == [-1] * 40


def test_answers_are_those_of_the_model(run: Path, photos: Path, tmp_path: Path) -> None:
    model = lt.load(run)
    expected = model.predict(data=photos, coverage=0.8, labelled=True)
    done = model.predict_to(photos, tmp_path / "out", coverage=0.8, labelled=True, part_size=SIZE)
    assert done.samples == 40
    table = rows(tmp_path / "out").to_pydict()
    assert table["node"] == expected.answers.nodes.tolist()
    assert table["answer"] == [model.taxonomy.path_name(node) for node in table["node"]]
    np.testing.assert_allclose(table["probability"], expected.answers.probabilities, rtol=1e-4)
    assert table["cut"] == expected.answers.cut.tolist()
    assert [guesses[0]["node"] for guesses in table["guesses"]] == expected.answers.guesses[:, 0].tolist()
    assert table["guesses"][0][0]["class"] == model.taxonomy.path_name(table["guesses"][0][0]["node"])
    held = model.taxonomy.lca(expected.answers.nodes, expected.labels) == expected.answers.nodes
    assert table["holds"] == held.tolist() == [row["holds"] for row in expected]
    assert table["label_node"] == expected.labels.tolist()
    assert table["problem"] == [None] * 40
    assert json.loads(pq.read_metadata(tmp_path / "out" / "part-00000.parquet").metadata[b"about"])[
        "model"
    ] == (model.digest)


@pytest.mark.parametrize("asked", [{}, {"cost": "tree"}, {"optimise": "top1"}], ids=str)
@pytest.mark.parametrize("labelled", [False, True])
def test_the_columns_are_those_of_the_answers(
    asked: dict[str, str], labelled: bool, run: Path, photos: Path, tmp_path: Path
) -> None:
    """A cost where answers are to have the least, a label where there is one, and nothing else."""
    expected = lt.predict(run, data=photos, labelled=labelled, **asked)
    lt.predict(run, data=photos, labelled=labelled, out=f"{tmp_path}/out/", **asked)
    written = rows(tmp_path / "out")
    frame = expected.to_pandas()
    assert {name for name in frame if not name.startswith("guess")} | {"guesses", "node"} == (
        set(written.column_names) - {"label_node"}
    )
    if asked:
        np.testing.assert_allclose(written["expected_cost"], frame["expected_cost"], rtol=1e-4)


def test_least_expected_cost(run: Path, photos: Path, tmp_path: Path) -> None:
    words = ["predict", str(run), "--data", str(photos), "--out", f"{tmp_path}/out/", "--cost", "tree"]
    assert main(words) == 0
    assert all(cost >= 0 for cost in rows(tmp_path / "out")["expected_cost"].to_pylist())


def test_commands(
    run: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], undisturbed: Path
) -> None:
    words = ["embed", str(run), "--data", str(photos), "--out", f"{tmp_path}/out/", "--part-size", "16"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.startswith("40 samples, ")
    assert f"3 files in {tmp_path}/out/" in said.out
    assert said.err == f"embedding {photos}\n"
    assert same(tmp_path / "out", undisturbed)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert main(words) == 0
    assert capsys.readouterr().out == f"40 samples: {tmp_path}/out/ was complete already\n"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert main(["evaluate", "--embeddings", f"{tmp_path}/out", "--quiet"]) == 0
    assert (tmp_path / "out-evaluation" / "metrics.json").is_file()
    assert main(words) == 0  # the evaluation did not disturb it


def test_options_that_do_not_fit(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"{tmp_path}/out/"
    for words, sentence in (
        (["embed", str(run), "--out", out], "name them by --data"),
        (["embed", str(run), "--data", "x", "--own-labels", "--out", out], "--own-labels does not go"),
        (
            ["embed", str(run), "--data", "x", "--devices", "2", "--out", "x.npz"],
            "--devices goes with a folder",
        ),
        (["embed", str(run), "--data", "x", "--features"], "--features goes with a folder"),
        (["predict", str(run), "--data", "x", "--part-size", "2"], "--part-size goes with a folder"),
        (["predict", str(run), "--data", "x", "--out", out, "--format", "csv"], "--format does not go"),
        (["predict", str(run), "--split", "test", "--out", out], "name them by --data"),
        (["predict", str(run), "--data", "x", "--out", out, "--top", "-1"], "top is -1"),
        (["embed", str(run), "--data", "x", "--out", out, "--part-size", "0"], "part-size is 0"),
        (["embed", str(run), "--data", "x", "--out", out, "--devices", "0"], "devices is 0"),
        (["embed", str(run), "--data", "nowhere", "--out", out], "'nowhere'"),
        (["embed", str(run), "--data", "fashion-mnist", "--out", out], "neither a folder"),
    ):
        assert main(words) == 2, words
        assert sentence in capsys.readouterr().err, words
        assert not (tmp_path / "out").exists()


# Every source


def test_every_source_gives_the_same(run: Path, photos: Path, tmp_path: Path, undisturbed: Path) -> None:
    expected = rows(undisturbed)
    names = expected["sample"].to_pylist()
    labels = [name.rsplit("/", 1)[0] for name in names]
    lines = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
    (photos / "list.csv").write_text("\n".join(["image,label", *lines]))
    for number, part in enumerate(np.array_split(np.arange(40), 3)):
        with tarfile.open(tmp_path / f"s-{number}.tar", "w") as tar:
            for place in part.tolist():
                tar.add(photos / names[place], f"{place:04d}.png")
                label = tmp_path / "label"
                label.write_text(labels[place])
                tar.add(label, f"{place:04d}.cls")
        content = [(photos / names[place]).read_bytes() for place in part.tolist()]
        table = pa.table({"image": content, "label": [labels[place] for place in part.tolist()]})
        pq.write_table(table, tmp_path / f"s-{number}.parquet", row_group_size=5)
    for number, data in enumerate(
        (photos / "list.csv", tmp_path / "s-{0..2}.tar", tmp_path / "s-{0..2}.parquet")
    ):
        for world in (1, 3):
            out = tmp_path / f"out-{number}-{world}"
            shares = [run_process(job(run, data, out), Place(rank, world)) for rank in range(world)]
            assert [done.complete for done in shares] == [False] * (world - 1) + [True]
            assert shares[-1].written == 8 + SIZE * (2 if world == 1 else 0)
            assert EmbeddingTable.load(out).embeddings.shape[0] == 40
            found = rows(out)
            for column in ("embeddings", "nodes", "labels", "problem"):
                assert found[column].equals(expected[column]), (data, column)
        (tmp_path / f"out-{number}-1" / "part-00001.parquet").unlink()
        assert run_bulk(job(run, data, tmp_path / f"out-{number}-1")).written == SIZE
        assert same(tmp_path / f"out-{number}-1", out)
    (photos / "list.csv").unlink()


def test_shards_go_to_a_folder_without_being_asked(run: Path, photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        tar.add(next(photos.rglob("*.png")), "a.png")
    words = ["--data", str(tmp_path / "s.tar"), "--unlabelled", "--out"]
    assert main(["embed", str(run), *words, str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "part-00000.parquet").is_file()
    assert main(["embed", str(run), *words, str(tmp_path / "one.npz")]) == 0
    assert (tmp_path / "one.npz").is_file()


@pytest.mark.usefixtures("few_words")
def test_texts(tmp_path: Path) -> None:
    lines = [
        f"{a} {b},{c},{d}"
        for a in ("barks", "runs")
        for b, c, d in (("bone", "animal", "dog"), ("milk", "animal", "cat"), ("acorn", "plant", "oak"))
    ]
    (tmp_path / "train.csv").write_text("\n".join(["text,depth1,depth2", *(3 * lines)]))
    settings = {**SETTINGS, "encoder": "small-text", "image_size": None, "val": 0.4}
    path = lt.train(tmp_path / "train.csv", "ce", out=tmp_path / "run", progress_bar=False, **settings).path
    texts = ["a bone", "milk and more milk", "", "acorn", "barks " * 50, "x"] * 9
    new = ["text,depth1,depth2", *(f"{text},animal,dog" for text in texts)]
    (tmp_path / "new.csv").write_text("\n".join(new))
    done = run_bulk(job(path, tmp_path / "new.csv", tmp_path / "out"))
    assert (done.samples, done.unreadable, done.parts) == (54, 9, 4)
    table = rows(tmp_path / "out")
    assert table["sample"].to_pylist()[2] == "line 4"
    assert table["labels"].to_pylist()[0] == "animal/dog"
    found = EmbeddingTable.load(tmp_path / "out")
    expected = lt.load(path).embed(texts=[text for text in texts if text])
    torch.testing.assert_close(found.embeddings, expected.embeddings, rtol=1e-5, atol=1e-6)
    assert found.predictions is not None
    options = {"what": "predict", "labelled": False, "coverage": 0.6}
    run_bulk(job(path, tmp_path / "new.csv", tmp_path / "answers", **options))
    answers = rows(tmp_path / "answers").to_pydict()
    assert answers["problem"][2] is not None
    assert answers["node"][2] is None
    wanted = lt.load(path).predict(texts=[text for text in texts if text], coverage=0.6)
    assert [node for node in answers["node"] if node is not None] == wanted.answers.nodes.tolist()


# Samples of all kinds


def test_samples_of_all_kinds(
    run: Path, photos: Path, tmp_path: Path, write_image: Callable[..., Path]
) -> None:
    data = tmp_path / "data"
    images = sorted(photos.rglob("*.png"))
    (data / "animal").mkdir(parents=True)
    for number, name in enumerate(["a.png", "same.png", "again.png", "ünï ' \" \n.png"]):
        shutil.copy(images[0 if 0 < number < 3 else 5], data / "animal" / name)
    shutil.copy(images[1], os.fsencode(data / "animal") + b"/\xff\xfe.png")
    (data / "animal" / "empty.png").touch()
    (data / "animal" / "text.jpg").write_text("no image")
    (data / "animal" / "half.png").write_bytes(images[2].read_bytes()[:300])
    (data / "animal" / "folder.png").mkdir()
    write_image(data / "mineral" / "quartz" / "gray.png", mode="L")
    write_image(data / "top.png", size=(1, 1))
    done = run_bulk(job(run, data, tmp_path / "out", part_size=4))
    table = rows(tmp_path / "out").to_pydict()
    assert table["sample"] == [sample.name for sample in stream_samples(data)]
    assert (done.samples, done.unreadable, done.unknown_labels) == (10, 3, 1)
    problems = {name: why for name, why in zip(table["sample"], table["problem"], strict=True) if why}
    assert sorted(problems) == ["animal/empty.png", "animal/half.png", "animal/text.jpg"]
    assert problems["animal/empty.png"] == "the file is empty"
    by_name = dict(zip(table["sample"], table["embeddings"], strict=True))
    assert by_name["animal/same.png"] == by_name["animal/again.png"]
    assert by_name["animal/half.png"] is None
    named = dict(zip(table["sample"], zip(table["nodes"], table["labels"], strict=True), strict=True))
    assert named["mineral/quartz/gray.png"] == (-1, "mineral/quartz")
    assert named["top.png"] == (-1, None)
    assert named["animal/a.png"][0] == int(lt.load(run).taxonomy.encode(["animal"])[0])
    assert "1 with a label that the run's taxonomy does not have" in done.sentence()
    assert len(EmbeddingTable.load(tmp_path / "out")) == 7
    words = ["predict", str(run), "--data", str(data), "--out", str(tmp_path / "answers") + "/"]
    assert main(words) == 1
    assert main(words) == 1  # complete, and still three could not be read


def test_one_sample_and_none(run: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match="holds no samples"):
        run_bulk(job(run, tmp_path / "data", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    shutil.copy(next(photos.rglob("*.png")), tmp_path / "data")
    assert run_bulk(job(run, tmp_path / "data", tmp_path / "out")).samples == 1
    for rank in (1, 0):  # one of two has nothing to do
        done = run_process(job(run, tmp_path / "data", tmp_path / "two"), Place(rank, 2, rank, 2))
    assert done.samples == 1
    assert same(tmp_path / "out", tmp_path / "two")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").touch()
    assert run_bulk(job(run, tmp_path / "broken", tmp_path / "bad")).unreadable == 1
    assert rows(tmp_path / "bad")["embeddings"].to_pylist() == [None]
    assert run_bulk(job(run, tmp_path / "broken", tmp_path / "no", what="predict")).unreadable == 1


@pytest.mark.parametrize("size", [1, 8, 20, 39, 40, 41])
def test_parts_of_any_size(run: Path, photos: Path, tmp_path: Path, undisturbed: Path, size: int) -> None:
    done = run_bulk(job(run, photos, tmp_path / "out", part_size=size, workers=3))
    assert done.parts == -(-40 // size)
    assert rows(tmp_path / "out")["sample"].equals(rows(undisturbed)["sample"])
    torch.testing.assert_close(
        EmbeddingTable.load(tmp_path / "out").embeddings,
        EmbeddingTable.load(undisturbed).embeddings,
        rtol=1e-5,
        atol=1e-6,
    )


def test_few_samples_are_in_memory(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples are taken from the stream no earlier than they are needed."""
    taken = written = most = 0
    one = next(iter(stream_samples(photos)))

    def stream(self: BulkSamples, skip: int = 0) -> Iterator[object]:
        nonlocal taken
        for _ in range(5000 - skip):
            taken += 1
            yield one

    def write(
        self: PartWriter, batch: pa.RecordBatch, before: Callable[..., None] = PartWriter.write
    ) -> None:
        nonlocal written, most
        written += len(batch)
        most = max(most, taken - written)
        before(self, batch)

    monkeypatch.setattr(BulkSamples, "stream", stream)
    monkeypatch.setattr(PartWriter, "write", write)
    assert run_bulk(job(run, photos, tmp_path / "out", part_size=1500, workers=2)).samples == 5000
    assert written == 5000
    assert most <= 4 * 256


# Stopped and continued


@pytest.mark.parametrize("there", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_continues_at_every_border(
    run: Path, photos: Path, tmp_path: Path, undisturbed: Path, there: tuple[int, ...]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    manifest = json.loads((out / "_manifest.json").read_text())
    (out / "_manifest.json").write_text(json.dumps({**manifest, "counts": None}))
    for number in {0, 1, 2} - set(there):
        (out / f"part-{number:05d}.parquet").unlink()
    (out / ".part-00001-abcdefgh.parquet").write_bytes(b"of a killed process")
    before = {number: (out / f"part-{number:05d}.parquet").stat().st_mtime_ns for number in there}
    done = run_bulk(job(run, photos, out))
    assert done.complete
    assert done.written == 40 - sum(8 if number == 2 else SIZE for number in there)
    assert {number: (out / f"part-{number:05d}.parquet").stat().st_mtime_ns for number in there} == before
    assert same(out, undisturbed)


KILLED = """
import os, signal, sys
from labeltree.cli.main import main
from labeltree.runs import parts
left = int(sys.argv[1])
def dies(call):
    def instead(*given, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **named)
    return instead
parts.PartWriter.write = dies(parts.PartWriter.write)
parts.PartWriter.flush = dies(parts.PartWriter.flush)
os.replace = dies(os.replace)
sys.exit(main(sys.argv[2:]))
"""


def test_killed_in_the_middle(run: Path, photos: Path, tmp_path: Path, undisturbed: Path) -> None:
    words = ["embed", str(run), "--data", str(photos), "--out", f"{tmp_path}/out/", "--part-size", str(SIZE)]
    for calls in (0, 1, 3, 4, 2):  # at each kind of step; `make campaign-bulk` kills more often
        killed = start_forked(KILLED, [str(calls), *words], tmp_path / "errors.txt")
        assert end_forked(killed, 400) == -9, (tmp_path / "errors.txt").read_text()
    assert main(words) == 0
    assert same(tmp_path / "out", undisturbed)


def test_what_has_changed_is_refused(run: Path, photos: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(photos, data)
    run_bulk(job(run, data, out))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copytree(photos, tmp_path / "other")
    for changed, sentence in (
        ({"data": tmp_path / "other"}, "of other data"),
        ({"part_size": 8}, "part size 16, not 8"),
        ({"features": True}, "features False, not True"),
        ({"what": "predict"}, "what 'embed', not 'predict'"),
        ({"labelled": False}, "labels True, not False"),
    ):
        with pytest.raises(OtherSettingsError, match=sentence):
            run_bulk(job(run, **{"data": data, "out": out, **changed}))  # type: ignore[arg-type]
    other = tmp_path / "run"
    shutil.copytree(run, other)
    weights = RunFolder(other).encoder
    tensors = lt.load(other).network.state_dict()
    assert tensors
    from safetensors.torch import load_file, save_file

    changed_weights = {
        name: value + 0.01 if value.is_floating_point() else value
        for name, value in load_file(weights).items()
    }
    save_file(changed_weights, weights)
    with pytest.raises(OtherSettingsError, match="by another model"):
        run_bulk(job(other, data, out))
    first = sorted(data.rglob("*.png"))[0]
    shutil.copy(first, first.with_name("zzz.png"))
    with pytest.raises(OtherSettingsError, match="before they changed"):
        run_bulk(job(run, data, out))
    first.with_name("zzz.png").unlink()
    for last in sorted(data.rglob("*.png"))[-9:]:
        last.unlink()
    with pytest.raises(OtherSettingsError, match="before they changed"):
        run_bulk(job(run, data, out))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_changed_table_is_refused(run: Path, photos: Path, tmp_path: Path) -> None:
    names = [str(path) for path in sorted(photos.rglob("*.png"))]
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "list.csv").write_text(
        "\n".join(["image", *(f"photos/{n[len(str(photos)) + 1 :]}" for n in names)])
    )
    run_bulk(job(run, tmp_path / "list.csv", tmp_path / "out"))
    with (tmp_path / "list.csv").open("a") as file:
        file.write("\nphotos/missing.png")
    with pytest.raises(OtherSettingsError, match="before they changed"):
        run_bulk(job(run, tmp_path / "list.csv", tmp_path / "out"))


def test_other_folders_are_left_alone(run: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="holds other files"):
        run_bulk(job(run, photos, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# What the system refuses


def test_full_disk(run: Path, photos: Path, tmp_path: Path, undisturbed: Path) -> None:
    out, limits = tmp_path / "out", resource.getrlimit(resource.RLIMIT_FSIZE)
    least = (undisturbed / "part-00000.parquet").stat().st_size // 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (least, limits[1]))
    try:
        with pytest.raises(WriteError, match=r"part-00000\.parquet"):
            run_bulk(job(run, photos, out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in out.iterdir()) == ["_manifest.json", "_taxonomy.json"]
    assert run_bulk(job(run, photos, out)).complete
    assert same(out, undisturbed)


def test_read_only_output(run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*, prefix: str, suffix: str, dir: Path) -> object:
        raise OSError(30, os.strerror(30), f"{dir}/{prefix}12345678{suffix}")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr("labeltree.atomic.tempfile.mkstemp", refuses)
    with pytest.raises(WriteError, match="read-only"):
        run_bulk(job(run, photos, tmp_path / "out"))


def test_one_process_at_a_time(run: Path, photos: Path, tmp_path: Path) -> None:
    code = "import sys; from labeltree.lock import lock_folder\n"
    code += "with lock_folder(sys.argv[1]): print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(FolderInUseError):
        run_bulk(job(run, photos, tmp_path / "out"))
    holder.communicate(b"\n")
    with lock_folder(tmp_path / "out"):  # its own process may
        assert run_bulk(job(run, photos, tmp_path / "out")).complete


# Several processes


WORKER = """
import sys
from labeltree.inference.bulk.bulk_worker import main
sys.stdin = open(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


class ForkedWorker:
    """A worker as `subprocess.Popen` starts it, so far as it is asked, but forked."""

    def __init__(self, folder: Path, place: list[str]) -> None:
        for name in ("input", "output"):
            os.mkfifo(folder / f"{name}{place[0]}")
        source, output = (folder / f"{name}{place[0]}" for name in ("input", "output"))
        self._process = start_forked(
            WORKER, [str(source), *place], folder / f"errors{place[0]}", output=output
        )
        self.stdout = output.open()
        self.stdin = source.open("w")

    def poll(self) -> int | None:
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        self._process.join()
        self.stdout.close()


def fork_workers(monkeypatch: pytest.MonkeyPatch, folder: Path, fresh: int = 0) -> None:
    """Workers of bulk jobs are forked, except the first ``fresh`` ones."""

    def start(words: list[str], **options: Any) -> ForkedWorker | subprocess.Popen[str]:
        if int(words[-2]) < fresh:
            return subprocess.Popen(words, **options)
        return ForkedWorker(folder, words[-2:])

    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(Popen=start, PIPE=subprocess.PIPE))


@pytest.mark.long
def test_two_processes_make_what_one_makes(
    run: Path,
    photos: Path,
    tmp_path: Path,
    undisturbed: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork_workers(monkeypatch, tmp_path, fresh=1)
    words = ["embed", str(run), "--data", str(photos), "--out", f"{tmp_path}/out/", "--part-size", str(SIZE)]
    assert main([*words, "--devices", "2"]) == 0
    assert "Traceback" not in capfd.readouterr().err
    assert same(tmp_path / "out", undisturbed)
    for number in (0, 2):
        (tmp_path / "out" / f"part-{number:05d}.parquet").unlink()
    assert main(words) == 0  # with another number of processes
    assert same(tmp_path / "out", undisturbed)
    for rank in range(2):
        assert run_process(job(run, photos, tmp_path / "out"), Place(rank, 2, rank, 2)).written == 0
    assert main(words) == 0
    assert "complete already" in capfd.readouterr().out


def test_an_error_of_a_process_is_raised(
    run: Path, photos: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_workers(monkeypatch, tmp_path)
    shutil.copytree(undisturbed, tmp_path / "out")
    with pytest.raises(OtherSettingsError, match="part size"):
        run_bulk(job(run, photos, tmp_path / "out", part_size=3), devices=2)


def test_a_killed_process_is_named(
    run: Path, photos: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-2:] == ['1', '2'] and 'labeltree.inference.bulk.bulk_worker' in sys.orig_argv:\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")
    with pytest.raises(RunError, match=r"process 1 of 2 was killed by signal 9"):
        run_bulk(job(run, photos, tmp_path / "out"), devices=2)
    assert run_bulk(job(run, photos, tmp_path / "out")).complete
    assert same(tmp_path / "out", undisturbed)


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_processes_started_by_others(
    run: Path,
    photos: Path,
    tmp_path: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: str,
) -> None:
    names = {
        "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
        "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"),
    }[launcher]
    found = []
    for rank in range(2):
        for name, value in zip(names, (rank, 2, rank, 2, 7), strict=True):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("SLURM_JOB_NAME", "embedding")
        found.append(run_bulk(job(run, photos, tmp_path / "out")))
    assert [done.complete for done in found] == [False, True]
    assert [done.written for done in found] == [24, 16]
    assert "others are at work" in found[0].sentence()
    assert same(tmp_path / "out", undisturbed)
    with pytest.raises(ValueError, match="goes without torchrun"):
        run_bulk(job(run, photos, tmp_path / "out"), devices=2)


def test_processes_wait_for_the_one_that_calibrates(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def opened(*given: object) -> object:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise FolderInUseError("in use")
        return open_decider(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(process, "open_decider", opened)
    monkeypatch.setattr(shared_decider, "open_decider", opened)
    monkeypatch.setattr(shared_decider, "_PAUSE_S", 0)
    answers = job(run, photos, tmp_path / "out", what="predict")
    with pytest.raises(FolderInUseError, match=r"^in use$"):
        run_process(answers)  # the only process does not wait
    assert run_process(answers, Place(1, 2)).written == SIZE
    assert tries == 3
    tries = -1000
    monkeypatch.setattr(shared_decider, "_PATIENCE_S", 0)
    with pytest.raises(FolderInUseError, match=r"has waited .*run 'labeltree calibrate .*run' before"):
        run_process(answers, Place(0, 2))


# Reading


def test_an_unfinished_folder_is_not_read(run: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    (out / "part-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks 'part-00001\.parquet'"):
        EmbeddingTable.load(out)
    manifest = json.loads((out / "_manifest.json").read_text())
    (out / "_manifest.json").write_text(json.dumps({**manifest, "counts": None}))
    with pytest.raises(DataError, match="is not complete"):
        EmbeddingTable.load(out)
    (out / "_manifest.json").write_text("{}")
    with pytest.raises(RunError, match="does not say"):
        EmbeddingTable.load(out)


def test_evaluation_of_a_folder(run: Path, undisturbed: Path, tmp_path: Path) -> None:
    done = lt.evaluate(undisturbed, out=tmp_path / "evaluation", resamples=0)
    assert done.metrics.is_file()
    with pytest.raises(TaxonomyError):
        lt.evaluate(undisturbed, tmp_path / "missing.yaml", out=tmp_path / "other")


def test_progress_is_reported(run: Path, photos: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    lt.load(run).embed_to(
        photos, tmp_path / "out", part_size=SIZE, progress=lambda *words: told.append(words)
    )
    assert told[-1][:2] == (f"embedding {photos}", 40)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    with pytest.raises(TypeError):
        lt.load(run).embed_to(photos, tmp_path / "out", no_such=1)
