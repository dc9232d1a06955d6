"""A run on vectors: trained, measured, asked, searched, extended and exported like any other."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from fastapi.testclient import TestClient

import labeltree as lt
from exported_script import load_exported_script
from labeltree.cli.main import main
from labeltree.data import open_source
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import run_tables
from labeltree.models import VectorEncoder
from labeltree.runs import EmbeddingTable
from labeltree.serving.app import create_app
from labeltree.serving.engine import Engine
from labeltree.serving.service_settings import ServiceSettings
from labeltree.training.experiment import standardise
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of

pytestmark = pytest.mark.slow

PATHS = ("animal/dog", "animal/cat", "plant/oak", "plant/fern")
WIDTH = 6


def vectors_of(count, seed):
    """Vectors and labels, each class around a point of its own; the last column is constant."""
    rng = np.random.default_rng(seed)
    points = np.random.default_rng(0).normal(size=(len(PATHS), WIDTH)) * 3
    labels = np.arange(count) % len(PATHS)
    vectors = points[labels] + rng.normal(size=(count, WIDTH))
    vectors[:, -1] = 7
    return vectors * [100, 1, 1, 1, 1, 1], np.array(PATHS)[labels]


def write(path, count, seed, **columns):
    vectors, labels = vectors_of(count, seed)
    np.savez(path, vectors=vectors, labels=labels, **columns)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def run(folder):
    data = write(folder / "features.npz", 120, 1, ids=np.array([f"cell{row}" for row in range(120)]))
    recipe = parser_of("auto").recipe(["--data", str(data), "--epochs=2", "--accelerator=cpu"])
    return train(recipe, folder / "run", progress_bar=False).path


@pytest.fixture(scope="module")
def others(folder, run):
    return write(folder / "new.npz", 12, 2, ids=np.array([f"new{row}" for row in range(12)]))


def test_statistics_are_those_of_training_samples(folder, run):
    loaded = load_run(run)
    assert loaded.recipe.encoder == "vectors"
    assert loaded.recipe.trainable == "head"
    training = loaded.source.of_split("train")
    vectors = training.vectors.load(training.rows).double()
    encoder = loaded.network.encoder
    torch.testing.assert_close(encoder.centre.double(), vectors.mean(0), rtol=1e-6, atol=1e-6)
    spread = vectors.std(0, correction=0)
    torch.testing.assert_close(encoder.scale[:-1].double(), 1 / spread[:-1], rtol=1e-5, atol=0)
    assert encoder.scale[-1] == 0  # constant
    _, tables = run_tables(run)
    raw = loaded.source.vectors.load(loaded.source.rows)
    assert torch.equal(tables["raw"].embeddings, raw)
    torch.testing.assert_close(tables["trained"].features, encoder(raw))
    torch.testing.assert_close(tables["untrained"].embeddings, encoder(raw))


def test_a_constant_column_is_told(run, caplog):
    standardise(VectorEncoder(WIDTH), load_run(run).source)
    assert "1 of 6 numbers is constant among the training samples, and left out: 'column 6'" in caplog.text


def test_the_report_has_the_vectors_beside_it(run, capsys):
    assert main(["evaluate", str(run), "--quiet"]) == 0
    assert main(["evaluate", str(run), "--full"]) == 0
    printed = capsys.readouterr().out
    assert "raw vectors" in printed
    assert "Training changed no answer: they come from " in printed  # the same vectors before and after


def test_answers_are_the_same_in_every_way(run, others, folder):
    model, vectors = lt.load(run), np.load(others)["vectors"]
    of_file = model.predict(data=others)
    assert of_file.samples[:2] == ["new0", "new1"]
    of_array = model.predict(vectors)
    np.save(folder / "new.npy", vectors.astype(np.float32))
    of_command = lt.predict(run, [folder / "new.npy"])
    batch = model.answer_batch(list(vectors))
    nodes = of_file.answers.nodes.tolist()
    for answers in (of_array.answers, of_command.answers, batch):
        assert answers.nodes.tolist() == nodes
    assert len(model.predict(vectors[0]).answers) == 1
    labelled = model.predict(data=others, labelled=True)
    assert (labelled.answers.nodes == labelled.labels).double().mean() > 0.7


def test_a_table_of_embeddings_has_the_ids(run, tmp_path):
    for name, others in (("own", []), ("new", ["--data", write(tmp_path / "n.npz", 8, 4, id=np.arange(8))])):
        assert main(["embed", str(run), "--out", str(tmp_path / f"{name}.npz"), *map(str, others)]) == 0
    assert np.load(tmp_path / "own.npz")["ids"][:2].tolist() == ["cell0", "cell1"]
    assert np.load(tmp_path / "new.npz")["ids"].tolist() == list("01234567")
    assert EmbeddingTable.load(tmp_path / "new.npz", lt.load(run).taxonomy).names == list("01234567")


def test_columns_are_taken_by_name(folder, tmp_path):
    vectors, labels = vectors_of(60, 3)
    rows = [["label", *(f"f{n}" for n in range(WIDTH))]]
    rows += [[label, *map(str, vector)] for label, vector in zip(labels, vectors, strict=True)]
    table, turned = tmp_path / "t.csv", tmp_path / "turned.csv"
    table.write_text("\n".join(map(",".join, rows)))
    turned.write_text(
        "\n".join(",".join([*reversed(row), "1"]) for row in rows).replace("label,1", "label,n", 1)
    )
    recipe = parser_of("ce").recipe(
        ["--data", str(table), "--objective=ce", "--epochs=1", "--accelerator=cpu"]
    )
    model = lt.load(train(recipe, tmp_path / "run", progress_bar=False).path)
    known, other = (model.embed(data=path).embeddings for path in (table, turned))
    torch.testing.assert_close(known, other)
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("\n".join(",".join(row[:-1]) for row in rows))
    with pytest.raises(DataError, match="no column 'f5'"):
        model.embed(data=lacking)


def test_vectors_of_another_kind_are_refused(run, tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((2, 5)))
    model = lt.load(run)
    for samples, error in (
        ({"data": tmp_path / "wide.npy"}, r"vectors of 5 numbers, but the run .* was trained on 6"),
        ({"samples": np.zeros((2, 5))}, r"vectors of 5 numbers"),
        ({"samples": "new.npz"}, r"there is no file of vectors 'new.npz'"),
        ({"texts": ["a dog"]}, r"reads vectors: instead of texts, give a file of vectors as data"),
    ):
        with pytest.raises(DataError, match=error):
            model.predict(**samples)
    for samples, error in (
        ([[1.0, 2.0]], r"sample 0 has 2 numbers; the run reads vectors of 6"),
        ([[np.nan] * 6], r"sample 0 has nan as number 0"),
        (["dog"], r"sample 0 is a str; the run reads vectors"),
    ):
        with pytest.raises(DataError, match=error):
            model.answer_batch(samples)
    broken = np.zeros((3, 6))
    broken[1, 2] = np.inf
    assert model.predict(broken).skipped == {1: "inf in column 3"}


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("--trainable=all", "nothing to train below the head; .* adapter WIDTH"),
        ("--objective=simclr", "compares augmented views of a sample, which vectors do not have"),
        ("--encoder=small-text", "reads texts, but the samples .* are vectors; .* such as 'vectors'"),
        ("--views=simclr", "views is 'simclr', but encoder 'vectors' reads vectors"),
        ("--image_size=32", "image_size is 32, which has no effect for encoder 'vectors'"),
        ("--pretrained=true", "pretrained is True, which has no effect for encoder 'vectors'"),
    ],
)
def test_settings_that_vectors_do_not_have(folder, run, setting, error, tmp_path):
    name = setting.partition("=")[2] if "objective" in setting else "auto"
    arguments = ["--data", str(folder / "features.npz"), "--epochs=1", setting]
    with pytest.raises(ValueError, match=error):
        train(parser_of(name).recipe(arguments), tmp_path / "run", progress_bar=False)


def test_a_service_reads_json(run, others):
    engine = Engine(run, ServiceSettings())
    vectors = np.load(others)["vectors"]
    with TestClient(create_app(engine)) as client:
        assert client.get("/health").json()["reads"] == "vector"
        answers = client.post("/predict", json={"vectors": vectors.tolist()}).json()["answers"]
        model = lt.load(run)
        taxonomy, nodes = model.taxonomy, model.answer_batch(vectors).nodes.tolist()
        assert [answer["answer"] for answer in answers] == [taxonomy.path_name(node) for node in nodes]
        mixed = client.post("/embed", json={"vectors": [vectors[0].tolist(), [1.0]]}).json()["embeddings"]
        assert mixed[1]["problem"] == "it has 1 number; the run reads 6"
        for body, problem in (
            ({"texts": ["dog"]}, 'this run reads vectors: send JSON such as {"vectors": [[0.1, 0.2]]}'),
            ({"vectors": []}, "vectors: list should have at least 1 item"),
        ):
            reply = client.post("/predict", json=body)
            assert reply.status_code == 422
            assert reply.json()["detail"].startswith(problem)
        assert client.post("/predict", content=b"x", headers={"content-type": "image/png"}).status_code == 415


def test_search_by_vectors(run, others, folder):
    index = lt.make_index(run, out=folder / "index")
    hits = lt.search(folder / "index", [others], k=1).answers
    assert [answer.query for answer in hits][:2] == ["new0", "new1"]
    assert {answer.kind for answer in hits} == {"vector"}
    assert len(index) == 120
    assert lt.search(folder / "index", ids=["cell0"], k=3).answers[0].hits.ids[0] != ""


@pytest.mark.long
def test_new_classes_and_export(run, folder, tmp_path):
    vectors = np.full((9, WIDTH), -20.0) + np.random.default_rng(5).normal(size=(9, WIDTH))
    np.savez(folder / "owl.npz", vectors=vectors, labels=["animal/owl"] * 9)
    try:
        added = lt.extend(run, folder / "owl.npz").added
        assert [one["class"] for one in added] == ["animal/owl"]
    finally:
        assert main(["extend", str(run), "--undo"]) == 0
    assert main(["export", str(run), "--out", str(tmp_path / "model")]) == 0
    samples = vectors_of(3, 4)[0]
    np.save(tmp_path / "one.npy", samples[0])
    script = [sys.executable, "predict.py", str(tmp_path / "one.npy")]
    printed = subprocess.run(
        script, cwd=tmp_path / "model", capture_output=True, check=True, text=True
    ).stdout
    ours = lt.load(run)
    name = ours.taxonomy.path_name(int(ours.answer_batch(samples[:1]).nodes[0]))
    assert json.loads(printed)[0]["answer"] == name
    exported = lt.load(tmp_path / "model")
    assert exported.answer_batch(samples).nodes.tolist() == ours.answer_batch(samples).nodes.tolist()


def test_vectors_without_names_are_numbered_in_the_exported_script(run, tmp_path):
    assert main(["export", str(run), "--out", str(tmp_path / "model")]) == 0
    predict = load_exported_script(tmp_path / "model").predict
    vectors, _ = vectors_of(3, 4)
    np.save(tmp_path / "several.npy", vectors)
    rows = predict([str(tmp_path / "several.npy"), tmp_path / "none.npy"])
    assert [row["sample"] for row in rows[:2]] == ["row 1", "row 2"]
    assert len(rows) == len(vectors) + 1
    assert [row["problem"] is None for row in rows] == [True] * len(vectors) + [False]
    np.save(tmp_path / "one.npy", vectors[0])
    rows = predict([*vectors[:2], tmp_path / "one.npy"], 0.5)
    assert [row["sample"] for row in rows] == ["row 1", "row 2", str(tmp_path / "one.npy")]
    assert rows[0]["answer"] == rows[2]["answer"]
    assert json.loads((tmp_path / "model" / "preprocess.json").read_text())["columns"] == []
    (tmp_path / "new.csv").write_text("f0,f1\n1,2\n")
    (row,) = predict(tmp_path / "new.csv", 0.5)
    assert "no .npy file; 'labeltree predict' reads tables" in row["problem"]


def test_no_folder_of_parts(run, others, tmp_path):
    with pytest.raises(DataError, match=r"a run on vectors does not write folders.*--out FILE.csv"):
        lt.load(run).predict_to(others, tmp_path / "out")


def test_vectors_are_no_images(folder, run):
    source = open_source(folder / "features.npz")
    with pytest.raises(DataError, match="has vectors, no images"):
        source.load([0])
    with pytest.raises(DataError, match="has vectors, no texts"):
        source.read([0])


def test_an_export_reads_the_columns_of_training_by_their_names(tmp_path):
    """Swapped columns answered otherwise, without a word: which number is which was written nowhere."""
    vectors, labels = vectors_of(12, 3)
    names = [f"gene {place}" for place in range(WIDTH)]
    table = pd.DataFrame(vectors, columns=names)
    table.assign(label=labels).to_csv(tmp_path / "genes.csv", index=False)
    settings = {"vector_column": names, "label_columns": ["label"]}
    run = lt.train(
        tmp_path / "genes.csv", "tree-ridge", out=tmp_path / "run", table=settings, progress_bar=False
    )
    lt.load(run).export(tmp_path / "model", ["onnx"])
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"wherever the columns stand: {', '.join(f'`{name}`' for name in names)}." in card
    predict = load_exported_script(tmp_path / "model").predict
    rows = predict(list(vectors.astype(np.float32)), 0.5)
    table[names[::-1]].to_csv(tmp_path / "other.csv", index=False, sep=";")
    moved = predict(tmp_path / "other.csv", 0.5)
    assert [row["sample"] for row in moved] == [f"row {place + 1}" for place in range(len(vectors))]
    assert [row["answer"] for row in moved] == [row["answer"] for row in rows]
    table.drop(columns="gene 1").to_csv(tmp_path / "fewer.csv", index=False)
    (row,) = predict(tmp_path / "fewer.csv", 0.5)
    assert row["problem"] == f"it has no column 'gene 1' (1 of {WIDTH} are missing)"
    table.astype(object).iloc[:2].replace(table.iloc[0, 0], "n/a").to_csv(tmp_path / "text.csv", index=False)
    assert [row["problem"] for row in predict(tmp_path / "text.csv", 0.5)] == ["a number is not finite", None]
