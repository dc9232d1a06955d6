"""`--json` of info, evaluate, compare and suspects: one document on standard output, without NaN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from labeltree.cli.main import main
from labeltree.evaluation import Comparison, EvaluationResult
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "elm")])


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints, as JSON; nothing else may stand there."""

    def call(*words: object, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out, parse_constant=refuse)

    return call


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    TREE.save(tmp_path / "tree.json")
    nodes = TREE.leaves.repeat(20)
    for seed, name in enumerate(("one", "two")):
        noise = torch.randn(len(nodes), TREE.num_nodes, generator=torch.Generator().manual_seed(seed))
        EmbeddingTable(torch.eye(TREE.num_nodes)[nodes] + noise, nodes).save(tmp_path / f"{name}.npz")
    return [tmp_path / "one.npz", tmp_path / "two.npz"]


@pytest.mark.slow
def test_evaluate_prints_what_it_writes(printed: Any, tables: list[Path], tmp_path: Path) -> None:
    words = ["evaluate", "--embeddings", tables[0], "--taxonomy", tmp_path / "tree.json"]
    said = printed(*words)
    assert said == json.loads((tmp_path / "one" / "metrics.json").read_text())
    assert EvaluationResult.from_dict(said).main.errors.samples == 40
    refused = printed(*words, "--protocols", "per-group", code=2)  # all else is there
    assert refused["methods"]["one"]["scores"] == said["methods"]["one"]["scores"]
    alone = EmbeddingTable(torch.eye(TREE.num_nodes)[TREE.leaves].repeat(2, 1), TREE.leaves.repeat(2))
    alone.save(tmp_path / "alone.npz")
    few = printed("evaluate", "--embeddings", tmp_path / "alone.npz", "--taxonomy", tmp_path / "tree.json")
    assert None in few["methods"]["alone"]["scores"]["embeddings"].values()  # undefined, not NaN


@pytest.mark.slow
def test_compare_prints_what_it_writes_and_the_gate(printed: Any, tables: list[Path], tmp_path: Path) -> None:
    words = ["compare", *tables, "--taxonomy", tmp_path / "tree.json", "--out", tmp_path / "out"]
    words += ["--resamples", "99", "--permutations", "999"]
    said = printed(*words)
    assert said == json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert Comparison.from_dict(said).baseline == "one"
    gate = tmp_path / "gate.yaml"
    gate.write_text("rules:\n  - {metric: answer_top1, at_most: 0.9}\n")
    (rule,) = printed(*words, "--gate", gate)["gate"]
    assert (rule["metric"], rule["place"], rule["units"], rule["passed"]) == (
        "answer_top1", "all samples", 40, True,
    )  # fmt: skip
    gate.write_text("rules:\n  - {metric: answer_top1, fails_if: not excluded}\n")
    assert not printed(*words, "--gate", gate, code=1)["gate"][0]["passed"]


def test_suspects_prints_what_it_writes(printed: Any, tables: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "suspects.csv"
    said = printed("suspects", "--embeddings", tables[0], "--taxonomy", tmp_path / "tree.json", "--out", out)
    assert said == json.loads(out.with_suffix(".json").read_text())


@pytest.mark.slow
def test_info_prints_the_facts(printed: Any, image_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--objective", "hwc", "--epochs=1", "--batch-size=10", "--image-size", "28", "--accelerator=cpu"]
    assert main(["train", "--data", str(image_folder), *words, "--quiet", "--out", str(run)]) == 0
    said = printed("info", run)
    assert said["model"]["objective"] == "hwc"
    assert said["metrics"] is None
    assert main(["evaluate", str(run), "--quiet"]) == 0
    numbers = {each["metric"]: each["value"] for each in printed("info", run)["metrics"]["numbers"]}
    assert list(numbers) == ["top1", "hierarchical_f1", "tree_accuracy", "recall_at_1", "map_at_r"]
