"""Suspects of the tree: planted moves, merges, splits and strangers, and the file that a person accepts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.cli.main import main
from labeltree.curation.corrected_p import benjamini_hochberg, holm, more_than_half
from labeltree.curation.tree_suspects import find_tree_suspects
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

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
    assert "5 are too few to be sure" in first.reason


def test_children_that_do_not_belong_together() -> None:
    vectors, names, places = samples()
    strangers = {f"{branch} 0": "mixed" for branch in BRANCHES}
    tree = tree_of(places | strangers)
    found = find_tree_suspects(vectors, labelled(tree, names), tree, kinds=("dissolve",))
    assert [tree.path_name(one.node) for one in found.found] == ["mixed"]
    assert "no more alike" in found.found[0].reason or "less alike" in found.found[0].reason


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
        with pytest.raises(ValueError, match=r"level|no kind"):
            find_tree_suspects(vectors, nodes, tree, **given)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no sample has a label"):
        find_tree_suspects(vectors, torch.full_like(nodes, -1), tree)


def test_p_values_against_their_definitions() -> None:
    p = np.array([0.01, 0.02, 0.2, 0.03])
    assert holm(p, 10).tolist() == pytest.approx([0.1, 0.18, 1.0, 0.24])
    by_hand = [min(min(1.0, q * 4 / (1 + sum(r < q for r in p))) for q in p if q >= one) for one in p]
    assert benjamini_hochberg(p).tolist() == pytest.approx(by_hand)
    assert more_than_half(3, 4) == pytest.approx(5 / 16)
    assert more_than_half(0, 0) == 1.0
    assert not math.isnan(more_than_half(0, 3))


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
