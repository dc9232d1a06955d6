"""Trees made of class means, and trees judged by the mistakes between classes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.errors import DataError, TaxonomyError
from labeltree.evaluation.suggested_tree import ClassPoints, class_points, halves, judge_tree, suggest_tree
from labeltree.geometry import Euclidean, Sphere
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TRUE = Taxonomy.from_paths([(f"group {i // 3}", f"class {i}") for i in range(12)])


def samples(noise: float = 1.0, each: int = 40, seed: int = 0, geometry: str = "euclidean") -> ClassPoints:
    """Twelve classes in four groups: groups lie 10 apart, classes of a group 2."""
    draw = torch.Generator().manual_seed(seed)
    groups = torch.eye(12)[[0, 1, 2, 3]].repeat_interleave(3, 0) * 10
    centres = groups + torch.eye(12)[torch.arange(12)] * 2
    classes = torch.arange(12).repeat(each)
    points = centres[classes] + noise * torch.randn(len(classes), 12, generator=draw)
    if geometry == "sphere":
        return ClassPoints(torch.nn.functional.normalize(points.double(), dim=1), classes, names(), Sphere())
    return ClassPoints(points.double(), classes, names(), Euclidean())


def names() -> tuple[str, ...]:
    return tuple(f"class {i}" for i in range(12))


def parents(tree: Taxonomy) -> set[frozenset[str]]:
    return {
        frozenset(tree.names[child] for child in tree.children(node))
        for node in range(1, tree.num_nodes)
        if not bool(tree.is_leaf[node])
    }


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
@pytest.mark.parametrize("linkage", ["complete", "average", "ward"])
def test_groups_that_lie_apart_are_found(linkage, geometry):
    tree = suggest_tree(samples(noise=0.1, geometry=geometry), linkage, 2)
    assert parents(tree) == parents(TRUE)
    assert sorted(tree.names[leaf] for leaf in tree.leaves.tolist()) == sorted(names())


def test_mistakes_follow_the_true_tree_and_not_another():
    found = judge_tree(TRUE, samples())
    assert found.unclear is None
    assert found.within_parent > 0.9 > 0.4 > found.within_parent_at_random
    assert found.within_parent_p == found.height_p == 0.001
    assert "follow this tree" in found.sentence()
    other = judge_tree(Taxonomy.from_paths([(f"g{i % 4}", f"class {i}") for i in range(12)]), samples())
    assert other.within_parent < 0.1
    assert other.within_parent_p > 0.5
    assert "do not clearly follow" in other.sentence()


def test_a_suggested_tree_is_judged_on_samples_it_was_not_made_of():
    everything = samples(noise=1.5)
    first = halves(everything)
    tree = suggest_tree(everything.rows(first.nonzero()[:, 0]), depth=2)
    assert judge_tree(tree, everything.rows((~first).nonzero()[:, 0])).within_parent_p < 0.05


def test_a_tree_of_noise_is_not_followed():
    """Classes without any order: the same half would flatter the tree, the other half does not."""
    draw = torch.Generator().manual_seed(1)
    classes = torch.arange(40).repeat(10)
    noise = ClassPoints(
        torch.randn(400, 8, generator=draw).double(), classes, tuple(f"c{i}" for i in range(40)), Euclidean()
    )
    first = halves(noise)
    tree = suggest_tree(noise.rows(first.nonzero()[:, 0]))
    found = judge_tree(tree, noise.rows((~first).nonzero()[:, 0]))
    assert min(found.within_parent_p, found.height_p) > 0.01


def test_what_cannot_be_told():
    assert "at least 30 mistakes" in judge_tree(TRUE, samples(noise=0.01)).sentence()
    flat = Taxonomy.from_paths([(name,) for name in names()])
    assert "all classes have the same parent" in judge_tree(flat, samples()).sentence()
    few = samples().rows(torch.isin(samples().classes, torch.arange(4)).nonzero()[:, 0])
    few = ClassPoints(few.points, few.classes, names()[:4], few.geometry)
    assert "4 classes are too few" in judge_tree(TRUE, few).sentence()


def test_groups_of_samples_stay_together():
    table = samples()
    groups = torch.arange(len(table.classes)) // 24
    halved = halves(ClassPoints(table.points, table.classes, table.names, table.geometry, groups))
    assert all(len(halved[groups == group].unique()) == 1 for group in groups.unique())
    assert 0.4 < halved.double().mean() < 0.6


def test_depths():
    table = samples()
    assert suggest_tree(table).max_depth == 2
    assert suggest_tree(table, depth=3).max_depth == 3
    with pytest.raises(DataError, match="depth is 1"):
        suggest_tree(table, depth=1)
    with pytest.raises(DataError, match="too few for a tree of depth 6"):
        suggest_tree(table, depth=6)


def test_classes_of_a_table():
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/x", "b/z", "b/q"])
    nodes = tree.encode(["a/x", "a/y", "b/x", "b/z", "a", None, "a/x"])
    table = EmbeddingTable(
        torch.rand(7, 4), nodes, split=np.array(["train"] * 4 + ["test"] * 3), features=torch.rand(7, 5)
    )
    found = class_points(table, tree)
    assert found.names == ("a/x", "a/y", "b/x", "b/z")  # x occurs twice
    assert found.points.shape == (5, 5)  # neither the inner node nor the missing label
    assert found.learned is not None
    assert found.learned.tolist() == [True] * 4 + [False]
    assert class_points(table, tree, "embeddings").points.shape == (5, 4)
    with pytest.raises(DataError, match="2 classes"):
        class_points(table.rows(torch.tensor([0, 1])), tree)
    with pytest.raises(TaxonomyError):
        judge_tree(Taxonomy.from_paths(["a/x", "a/y"]), found)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = samples()
    labels = np.array([f"group {c // 3}/class {c}" for c in table.classes.tolist()])
    np.savez(
        tmp_path / "table.npz", embeddings=table.points.float().numpy(), labels=labels, geometry="euclidean"
    )
    TRUE.save(tmp_path / "true.yaml")
    words = ["taxonomy", "suggest", str(tmp_path / "table.npz"), "--judge", str(tmp_path / "true.yaml")]
    assert main([*words, "--out", str(tmp_path / "tree.yaml")]) == 0
    said = capsys.readouterr().out
    assert "made of half of the samples and judged on the other half" in said
    assert said.count("follow this tree") == 2
    assert Taxonomy.from_file(tmp_path / "tree.yaml").num_leaves == 12
    np.savez(tmp_path / "nodes.npz", embeddings=table.points.float().numpy(), nodes=table.classes.numpy() + 1)
    assert main(["taxonomy", "suggest", str(tmp_path / "nodes.npz")]) == 2
    assert "--taxonomy FILE" in capsys.readouterr().err
    one_each = np.eye(6, dtype=np.float32)
    np.savez(tmp_path / "one.npz", embeddings=one_each, labels=np.array(list("abcdef")))
    assert main(["taxonomy", "suggest", str(tmp_path / "one.npz"), "-o", str(tmp_path / "one.yaml")]) == 0
    assert "cannot be judged: every class needs two samples" in capsys.readouterr().out
    assert (tmp_path / "one.yaml").is_file()
    assert main(["taxonomy", "suggest", str(tmp_path / "none.npz")]) == 2
    assert "no embeddings at" in capsys.readouterr().err
