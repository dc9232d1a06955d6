"""Suspects of the tree: planted moves, merges, splits and strangers, and the file that a person accepts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.cli.main import main
from labeltree.curation import misplaced_nodes
from labeltree.curation.leaf_suspects import auc_within_folds
from labeltree.curation.tree_suspects import find_tree_suspects
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from sweeps import some_now

BRANCHES = ("animal", "plant", "stone", "tool")


def tree_of(paths: dict[str, str]) -> Taxonomy:
    return Taxonomy.from_paths([f"{branch}/{leaf}" for leaf, branch in paths.items()])


def samples(each: int = 30, seed: int = 0) -> tuple[Tensor, list[str], dict[str, str]]:
    """Points of four branches of four leaves: the branch of a leaf can be seen, and the leaf, too."""
    generator = torch.Generator().manual_seed(seed)
    centres = {branch: torch.randn(16, generator=generator) * 2 for branch in BRANCHES}
    places = {f"{branch} {number}": branch for branch in BRANCHES for number in range(4)}
    points, names = [], []
    for leaf, branch in places.items():
        centre = centres[branch] + torch.randn(16, generator=generator) * 0.8
        points.append(centre + 0.5 * torch.randn(each, 16, generator=generator))
        names += [leaf] * each
    return torch.cat(points), names, places


def labelled(tree: Taxonomy, names: list[str]) -> Tensor:
    return tree.encode(names)


@pytest.mark.slow
def test_a_right_tree_has_no_suspects_and_a_moved_leaf_is_one() -> None:
    vectors, names, places = samples()
    tree = tree_of(places)
    right = find_tree_suspects(vectors, labelled(tree, names), tree)
    assert not [one for one in right.found if one.kind in ("move", "merge", "dissolve")]
    assert right.tested["move"] == 16
    assert right.tested["dissolve"] == 4
    wrong = tree_of(places | {"plant 2": "stone"})
    found = find_tree_suspects(vectors, labelled(wrong, names), wrong, kinds=("move",))
    first = found.found[0]
    assert (wrong.path_name(first.node), wrong.path_name(first.other)) == ("stone/plant 2", "plant")
    assert first.significant
    assert first.effect > 0.2
    assert "30 of 30 lie nearer to plant than to its siblings in stone" in first.reason


def test_units_are_cells_of_node_and_group_and_few_of_them_are_not_called_significant() -> None:
    vectors, names, places = samples()
    wrong = tree_of(places | {"plant 2": "stone"})
    groups = torch.arange(len(names)) % 5
    found = find_tree_suspects(vectors, labelled(wrong, names), wrong, groups=groups, kinds=("move",))
    first = found.found[0]
    assert (first.units, first.significant) == (5, False)
    assert math.isnan(first.p)
    assert "5 are too few to be sure" in first.reason


def unbalanced(seed: int, parents: int, leaves: int) -> tuple[Taxonomy, Tensor]:
    """A tree whose parents have from one child to many, and ten samples of each leaf."""
    draw = np.random.default_rng(seed)
    place = [
        *range(parents),
        *draw.choice(parents, leaves - parents, p=draw.dirichlet(np.full(parents, 0.7))),
    ]
    tree = Taxonomy.from_paths([f"parent {parent}/leaf {leaf}" for leaf, parent in enumerate(place)])
    return tree, tree.leaves.repeat_interleave(10)


@pytest.mark.parametrize(("parents", "leaves", "width"), some_now([(4, 20, 2), (12, 60, 8), (25, 60, 64)]))
def test_random_vectors_are_no_reason_to_move_nodes(parents: int, leaves: int, width: int) -> None:
    significant = listed = tested = few = from_few = 0
    for seed in range(3):
        tree, nodes = unbalanced(seed, parents, leaves)
        generator = torch.Generator().manual_seed(seed)
        means = torch.randn(len(tree), width, generator=generator)
        vectors = means[nodes] + 0.1 * torch.randn(len(nodes), width, generator=generator)
        found = find_tree_suspects(vectors, nodes, tree, kinds=("move",), seed=seed)
        siblings = torch.bincount(tree.parent[1:], minlength=len(tree))[tree.parent]
        small = {v for v in tree.leaves.tolist() if 2 <= int(siblings[v]) <= 3}
        tested += found.tested["move"]
        listed += len(found.found)
        significant += sum(one.significant for one in found.found)
        few += len(small)
        from_few += sum(one.node in small for one in found.found)
    assert significant <= 0.05 * tested
    assert listed <= 0.1 * tested  # 0.05 are expected
    assert from_few <= 0.1 * few  # and of nodes with few siblings no more


def test_the_ratio_against_its_definition() -> None:
    draw = np.random.default_rng(0)
    place = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 0, 1])
    means = draw.standard_normal((12, 3))
    found = misplaced_nodes._nearest_others(means, place)
    assert np.isnan(found.ratio[5])
    for v in set(range(12)) - {5}:
        rest = np.arange(12) != v
        residuals = np.concatenate(
            [means[rest & (place == k)] - means[rest & (place == k)].mean(0) for k in range(4)]
        )
        covariance = residuals.T @ residuals / (12 - 4 - 1)
        terms = []
        for parent in range(4):
            children = means[rest & (place == parent)]
            count = len(children)
            own = children.var(0, ddof=1).sum() if count > 1 else np.trace(covariance)
            away = means[v] - children.mean(0)
            error = 4 * away @ covariance @ away * max(1, own / np.trace(covariance)) / count
            terms.append((away @ away - own / count, error))
        near, error = terms[place[v]]
        ratios = [(near - far) / math.sqrt(error + other) for far, other in terms]
        ratios[place[v]] = -math.inf
        assert found.other[v] == int(np.argmax(ratios))
        assert found.ratio[v] == pytest.approx(max(ratios))
        far = terms[found.other[v]][0]
        towards = found.towards[v]
        assert 2 * (means[v] @ towards - found.threshold[v]) == pytest.approx(near - far)


def test_a_node_beside_one_sibling_and_one_beside_many_are_found() -> None:
    vectors, names, places = samples()
    moved = {"plant 2": "pair", "tool 1": "pair", "stone 3": "animal"}
    tree = tree_of(places | moved)
    found = find_tree_suspects(vectors, labelled(tree, names), tree, kinds=("move",))
    told = {(tree.names[one.node], tree.names[one.other]): one.significant for one in found.found}
    assert told[("stone 3", "stone")]
    assert {("plant 2", "plant"), ("tool 1", "tool")} <= told.keys()
    assert {name for name, _ in told} == set(moved)


def test_children_that_do_not_belong_together() -> None:
    vectors, names, places = samples()
    strangers = {f"{branch} 0": "mixed" for branch in BRANCHES}
    tree = tree_of(places | strangers)
    found = find_tree_suspects(vectors, labelled(tree, names), tree, kinds=("dissolve",))
    assert [tree.path_name(one.node) for one in found.found] == ["mixed"]
    assert "no more alike" in found.found[0].reason or "less alike" in found.found[0].reason


def test_one_of_many_parents_can_be_significant(monkeypatch: pytest.MonkeyPatch) -> None:
    parents, children, width = 120, 4, 8
    generator = torch.Generator().manual_seed(0)
    tree = Taxonomy.from_paths([f"{p}/{p} {c}" for p in range(parents) for c in range(children)])
    means = torch.randn(len(tree), width, generator=generator)
    strangers = (tree.parent == tree.find("7")).nonzero()[:, 0]
    means[strangers[2:]] = -means[strangers[:2]]
    nodes = tree.leaves.repeat(2)
    found = find_tree_suspects(
        torch.cat([means, -means])[tree.leaves], tree.leaves, tree, kinds=("dissolve",)
    )
    first = found.found[0]
    assert (tree.path_name(first.node), first.significant) == ("7", True)
    assert (
        f"less alike than random nodes of their depth: {first.effect:+.1f} sd (p {first.p:.2g})"
        in first.reason
    )
    others = found.found[1:]
    assert len(others) > 100
    assert not any(one.significant for one in others)
    assert all(one.p > 0.05 and f"(p {one.p:.2g} of being more alike)" in one.reason for one in others)
    assert not found.notes
    monkeypatch.setattr(misplaced_nodes, "_WORK_OF_DRAWS", 1)
    monkeypatch.setattr(misplaced_nodes, "_NUMBERS_AT_ONCE", 1000)
    found = find_tree_suspects(means[nodes], nodes, tree, kinds=("dissolve",))
    assert not found.found[0].significant
    assert found.notes[0].startswith("dissolve: 1,999 draws for 120 nodes, so no p is below 0.06")


def test_the_area_is_counted_within_folds() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 5, 20).astype(float), draw.integers(0, 5, 9).astype(float)
    folds, others = np.arange(20) % 4, np.arange(9) % 3
    pairs = [
        (a, b)
        for a, f in zip(first, folds, strict=True)
        for b, g in zip(second, others, strict=True)
        if f == g
    ]
    found = auc_within_folds(first, folds, second, others, 0.7)
    assert found is not None
    auc, error, ours, theirs = found
    assert auc == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))
    assert (ours, theirs) == (15, 9)
    assert 0.05 < error < 0.3
    shifted = auc_within_folds(first + 10 * folds, folds, second + 10 * others, others, 0.7)
    assert shifted == pytest.approx(found)  # the scale of a fold does not matter
    assert auc_within_folds(first[:1], folds[:1], second[:1], others[:1] + 1, 0.7) is None


def test_copies_of_a_groups_sample_are_no_evidence() -> None:
    vectors, names, places = samples(24)
    half = ["plant 4" if name == "plant 3" and row % 2 else name for row, name in enumerate(names)]
    tree = tree_of(places | {"plant 4": "plant"})
    nodes = labelled(tree, half)
    groups = torch.arange(len(nodes))
    once = find_tree_suspects(vectors, nodes, tree, kinds=("merge",))
    often = find_tree_suspects(
        vectors.repeat(5, 1), nodes.repeat(5), tree, groups=groups.repeat(5), kinds=("merge",)
    )
    assert [(one.units, one.significant) for one in once.found] == [
        (12, one.significant) for one in often.found
    ]
    assert "over 12 and 12 samples" in once.found[0].reason
    assert "over 12 and 12 groups" in often.found[0].reason
    assert often.found[0].p == pytest.approx(once.found[0].p, abs=0.2)


def test_an_area_below_chance_is_not_shown() -> None:
    generator = torch.Generator().manual_seed(0)
    told = []
    for seed in range(8):
        vectors = torch.randn(24, 3, generator=generator)
        tree = Taxonomy.from_paths(["a/x", "a/y"])
        found = find_tree_suspects(
            vectors, tree.leaves.repeat_interleave(12), tree, kinds=("merge",), seed=seed
        )
        told += [(one.effect, "no better than chance" in one.reason) for one in found.found]
    assert any(chance for _, chance in told)
    assert all(effect >= 0.5 and chance == (effect == 0.5) for effect, chance in told)


def test_halves_of_a_leaf_are_merged_and_two_clusters_of_one_split() -> None:
    vectors, names, places = samples(60)
    half = ["plant 4" if name == "plant 3" and row % 2 else name for row, name in enumerate(names)]
    tree = tree_of(places | {"plant 4": "plant"})
    found = find_tree_suspects(vectors, labelled(tree, half), tree, kinds=("merge",))
    assert {tree.names[found.found[0].node], tree.names[found.found[0].other]} == {"plant 3", "plant 4"}
    assert len(found.found) == 1
    assert found.tested["merge"] > 16
    joined = ["stone 1" if name == "animal 2" else name for name in names]
    del places["animal 2"]
    tree = tree_of(places)
    found = find_tree_suspects(vectors, labelled(tree, joined), tree, kinds=("split",))
    assert tree.names[found.found[0].node] == "stone 1"
    assert found.found[0].significant
    assert "two clusters of 60 and 60" in found.found[0].reason


def test_a_person_accepts_a_change_and_labels_follow(tmp_path: Path) -> None:
    vectors, names, places = samples()
    wrong = tree_of(places | {"plant 2": "stone"})
    found = find_tree_suspects(vectors, labelled(wrong, names), wrong, kinds=("move", "merge", "split"))
    file = tmp_path / "changes.yaml"
    assert found.save_mapping(file) == len(found.found)
    untouched = TaxonomyMapping.load(file, old=wrong)
    assert untouched.new.digest == wrong.digest
    lines = [
        line.removeprefix("# ") if "plant 2" in line and "move" in line else line
        for line in file.read_text("utf-8").splitlines(keepends=True)
    ]
    file.write_text("".join(lines), "utf-8")
    mapping = TaxonomyMapping.load(file, old=wrong)
    moved = mapping.new.path_name(int(mapping.nodes[wrong.find("plant 2")]))
    assert moved == "plant/plant 2"


def test_dissolving_and_splitting_written_and_read(tmp_path: Path) -> None:
    vectors, names, places = samples()
    tree = tree_of(places | {f"{branch} 0": "mixed: #1" for branch in BRANCHES})
    found = find_tree_suspects(vectors, labelled(tree, names), tree, kinds=("dissolve",))
    file = tmp_path / "changes.yaml"
    assert found.save_mapping(file) == 1
    text = file.read_text("utf-8").replace("# - {", "- {")
    file.write_text(text, "utf-8")
    mapping = TaxonomyMapping.load(file, old=tree)
    assert mapping.new.path_name(int(mapping.nodes[tree.find("animal 0")])) == "animal 0"


@pytest.mark.parametrize("case", ["one sample a leaf", "one leaf", "constant", "copies"])
def test_little_data_is_no_reason_to_fail(case: str) -> None:
    vectors, names, places = samples(2)
    tree = tree_of(places)
    nodes = labelled(tree, names)
    if case == "one sample a leaf":
        vectors, nodes = vectors[::2], nodes[::2]
    elif case == "one leaf":
        nodes = torch.full_like(nodes, int(nodes[0]))
    elif case == "constant":
        vectors = torch.ones_like(vectors)
    else:
        vectors, nodes = vectors.repeat(30, 1), nodes.repeat(30)
    found = find_tree_suspects(vectors, nodes, tree)
    assert not [one for one in found.found if one.significant and one.kind != "split"]
    if case in ("one sample a leaf", "one leaf"):
        assert "pairs of leaves were not compared" in found.notes[0]


def test_settings_that_are_refused() -> None:
    vectors, names, places = samples(2)
    tree = tree_of(places)
    nodes = labelled(tree, names)
    for given in ({"level": 0.0}, {"apart": 0.5}, {"kinds": ("grow",)}):
        with pytest.raises(ValueError, match=r"level|not a kind"):
            find_tree_suspects(vectors, nodes, tree, **given)
    with pytest.raises(DataError, match="no sample has a label"):
        find_tree_suspects(vectors, torch.full_like(nodes, -1), tree)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors, names, places = samples(12)
    wrong = tree_of(places | {"plant 2": "stone"})
    table, tree, out = tmp_path / "t.npz", tmp_path / "tree.yaml", tmp_path / "changes.yaml"
    EmbeddingTable(vectors, labelled(wrong, names), geometry="euclidean").save(table)
    wrong.save(tree)
    command = ["taxonomy", "suspects", str(table), "--taxonomy", str(tree), "--out", str(out)]
    assert main([*command, "--kinds", "move"]) == 0
    assert "move (significant): stone/plant 2: 12 of 12 lie nearer to plant" in capsys.readouterr().out
    assert "# - {move: stone/plant 2, to: plant/plant 2}" in out.read_text("utf-8")
    assert main(command) == 2
    assert "somebody may have accepted changes" in capsys.readouterr().err
