"""Labels that look wrong: planted errors are found, with the likelier node, the depth and a reason."""

from __future__ import annotations

import csv
import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.curation.contradicted import confident_classes, count_contradicted
from labeltree.curation.neighbour_evidence import Neighbours, nearest_labelled, weigh, winnable
from labeltree.curation.out_of_fold import out_of_fold
from labeltree.curation.suspects import COLUMNS, Suspects, find_suspects, write_suspects
from labeltree.data.corrections import Corrections
from labeltree.errors import DataError
from labeltree.geometry import get_geometry
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(
    [
        ("animal", "mammal", "dog"),
        ("animal", "mammal", "cat"),
        ("animal", "fish", "trout"),
        ("plant", "oak"),
    ]
)
LEAVES = ["dog", "cat", "trout", "oak"]


def clusters(names: list[str | None], noise: float = 0.1) -> torch.Tensor:
    """Vectors (n, 8) near a point of each name, which lies near those of its ancestors."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(TREE.num_nodes, 8, generator=generator)
    centres = [steps[[*TREE.ancestors_of(node), node]].sum(0) for node in range(TREE.num_nodes)]
    nodes = TREE.encode(names).clamp(min=0)
    return torch.stack(centres)[nodes] + noise * torch.randn(len(nodes), 8, generator=generator)


def suspects(truth: list[str | None], labels: list[str | None], **options: Any) -> Suspects:
    vectors = clusters(truth)
    options = {
        "k": 5,
        "geometry": get_geometry("euclidean"),
        "ids": [str(i) for i in range(len(labels))],
    } | options
    return find_suspects(vectors, vectors, TREE.encode(labels), TREE, **options)


def test_wrong_leaves_and_wrong_branches_come_first_with_the_truth() -> None:
    truth = LEAVES * 10
    labels: list[str | None] = list(truth)
    labels[0], labels[2] = "cat", "oak"  # a dog is called a cat, a trout an oak
    found = suspects(truth, labels)
    assert {one.sample for one in found.found} == {"0", "2"}
    by_id = {one.sample: one for one in found.found}
    leaf, branch = by_id["0"], by_id["2"]
    assert (leaf.kind, leaf.depth, leaf.suggested) == ("wrong leaf", 3, "animal/mammal/dog")
    assert (branch.kind, branch.depth, branch.suggested) == ("wrong branch", 1, "animal/fish/trout")
    assert "5 of the 5 nearest are 'dog' and 0 'cat'" in leaf.reason
    assert "'mammal' is likely right" in leaf.reason
    assert leaf.score > 0.9
    assert float(found.scores[5]) < 0.1
    assert found.judged == 40
    assert "2 of 40 labels look wrong" in found.summary()
    assert "animal/mammal/dog" in found.table()
    assert "cannot be said" in found.summary()  # 40 labels are too few


def test_evidence_that_reaches_no_further_suggests_an_inner_node() -> None:
    """Half of the neighbours are dogs, half cats: an oak among them is surely a mammal, and no more."""
    truth: list[str | None] = ["mammal"] * 20 + ["oak"] * 12 + ["trout"] * 12 + ["mammal"]
    labels: list[str | None] = ["dog", "cat"] * 10 + ["oak"] * 12 + ["trout"] * 12 + ["oak"]
    found = suspects(truth, labels, k=20, least_score=0.0)
    one = next(one for one in found.found if one.sample == "44")
    assert one.kind == "wrong branch"
    assert one.suggested in {"animal/mammal", "animal/mammal/dog", "animal/mammal/cat"}
    finer = [s for s in found.found if s.kind == "too fine"]
    assert all(s.suggested == "animal/mammal" for s in finer)


def test_inner_missing_and_rare_labels() -> None:
    truth: list[str | None] = [*LEAVES * 8, "dog", "oak", "dog", "trout"]
    labels: list[str | None] = [*LEAVES * 8, "mammal", "mammal", None, "fish"]
    found = suspects(truth, labels)
    assert [one.sample for one in found.found] == ["33"]  # an oak among the mammals; the dog is one
    assert found.found[0].label == "animal/mammal"
    assert found.unlabelled == 1
    assert bool(torch.isnan(found.scores[34]))
    few = suspects([*LEAVES[:2] * 8, "oak"], [*LEAVES[:2] * 8, "oak"])
    assert "1 label with fewer than 3 samples or groups cannot be judged" in few.summary()


def test_groups_do_not_speak_for_themselves() -> None:
    """Three pictures of one dog, all called oak: they are each other's nearest, and do not count."""
    truth: list[str | None] = [*LEAVES * 8, "dog", "dog", "dog"]
    labels: list[str | None] = [*LEAVES * 8, "oak", "oak", "oak"]
    groups = torch.cat([torch.full((32,), -1), torch.zeros(3, dtype=torch.int64)])
    found = suspects(truth, labels, groups=groups)
    assert {one.sample for one in found.found} == {"32", "33", "34"}
    coinciding = torch.tensor([LEAVES.index(name) for name in LEAVES * 8])
    alike = suspects(LEAVES * 8, LEAVES * 8, groups=coinciding)
    assert "groups and labels coincide" in alike.summary()
    assert alike.judged == 32


def test_neighbours_are_those_of_brute_force() -> None:
    vectors, nodes = clusters(LEAVES * 6, noise=1.0), TREE.encode([*LEAVES * 5, None, *LEAVES[:3]])
    groups = torch.arange(24) // 3
    groups[::5] = -1
    for name in ("sphere", "euclidean", "poincare"):
        space = get_geometry(name)
        points = space.embed(vectors)
        found = nearest_labelled(points, nodes, space, groups=groups, k=22)
        far = space.pairwise_distance(points.double(), points.double())
        for row in range(24):
            if nodes[row] < 0:
                assert set(found.rows[row].tolist()) == {-1}
                continue
            own = groups == groups[row] if groups[row] >= 0 else torch.arange(24) == row
            others = ((nodes > 0) & ~own).nonzero()[:, 0]
            wanted = others[far[row, others].argsort()]
            got = found.rows[row][found.rows[row] >= 0]
            assert set(got.tolist()) == set(wanted.tolist())
            assert torch.equal(far[row, got].argsort(stable=True), torch.arange(len(got))) or torch.allclose(
                far[row, got], far[row, wanted], atol=1e-5
            )


def test_cleanlab_as_an_oracle() -> None:
    """Thresholds and confident classes are those of cleanlab, and so is the flat ranking by probability."""
    from cleanlab.count import compute_confident_joint
    from cleanlab.rank import get_label_quality_scores

    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, 400)
    probabilities = generator.dirichlet(np.full(4, 0.5), 400)
    probabilities[np.arange(400), labels] += 0.8
    probabilities /= probabilities.sum(1, keepdims=True)
    sure = confident_classes(probabilities.astype(np.float32), labels)
    joint = np.zeros((4, 4), int)
    np.add.at(joint, (labels[sure >= 0], sure[sure >= 0]), 1)
    oracle = compute_confident_joint(labels, probabilities, calibrate=False)
    assert np.array_equal(joint, oracle)

    truth = LEAVES * 30
    wrong: list[str | None] = list(truth)
    wrong[::17] = ["dog"] * len(wrong[::17])
    vectors, nodes = clusters(truth, noise=1.5), TREE.encode(wrong)
    found = out_of_fold(vectors, nodes, TREE)
    place = found.classes.place[nodes].numpy()
    quality = get_label_quality_scores(place, found.probabilities.numpy(), method="self_confidence")
    assert np.allclose(found.of_nodes(nodes).numpy(), quality, atol=1e-6)
    near = nearest_labelled(vectors, nodes, get_geometry("euclidean"), k=10)
    contradicted = count_contradicted(found, weigh(found, near))
    assert contradicted.count is not None
    assert 2 <= contradicted.count <= 12  # 6 of 120 are wrong
    assert "no estimate" in contradicted.sentence()
    more = contradicted.sentence(contradicted.samples + 2)
    assert f"(2 of the {contradicted.samples + 2} are not counted here, as other labels divide them" in more
    assert "not counted here" not in contradicted.sentence(contradicted.samples)


def test_no_count_where_the_classifier_is_mostly_wrong() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(200, 3, generator=generator)
    nodes = TREE.encode(LEAVES)[torch.randint(4, (200,), generator=generator)]
    found = out_of_fold(vectors, nodes, TREE)
    near = nearest_labelled(vectors, nodes, get_geometry("euclidean"), k=10)
    contradicted = count_contradicted(found, weigh(found, near))
    assert contradicted.count is None
    assert "too often wrong itself" in contradicted.sentence()


def test_ranking_by_branches_prefers_wrong_branches() -> None:
    truth = LEAVES * 12
    labels: list[str | None] = list(truth)
    labels[0], labels[2] = "cat", "oak"
    by_branch = suspects(truth, labels, ranking="branches", least_score=0.0)
    order = [one.sample for one in by_branch.found]
    assert order.index("2") < order.index("0")


def test_contradicted_labels_are_counted_where_labels_are_listed() -> None:
    truth = LEAVES * 100
    labels: list[str | None] = list(truth)
    labels[0], labels[2], labels[3] = "cat", "oak", "dog"  # a dog, a trout and an oak
    assert suspects(truth, labels).contradicted.count == 3
    plants = suspects(truth, labels, within=TREE.find("plant"))
    assert (plants.judged, plants.contradicted.samples, plants.contradicted.count) == (100, 100, 1)
    split = ["test" if row < 9 else "train" for row in range(400)]
    few = suspects(truth, labels, split=split, only_split="test")
    assert (few.judged, len(few.found), few.contradicted.count) == (9, 3, None)
    assert "9 labels can be judged, and 100 are the least" in few.contradicted.reason


def test_labels_that_are_too_fine_are_no_pair_of_classes() -> None:
    """A class and what lies above it are not taken for each other."""
    one = suspects(LEAVES * 10, ["cat", *(LEAVES * 10)[1:]]).found[0]
    coarse = replace(one, kind="too fine", suggested="animal/mammal")
    base = suspects(LEAVES * 10, LEAVES * 10)
    assert len(replace(base, found=(coarse, coarse)).verdict()) == 1
    assert replace(base, found=(one, one)).verdict()[1] == "Most often it is cat ↔ dog: 2 of 2."


def test_lists_can_be_narrowed() -> None:
    truth = LEAVES * 10
    labels: list[str | None] = list(truth)
    labels[0], labels[2] = "cat", "oak"
    split = ["test" if row == 2 else "train" for row in range(40)]
    animals = suspects(truth, labels, within=TREE.find("animal"))
    assert [s.sample for s in animals.found] == ["0"]
    assert animals.verdict()[0].startswith("1 of 29 labels looks wrong ")  # of the animals
    tested = suspects(truth, labels, split=split, only_split="test")
    assert [s.sample for s in tested.found] == ["2"]
    assert tested.verdict()[0].startswith("1 of 1 label looks wrong ")
    with pytest.raises(DataError, match="no sample is of split 'val'; there are test, train"):
        suspects(truth, labels, split=split, only_split="val")
    with pytest.raises(ValueError, match="least_score"):
        suspects(truth, labels, least_score=1.0)
    with pytest.raises(ValueError, match="ranking is 'depth'; expected 'labels' or 'branches'"):
        suspects(truth, labels, ranking="depth")
    with pytest.raises(ValueError, match="k is 0"):
        suspects(truth, labels, k=0)


def test_the_table_goes_to_a_person_and_back(tmp_path: Path) -> None:
    truth = LEAVES * 10
    labels: list[str | None] = list(truth)
    labels[0], labels[2] = "cat", "oak"
    ids = [f'odd "{i}",\n=name ü' for i in range(40)]
    found = suspects(truth, labels, ids=ids, paths=[f"{i}.png" for i in range(40)])
    path = tmp_path / "suspects.csv"
    write_suspects(found, path)
    assert Corrections.load(path).entries == ()
    kept = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert {one["sample"] for one in kept["suspects"]} == {ids[0], ids[2]}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        row["decision"] = "accept"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    done = Corrections.load(path).resolve(ids, TREE.encode(labels), TREE)
    assert TREE.decode(done.nodes) == TREE.decode(TREE.encode(truth))
    with pytest.raises(DataError, match="somebody has decided"):
        write_suspects(found, path)

    lines = path.read_text("utf-8").replace("accept", "reject")
    path.write_text(lines, "utf-8")
    with pytest.raises(DataError, match="somebody has decided"):
        write_suspects(found, path)
    assert path.read_text("utf-8") == lines


def test_command_on_embeddings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = LEAVES * 10
    labels: list[str | None] = list(truth)
    labels[0] = "oak"
    vectors = clusters(truth)
    paths = np.asarray([f"{i}.png" for i in range(40)])
    EmbeddingTable(vectors, TREE.encode(labels), paths=paths).save(tmp_path / "theirs.npz")
    TREE.save(tmp_path / "tree.json")
    given = [
        "suspects",
        "--embeddings",
        str(tmp_path / "theirs.npz"),
        "--taxonomy",
        str(tmp_path / "tree.json"),
    ]
    out = tmp_path / "found.csv"
    assert main([*given, "--out", str(out), "--neighbours", "5"]) == 0
    printed = capsys.readouterr().out
    assert "0.png" in printed
    assert "labeltree train … --corrections" in printed
    assert main([*given, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["suspects"][0]["suggested"] == "animal/mammal/dog"
    for wrong, words in (
        (["suspects"], "name either a run or an index"),
        ([*given, "--out", "x.txt"], "ends in .csv"),
        ([*given, "--within", "whale", "--out", str(out)], "whale"),
        (given[:3], "--taxonomy"),
        (["suspects", "--embeddings", "none.npz", "--taxonomy", "t"], "there is no file"),
    ):
        assert main(wrong) == 2
        assert words in capsys.readouterr().err


def test_from_python(tmp_path: Path) -> None:
    labels: list[str | None] = list(LEAVES * 10)
    labels[0] = "oak"
    EmbeddingTable(clusters(LEAVES * 10), TREE.encode(labels)).save(tmp_path / "theirs.npz")
    TREE.save(tmp_path / "theirs.taxonomy.json")
    found = lt.suspects(tmp_path / "theirs.npz", k=5)
    assert [one.sample for one in found.found] == ["0"]
    assert lt.suspects(tmp_path / "theirs.npz", k=5, within="animal").found == ()
    out = tmp_path / "found.csv"
    assert lt.suspects(tmp_path / "theirs.npz", k=5, out=out).found == found.found
    out.write_text(out.read_text("utf-8").replace(",\n", ",accept\n"), "utf-8")
    assert len(Corrections.load(out)) == 1
    with pytest.raises(DataError, match="somebody has decided"):  # before anything is read
        lt.suspects(tmp_path / "none.npz", out=out)
    with pytest.raises(ValueError, match=r"ends in \.csv"):
        lt.suspects(tmp_path / "none.npz", out=tmp_path / "found.txt")
    with pytest.raises(TypeError, match="neighbours"):
        lt.suspects(tmp_path / "theirs.npz", neighbours=5)


def test_help_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    main(["suspects", "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 60


def test_small_classes_far_from_all_others_are_not_suspected() -> None:
    """A class of 4 cannot win a vote of 20 neighbours, however far it is from all others."""
    sizes = {"dog": 150, "cat": 150, "oak": 150, "r3": 3, "r4": 4, "r5": 5, "r8": 8}
    tree = Taxonomy.from_paths(
        [("animal", "dog"), ("animal", "cat"), ("plant", "oak"), *(("rare", f"r{n}") for n in (3, 4, 5, 8))]
    )
    names = [name for name, count in sizes.items() for _ in range(count)]
    generator = torch.Generator().manual_seed(0)
    centres = 8 * torch.eye(len(sizes), 32)
    vectors = centres[[list(sizes).index(name) for name in names]]
    vectors = vectors + torch.randn(len(names), 32, generator=generator)
    ids = [str(row) for row in range(len(names))]
    nodes = tree.encode(names)
    options: dict[str, Any] = {"geometry": get_geometry("euclidean"), "ids": ids}
    assert find_suspects(vectors, vectors, nodes, tree, **options).found == ()
    wrong = nodes.clone()
    wrong[[0, 200]] = tree.find("rare/r8")  # a dog and a cat
    found = find_suspects(vectors, vectors, wrong, tree, **options).found
    assert {one.row for one in found} == {0, 200}


def test_neighbours_that_vote() -> None:
    """Half of the others of the class, at least five or all of them; those of the own group do not count."""
    nodes = TREE.encode(["dog"] * 30 + ["cat"] * 9 + ["trout"] * 4 + ["oak"])
    rows = torch.arange(20).repeat(44, 1)
    near = Neighbours(rows, nodes[rows])
    votes = (winnable(near, nodes, nodes, TREE).rows >= 0).sum(1)
    assert votes.tolist() == [14] * 30 + [5] * 9 + [3] * 4 + [1]
    groups = torch.full((44,), -1)
    groups[:10] = 0
    votes = (winnable(near, nodes, nodes, TREE, groups).rows >= 0).sum(1)
    assert votes[:30].tolist() == [10] * 10 + [14] * 20
    mammals = torch.where(nodes == TREE.find("oak"), nodes, TREE.find("mammal"))  # 39 are below it
    votes = (winnable(near, mammals, nodes, TREE).rows >= 0).sum(1)
    assert votes[:39].tolist() == [19] * 39


def test_in_a_notebook_the_first_are_a_table_and_all_a_frame() -> None:
    truth = LEAVES * 10
    labels: list[str | None] = ["cat", *truth[1:2], "oak", *truth[3:]]
    listed = suspects(truth, labels)
    frame = listed.to_pandas()
    assert frame["sample"].tolist() == [one.sample for one in listed.found]
    assert {"label", "suggested", "kind", "score", "reason"} <= set(frame)
    shown = listed._repr_html_()
    assert shown.count("<tr>") == 1 + len(listed.found)
    assert listed.found[0].reason in html.unescape(shown)
    none = replace(listed, found=())
    assert "<table" not in none._repr_html_()
    assert list(none.to_pandas()) == list(frame)
