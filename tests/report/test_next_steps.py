"""The commands that an evaluation proposes, and what they are said to be for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import labeltree as lt
from labeltree.data.images import image_files
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.promise_samples import StoredRule
from labeltree.decisions.rule import Fitted
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report.evaluate_run import _promise_units
from labeltree.report.next_steps import predict_steps, steps_after_run
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b",)])


def steps_of(nodes: list[int], files: list[str] | None = None) -> dict[str, str]:
    """The steps of a run of so many samples, by command."""
    source = SimpleNamespace(nodes=torch.tensor(nodes), files=files, look=None)
    shape = None if files is None else (3, 32, 32)
    run: Any = SimpleNamespace(
        source=source, taxonomy=TREE, network=SimpleNamespace(image_shape=shape), recipe=None
    )
    return {step.command: step.purpose for step in steps_after_run(run, EvaluateOptions("runs/r"), 100)}


def test_samples_without_a_finest_label_are_counted_in_words() -> None:
    leaf = int(TREE.leaves[0])
    assert "labeltree label-next runs/r" not in steps_of([leaf])
    assert steps_of([leaf, -1])["labeltree label-next runs/r"] == "the sample without a finest label"
    said = steps_of([leaf, -1, 1])["labeltree label-next runs/r"]
    assert said == "which of 2 samples without a finest label to label first"


def test_few_pictures_are_looked_at(tmp_path: Any, monkeypatch: Any) -> None:
    Image.new("RGB", (100, 80)).save(tmp_path / "a.png")
    read: list[bytes] = []
    real = image_files.read_head
    monkeypatch.setattr(image_files, "read_head", lambda data: read.append(data) or real(data))
    steps = steps_of([1] * 500, [str(tmp_path / "a.png")] * 500)
    assert any("--image_size 64" in command for command in steps)
    assert 0 < len(read) <= 50


def test_new_samples_are_answered_on_the_version_that_was_measured() -> None:
    (plain,) = predict_steps(EvaluateOptions("runs/r"), 100)
    assert plain.command == "labeltree predict runs/r SAMPLES"
    newer = EvaluateOptions("runs/r", "new tree.obo", mapping="map.yaml")
    said = 'labeltree predict runs/r SAMPLES --taxonomy "new tree.obo" --mapping map.yaml'
    assert [step.command for step in predict_steps(newer, 100)] == [said]


@pytest.mark.slow
def test_no_answers_are_proposed_on_a_dag_on_which_none_can_be_given(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    labels = np.repeat(["blood/red", "blood/white", "skin/nail", "skin/hair"], 30)
    points = np.repeat(4 * draw.normal(size=(4, 6)), 30, axis=0) + draw.normal(size=(120, 6))
    np.savez(tmp_path / "own.npz", vectors=points, label=labels)
    run = lt.train(tmp_path / "own.npz", "tree-ridge", out=tmp_path / "run", val=0.3, progress_bar=False)
    tree = RunFolder(tmp_path / "run").load_taxonomy()
    parents = [[int(tree.parent[node])] for node in range(1, tree.num_nodes)]
    parents[int(tree.leaves[0]) - 1] = [tree.find("blood"), tree.find("skin")]
    tree.save(tmp_path / "tree.json")
    TaxonomyDAG(tree.names, [[], *parents]).save(tmp_path / "dag.json")
    proposed = {
        file: [step.command.split()[1] for step in lt.evaluate(run, tmp_path / file, resamples=0).steps]
        for file in ("tree.json", "dag.json")
    }
    assert "predict" in proposed["tree.json"]
    assert "predict" not in proposed["dag.json"], "which ended with 'has two parents'"


@pytest.mark.parametrize(("held", "asked"), [(2, " --coverage 0.63"), (8, " --coverage 0.84"), (9, "")])
def test_answers_are_proposed_at_a_coverage_that_can_be_promised(held: int, asked: str) -> None:
    (step,) = predict_steps(EvaluateOptions("runs/r"), held)
    assert step.command == f"labeltree predict runs/r SAMPLES{asked}"


def test_promises_rest_on_groups_where_there_are_some() -> None:
    """Six images of two patients, and one of nobody, promise as much as three samples."""
    split = np.array(["train"] * 2 + ["val"] * 8)
    groups = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, -1, 3])
    nodes = TREE.leaves[[0] * 10].clone()
    nodes[-1] = -1
    table = EmbeddingTable(torch.eye(10), nodes, split=split, groups=groups, geometry="euclidean")
    own = Classifiers({}, ChosenClassifier("own"))
    assert _promise_units(table, own, None) == 3
    rule = SimpleNamespace(fitted=Fitted(torch.zeros(4), torch.ones(4).long(), torch.tensor([0, 0, 0, 1])))
    elsewhere: Any = replace(own, calibrated=StoredRule(rule, "elsewhere"))  # type: ignore[arg-type]
    assert _promise_units(table, elsewhere, None) == 2
    nodes[-1] = TREE.leaves[0]
    alone = replace(table, groups=None, group_names=None, nodes=nodes)
    assert _promise_units(alone, own, None) == 8
