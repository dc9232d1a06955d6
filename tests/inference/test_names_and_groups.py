"""Samples keep their places and their groups, and reference samples are of the present weights."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.inference import named_samples, reference
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


def test_unreadable_samples_are_listed_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = {0: ("a", "broken"), 3: ("d", "empty"), 4: ("e", "no image"), 7: ("h", "gone")}
    source = SimpleNamespace(unread=unread, unread_units={}, instances=torch.tensor([1, 2, 5, 6]))
    monkeypatch.setattr(named_samples, "list_names", lambda _: list("bcfg"))
    found = named_samples.name_samples(source)  # type: ignore[arg-type]
    assert found.names == list("abcdefgh")
    assert found.skipped == {0: "broken", 3: "empty", 4: "no image", 7: "gone"}


def test_samples_without_a_group_stay_without_one() -> None:
    table = EmbeddingTable(
        torch.randn(6, 3), torch.tensor([1, 2, 1, 2, 1, 2]), groups=torch.tensor([7, -1, 7, -1, 9, -1])
    )
    kept = reference._nameless(table, torch.tensor([0, 1, 2, 3, 5]), np.full(5, "val"))
    assert kept.groups is not None
    assert kept.groups[[1, 3, 4]].tolist() == [-1, -1, -1], "each is one of its own"
    assert kept.groups[0] == kept.groups[2] >= 0


def test_reference_samples_of_other_weights_are_not_taken(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["a", "b"])
    network = SimpleNamespace(objective=SimpleNamespace(geometry=SimpleNamespace(name="sphere")))

    def run(digest: str) -> Any:
        folder = SimpleNamespace(reference=tmp_path / "reference", calibration_samples=tmp_path / "reference")
        parts = {"network": network, "recipe": SimpleNamespace(curvature=-1.0), "taxonomy": tree}
        return SimpleNamespace(weights_digest=digest, folder=folder, **parts)

    table = EmbeddingTable(torch.randn(4, 3), tree.encode(["a", "b", "a", "b"]), split=np.array(["val"] * 4))
    reference.save_reference(run("00ff"), table, tmp_path / "reference")
    for load in (reference.load_reference, reference.load_calibration):
        kept = load(run("00ff"))
        assert kept is not None
        assert torch.equal(kept.embeddings, table.embeddings)
        assert load(run("00fe")) is None
