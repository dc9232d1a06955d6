"""What is said of corrected test labels, with the numbers with and without their correction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from labeltree.api import evaluate
from labeltree.data.corrections import Applied, Correction, Corrections
from labeltree.report.corrected_labels import CorrectedLabels
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
SPLIT = np.asarray(["train"] * 12 + ["test"] * 12)


def table(nodes: torch.Tensor) -> EmbeddingTable:
    vectors = torch.eye(3).repeat(8, 1) + 0.01 * torch.arange(24)[:, None]
    return EmbeddingTable(vectors, nodes, geometry="euclidean", split=SPLIT)


def test_only_what_is_measured_is_left_as_it_was() -> None:
    before = TREE.encode(["dog", "cat", "oak"] * 8)
    after, keep = before.clone(), torch.ones(24, dtype=torch.bool)
    after[0], after[12], after[13], keep[1], keep[14] = before[1], before[2], -1, False, False
    labels = CorrectedLabels.of(Applied(after, keep, {}, "done"), table(before), "test")
    assert labels.in_test == 3
    assert torch.equal(labels.table(table(before)).nodes, after[keep])
    plain = labels.table(table(before), test=False)
    assert torch.equal(plain.nodes[-12:], before[12:])
    assert len(plain) == 23
    assert int(plain.nodes[0]) == int(before[1])
    other = CorrectedLabels.of(Applied(after, keep, {}, "done"), table(before), "train")
    assert other.in_test == 2


def test_the_numbers_with_and_without(tmp_path: Path) -> None:
    nodes = TREE.encode(["dog", "cat", "oak"] * 8)
    nodes[21] = TREE.find("oak")  # a dog among the test samples
    table(nodes).save(tmp_path / "t.npz")
    TREE.save(tmp_path / "tree.json")

    def cautions(entries: list[Correction]) -> str:
        Corrections(tuple(entries)).save(tmp_path / "c.csv")
        done = evaluate(
            tmp_path / "t.npz",
            tmp_path / "tree.json",
            corrections=tmp_path / "c.csv",
            out=tmp_path / "out",
            resamples=0,
        )
        return " ".join(done.result.cautions)

    said = cautions([Correction("21", "oak", "accept", "dog"), Correction("22", "cat", "no label")])
    assert "Of 12 test labels, 2 were corrected (1 replaced, 1 taken away)" in said
    assert "top1 1.0000 with, 0.9167 without" in said
    said = cautions([Correction("0", "dog", "no label")])  # not measured
    assert "1 label taken away" in said
    assert "test labels" not in said
