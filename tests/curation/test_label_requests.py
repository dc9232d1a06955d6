"""The annotator's CSV: from a table, a run's files or an index, and back as corrections."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.curation.label_next import label_next
from labeltree.curation.label_requests import COLUMNS, may_be_labelled, write_requests
from labeltree.curation.suspects import Suspect, write_suspects
from labeltree.curation.table_suspects import find_table_suspects
from labeltree.data.corrections import Corrections
from labeltree.errors import DataError
from labeltree.index import Index, IndexRows
from labeltree.index.opened_tables import open_table
from labeltree.options.curation import SuspectsOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak", 'plant/"fir, white"'])


def some() -> EmbeddingTable:
    generator = torch.Generator().manual_seed(0)
    nodes = TREE.leaves.repeat(10)
    vectors = torch.randn(len(TREE), 4, generator=generator)[nodes] * 3
    vectors = vectors + torch.randn(len(nodes), 4, generator=generator)
    labels = torch.where(torch.arange(40) < 16, nodes, -1)
    labels[16] = TREE.find("animal")
    ids = [f'a "{row}", é\u2028.png' if row == 20 else f"{row}.png" for row in range(40)]
    split = np.asarray(["train"] * 30 + ["test"] * 10)
    contents = [f"content {row}" for row in range(40)]
    return EmbeddingTable(
        embeddings=vectors,
        nodes=labels,
        geometry="euclidean",
        ids=np.asarray(ids),
        contents=np.asarray(contents),
        split=split,
        taxonomy=TREE,
    )


def test_written_and_read_back(tmp_path: Path) -> None:
    samples = some()
    asked = label_next(samples.vectors, samples.nodes, TREE, budget=1000)
    out = tmp_path / "next.csv"
    write_requests(asked, samples, out)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert {row["sample"] for row in rows} == set(samples.names[16:])
    assert {row["content"] for row in rows} == {f"content {row}" for row in range(16, 40)}
    assert {row["label"] for row in rows} == {"", "animal"}
    assert all(TREE.find(row["suggested"]) > 0 for row in rows)
    write_requests(asked, samples, out)  # nothing is decided yet
    rows[0]["decision"] = "accept"
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(DataError, match="somebody has decided"):
        write_requests(asked, samples, out)


def test_it_is_a_table_of_corrections(tmp_path: Path) -> None:
    corrections = pytest.importorskip("labeltree.data.corrections")
    samples = some()
    asked = label_next(samples.vectors, samples.nodes, TREE, budget=1000)
    out = tmp_path / "next.csv"
    write_requests(asked, samples, out)
    with out.open(newline="", encoding="utf-8") as file:
        rows = [row | {"decision": "accept"} for row in csv.DictReader(file)]
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    done = corrections.Corrections.load(out).resolve(samples.ids, samples.nodes, TREE)
    assert torch.equal(done.nodes[asked.rows], asked.likely)
    assert torch.equal(done.nodes[:16], samples.nodes[:16])


def test_only_a_split_or_what_lies_below_a_node() -> None:
    samples = some()
    assert may_be_labelled(samples).all()
    assert int(may_be_labelled(samples, split="test").sum()) == 10
    assert may_be_labelled(samples, within="animal").nonzero()[:, 0].tolist()[-1] == 16
    with pytest.raises(DataError, match=r"the splits are: \['test', 'train'\]"):
        may_be_labelled(samples, split="val")


def test_of_an_index(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    samples = some()
    assert samples.split is not None
    rows = IndexRows(
        samples.names,
        samples.vectors.numpy(),
        samples.nodes.numpy(),
        splits=[str(one) for one in samples.split],
    )
    Index.create(tmp_path / "all.index", rows, taxonomy=TREE, geometry="euclidean")
    read = open_table(tmp_path / "all.index")
    assert read.names == samples.names
    assert torch.equal(read.nodes, samples.nodes)
    assert np.allclose(read.vectors.numpy(), samples.vectors.numpy())
    assert read.split is not None
    assert read.split.tolist() == samples.split.tolist()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = some()
    table, out = tmp_path / "t.npz", tmp_path / "next.csv"
    EmbeddingTable(samples.vectors, samples.nodes, geometry="euclidean").save(table)
    assert main(["label-next", str(table), "--out", str(out)]) == 2
    assert "--taxonomy FILE says what its numbers of nodes mean" in capsys.readouterr().err
    TREE.save(tmp_path / "t.taxonomy.json")
    command = ["label-next", str(table), "--out", str(out), "--budget", "6", "--depth", "gain"]
    assert main([*command, "--costs", "1,3", "--reliability", "1,.9"]) == 0
    said = capsys.readouterr().out
    assert "of 24 that could be labelled, by margin+clusters" in said
    assert sum(1 for _ in out.open(encoding="utf-8")) > 2
    for wrong, message in (
        (["--costs", "a,b"], "costs are 'levels'"),
        (["--depth", "deep"], "expected finest, gain or a number"),
        (["--reliability", "x"], "expected numbers"),
    ):
        assert main([*command, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_tables_with_long_texts_can_be_read_again(tmp_path: Path) -> None:
    """Readers of CSV refuse cells above 131,072 characters, and a workbook has 32,767 at most."""
    samples = some()
    samples = replace(samples, texts=["words\n" * 40_000] * len(samples))
    asked = label_next(samples.vectors, samples.nodes, TREE, budget=1000)
    write_requests(asked, samples, tmp_path / "next.csv")
    suspected = find_table_suspects(replace(samples, nodes=TREE.leaves.repeat(10)), SuspectsOptions("run"))
    one = Suspect(0, "line 2", "", "dog", "cat", "wrong leaf", 2, 0.9, "votes", text=samples.texts[0])
    write_suspects(replace(suspected, found=(one,)), tmp_path / "suspects.csv")
    obeyed = replace(one, text="clear \x1b[2J the screen")
    assert "clear \\x1b[2J the screen" in replace(suspected, found=(obeyed,)).table()
    for name in ("next.csv", "suspects.csv"):
        assert Corrections.load(tmp_path / name).entries == ()
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            assert all(row["text"].startswith("words\nwords") for row in csv.DictReader(file))
    write_requests(asked, samples, tmp_path / "next.csv")  # nothing is decided yet
