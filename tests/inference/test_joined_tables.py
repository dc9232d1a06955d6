"""Samples of a run and those that came later, as one table."""

import numpy as np
import torch

from labeltree.inference.training_samples import joined
from labeltree.runs import EmbeddingTable


def table(
    groups: list[int] | None, paths: list[str] | None = None, **attributes: list[str]
) -> EmbeddingTable:
    count = len(groups or next(iter([*attributes.values(), [0, 0]])))
    return EmbeddingTable(
        torch.eye(count, 4),
        torch.ones(count, dtype=torch.int64),
        split=np.array(["train"] * count),
        groups=None if groups is None else torch.tensor(groups),
        paths=None if paths is None else np.array(paths),
        attributes={name: np.array(values) for name, values in attributes.items()},
        geometry="euclidean",
    )


def test_patients_of_two_tables_are_others() -> None:
    found = joined(table([0, 0, 2, -1]), table([0, 1, 1, -1]))
    assert found.groups is not None
    assert found.groups.tolist() == [0, 0, 2, -1, 3, 4, 4, -1]
    one = joined(table(None), table([5, 5]))
    assert one.groups is not None
    assert one.groups.tolist() == [-1, -1, 5, 5], "the first are of nobody"
    assert joined(table(None), table(None)).groups is None


def test_lesions_of_two_tables_are_others() -> None:
    found = joined(table([0, 1], lesion=["arm", "arm"]), table([0, 0], lesion=["arm", ""]))
    assert found.attributes["lesion"].tolist() == ["0", "1", "2", ""]
    none = joined(table([0, 1]), table([0, 0], lesion=["arm", "arm"]))
    assert none.attributes["lesion"].tolist() == ["", "", "0", "0"]


def test_names_stay_with_their_samples() -> None:
    found = joined(table([0, 1]), table([0, 1], paths=["c.png", "d.png"]))
    assert found.paths is not None
    assert found.paths.tolist() == ["", "", "c.png", "d.png"]
