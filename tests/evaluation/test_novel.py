"""The protocol `novel`: its numbers are those of the definition, and it says when it cannot measure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("a", "z"), ("b", "u"), ("b", "v"), ("c",)])
NAMES = ["x", "y", "z", "u", "v", "c"]
CENTRES = torch.nn.functional.normalize(
    torch.tensor(
        [[5, 1, 0, 0], [5, -1, 0, 0], [5, 0, 1, 0], [0, 1, 5, 0], [0, -1, 5, 0], [0, 0, 0, 5]]
    ).float(),
    dim=1,
)


def table(*, hidden: tuple[str, ...] = ("z", "c"), val: int = 30, seed: int = 0) -> EmbeddingTable:
    """Points around their classes; the hidden ones occur in the test split alone."""
    draw = torch.Generator().manual_seed(seed)
    names, splits = [], []
    for split, count in (("train", 15), ("val", val), ("test", 20)):
        for name in NAMES:
            if split == "test" or name not in hidden:
                names += [name] * count
                splits += [split] * count
    points = CENTRES[[NAMES.index(name) for name in names]]
    points = torch.nn.functional.normalize(points + 0.03 * torch.randn(len(names), 4, generator=draw), dim=1)
    return EmbeddingTable(
        embeddings=points, nodes=TREE.encode(names), features=points.clone(), split=np.array(splits)
    )


@pytest.mark.parametrize("resamples", [0, 50])
def test_numbers_of_the_protocol(resamples: int) -> None:
    found = evaluate(
        table(), TREE, protocols=["novel"], settings=EvaluationSettings(resamples=resamples)
    ).main.protocols["novel"]
    assert found.refusal is None
    scores = found.scores
    assert found.counts["unknown classes"] == 2
    assert found.counts["test samples of unknown classes"] == 40
    assert scores["auroc"] > 0.95
    # z hangs below a, which is known; c below the root, where every named class is wrong
    assert scores["right_plain"] < 0.5
    assert scores["right_at_0.05"] > 0.8
    assert scores["right_at_0.05"] >= scores["exact_at_0.05"]
    assert scores["false_alarms_at_0.05"] < 0.15
    assert scores["depth_at_0.05"] <= scores["depth_plain"]
    assert scores["coverage_at_0.05"] >= scores["coverage_plain"]
    assert len(found.by_depth["auroc"]) == TREE.max_depth
    assert not any(np.isnan(found.by_depth["auroc"]))  # c branches off at depth 1, z at depth 2
    assert {f"auroc{name}" for name in ("", "_energy", "_features", "_uncertainty")} <= set(scores)
    if resamples:
        low, high = found.intervals["auroc"]
        assert low <= scores["auroc"] <= high


def test_what_it_cannot_measure_it_says() -> None:
    def refusal(shown: EmbeddingTable) -> str:
        return str(evaluate(shown, TREE, protocols=["novel"]).main.protocols["novel"].refusal)

    assert "no test sample is of an unknown class" in refusal(table(hidden=()))
    assert "there are no validation samples" in refusal(table(val=0))


def test_few_held_out_samples_are_said() -> None:
    found = evaluate(table(val=4), TREE, protocols=["novel"]).main.protocols["novel"]
    assert "no p-value is below" in " ".join(found.notes)
    assert "false alarms of 0.01, 0.05." in " ".join(found.notes)
    assert found.scores["found_at_0.05"] == 0
    assert found.scores["right_at_0.05"] == found.scores["right_plain"]
