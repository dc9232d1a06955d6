"""Suspects of a run: neighbours are sought where its wrong labels have not drawn their samples away."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.curation.judged_samples import JudgedSamples, open_judged
from labeltree.curation.table_suspects import find_table_suspects
from labeltree.index import IndexRows, open_table
from labeltree.inference.run_embeddings import run_tables
from labeltree.options.curation import SuspectsOptions
from labeltree.runs import EmbeddingTable

CLASSES = np.array([f"branch {i // 2}/class {i}" for i in range(6)])
PLANTED = np.arange(0, 96, 13)
"""Samples with a label of another branch."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on vectors whose head has learned every label, also the wrong ones."""
    folder = tmp_path_factory.mktemp("wrong")
    draw = np.random.default_rng(0)
    truth = np.arange(96) % 6
    vectors = draw.standard_normal((6, 24))[truth] + 0.7 * draw.standard_normal((96, 24))
    given = truth.copy()
    given[PLANTED] = (truth[PLANTED] + 3) % 6
    split = np.where(np.arange(96) % 12 == 1, "val", "train")
    np.savez(folder / "vectors.npz", vectors=vectors, labels=CLASSES[given], split=split)
    settings = {"epochs": 60, "batch_size": 44, "optimizer.lr": 0.03, "accelerator": "cpu"}
    data = folder / "vectors.npz"
    lt.train(data, "pairs-proxies-means", out=folder / "run", progress_bar=False, **settings)
    return folder / "run"


def test_neighbours_are_those_of_the_frozen_encoder_and_not_of_the_head(run: Path) -> None:
    suspected = lt.suspects(run)
    assert suspected.space == "features"
    assert "in the features of the encoder" in suspected.notes[0]
    untrained = replace(run_tables(run, ("untrained",))[1]["untrained"], taxonomy=open_table(run).tree)
    wanted = find_table_suspects(untrained, SuspectsOptions(run)).scores
    assert torch.equal(suspected.scores.nan_to_num(-1), wanted.nan_to_num(-1))
    drawn = replace(open_table(run), head_fits_labels=False)
    in_embeddings = find_table_suspects(drawn, SuspectsOptions(run)).scores
    assert not torch.equal(wanted.nan_to_num(-1), in_embeddings.nan_to_num(-1))
    assert set(PLANTED.tolist()) <= {one.row for one in suspected.found}


def test_the_command_says_where_it_looked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suspects", str(run), "--quiet"]) == 0
    assert (
        "nearest samples are those in the features of the encoder, not in the embeddings: "
        in capsys.readouterr().out
    )
    assert json.loads((run / "suspects.json").read_text("utf-8"))["space"] == "features"


@pytest.mark.skipif(find_spec("lancedb") is None, reason="lancedb is not installed")
def test_an_index_is_judged_in_the_features_of_its_run(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    index = lt.make_index(tmp_path / "run", out=tmp_path / "index")
    judged = open_judged(index.where)
    assert judged.space == "features"
    scores = find_table_suspects(judged, SuspectsOptions(index.where)).scores
    torch.testing.assert_close(scores, lt.suspects(run).scores, equal_nan=True)
    index.add(IndexRows(["elsewhere"], torch.ones(1, index.settings.dim).numpy(), None))
    if index.settings.vectors == "embeddings":
        assert open_judged(index.where).space == "embeddings"


def test_an_encoder_that_was_trained_is_said_to_hide_what_it_has_memorised() -> None:
    table = EmbeddingTable(torch.eye(4), torch.ones(4, dtype=torch.int64), features=torch.ones(4, 2))
    trained = JudgedSamples.of(replace(table, learned_features=True))
    assert trained.space == "embeddings"
    assert "memorised" in trained.sentence
    assert JudgedSamples.of(table).table is table


def memorised(noise: float) -> JudgedSamples:
    """An encoder that knows each training label by heart, and raw samples with so much noise."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.arange(96) % 6
    given = truth.clone()
    given[PLANTED] = (truth[PLANTED] + 3) % 6
    tree = lt.Taxonomy.from_paths([tuple(name.split("/")) for name in CLASSES])
    held = torch.arange(96) % 4 == 1
    seen = torch.eye(6)[torch.where(held, torch.randint(6, (96,), generator=draw), given)]
    raw = torch.eye(6)[truth] + noise * torch.randn(96, 6, generator=draw)
    nodes = tree.encode(CLASSES[given.numpy()].tolist())
    split = np.where(held, "test", "train")
    table = EmbeddingTable(seen, nodes, split=split, features=seen, taxonomy=tree, learned_features=True)
    table = replace(table, ids=np.array([f"sample {row}" for row in range(96)]))
    spaces = {"raw": replace(table, embeddings=raw, features=raw)}
    return replace(JudgedSamples.of(table), label_free=spaces, names={"raw": "the raw words"})


def test_where_the_encoder_has_memorised_wrong_labels_the_raw_samples_judge() -> None:
    samples = memorised(noise=0.1)
    suspected = find_table_suspects(samples, SuspectsOptions("run"))
    assert suspected.space == "raw"
    assert {one.row for one in suspected.found} == set(PLANTED.tolist())
    note = suspected.notes[0]
    assert note.startswith("labels are judged by the raw words, not by the encoder, which has learned them")
    assert "of 24 labels held out of training, 91.7% fit the raw words, and " in note
    alone = find_table_suspects(samples.table, SuspectsOptions("run"))
    assert not {one.row for one in alone.found if alone.found} >= set(PLANTED.tolist())


def test_an_encoder_that_fits_more_of_the_labels_held_out_judges_itself() -> None:
    samples = memorised(noise=0.1)
    swapped = replace(
        samples,
        table=replace(samples.label_free["raw"], learned_features=True),
        label_free={"raw": samples.table},
    )
    suspected = find_table_suspects(swapped, SuspectsOptions("run"))
    assert suspected.space == "embeddings"
    assert "memorised hide" in suspected.notes[0]
    assert "held out of training" in suspected.notes[0]
    without = replace(samples, table=replace(samples.table, split=np.full(96, "train")))
    assert find_table_suspects(without, SuspectsOptions("run")).space == "embeddings"  # nothing to choose by


@pytest.mark.usefixtures("few_words")
def test_texts_of_a_run_that_trained_its_encoder_are_judged_by_their_words(tmp_path: Path) -> None:
    words = {"drink": "tea milk juice", "tool": "saw drill rake"}
    rows = [
        (f"{a} {b} {number}", label)
        for label, said in words.items()
        for a in said.split()
        for b in said.split()
        for number in range(4)
    ]
    lines = ["text,label", *(f"{text},{label}" for text, label in [*rows, ("cold tea with milk", "tool")])]
    (tmp_path / "products.csv").write_text("\n".join(lines))
    settings = {"encoder": "small-text", "epochs": 1, "val": 0.3, "batch_size": 32, "accelerator": "cpu"}
    run = lt.train(tmp_path / "products.csv", "ce", out=tmp_path / "run", progress_bar=False, **settings).path
    judged = open_judged(run)
    assert dict(judged.names)["raw"] == "the raw words"
    assert list(judged.label_free) == ["raw"]
    suspected = lt.suspects(run)
    assert suspected.space == "raw"
    assert [one.text for one in suspected.found] == ["cold tea with milk"]
    if find_spec("lancedb") is not None:
        index = lt.make_index(run, out=tmp_path / "index")
        assert lt.suspects(index.where).scores.equal(suspected.scores)
        index.add(IndexRows(["elsewhere"], torch.ones(1, index.settings.dim).numpy(), None))
        assert not open_judged(index.where).label_free


@pytest.mark.usefixtures("few_words")
def test_tables_show_the_text_of_each_sample_and_the_line_it_stands_on(tmp_path: Path) -> None:
    words = {"drink": "tea milk juice", "tool": "saw drill rake"}
    rows = [(f"{a} {b}", label) for label, said in words.items() for a in said.split() for b in said.split()]
    rows = [*rows, ("cold tea,\nwith milk", "tool"), ("old saw", "")] * 2
    lines = ["Our products", "text,label", *(f'"{text}",{label}' for text, label in rows)]
    (tmp_path / "products.csv").write_text("\n".join(lines))
    settings = {"encoder": "small-text", "epochs": 1, "val": 0.2, "batch_size": 8, "accelerator": "cpu"}
    data = tmp_path / "products.csv"
    run = lt.train(data, "ce", out=tmp_path / "run", progress_bar=False, **settings).path
    assert main(["suspects", str(run), "--least-score", "0", "--quiet"]) == 0
    shown = (tmp_path / "products.csv").read_text("utf-8").split("\n")
    lt.label_next(run, out=tmp_path / "next.csv", budget=5)
    for file in (run / "suspects.csv", tmp_path / "next.csv"):
        with file.open(newline="", encoding="utf-8") as table:
            listed = list(csv.DictReader(table))
        assert listed
        for row in listed:
            line = int(row["sample"].removeprefix("line "))
            assert shown[line - 1].startswith(f'"{row["text"].splitlines()[0]}')
