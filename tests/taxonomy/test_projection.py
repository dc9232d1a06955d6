"""DAG to tree by both rules, each against an independent reading of its rule."""

from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_graphs import Graph, graphs
from slow_trees import Rows, trees

from labeltree.cli.main import main
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, load_taxonomy

pytestmark = pytest.mark.slow


def numbered(dag: TaxonomyDAG) -> Graph:
    return Graph(tuple(dag.names), tuple(tuple(dag.parents(node)) for node in range(len(dag))))


def kept_parents(dag: TaxonomyDAG, tree: Taxonomy, mapping: torch.Tensor) -> dict[int, int]:
    """The parent that each node of the DAG has in the tree, as nodes of the DAG; names are checked."""
    assert mapping.shape == (len(dag),)
    back = {int(place): node for node, place in enumerate(mapping) if place >= 0}
    assert sorted(back) == list(range(len(tree)))
    assert [tree.names[place] for place in sorted(back)] == [dag.names[back[place]] for place in sorted(back)]
    return {back[place]: back[int(tree.parent[place])] for place in range(1, len(tree))}


def odir_slowly(slow: Graph, counts: list[int]) -> dict[int, int]:
    parents = {}
    for node, above in enumerate(slow.parents):
        if above:
            nearest = min(slow.depth(parent) for parent in above)
            tied = [parent for parent in above if slow.depth(parent) == nearest]
            weight = {parent: sum(counts[below] for below in slow.descendants(parent)) for parent in tied}
            tied = [parent for parent in tied if weight[parent] == max(weight.values())]
            parents[node] = min(tied, key=lambda parent: (slow.names[parent], parent))
    return parents


def yolo_slowly(slow: Graph, classes: list[int]) -> dict[int, int]:
    """Try all root paths of each class; one fits if it does not give a node of the tree another parent."""
    parents: dict[int, int] = {}
    several = [node for node in classes if len(slow.root_paths(node)) > 1]
    for node in [*(n for n in classes if n not in several), *several]:
        found = []
        for path in slow.root_paths(node):
            steps = list(zip(path[1:], path, strict=False))
            if all(parents.get(child, parent) == parent for child, parent in steps):
                new = [child for child, _ in steps if child not in parents]
                found.append((len(new), len(path), path[len(path) - len(new) - 1 :], steps))
        parents.update(min(found)[3])
    return parents


@given(graphs(), st.randoms())
@settings(max_examples=80)
def test_odir(graph: Graph, random: Random) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    counts = [random.randint(0, 3) for _ in range(len(dag))]
    for given_counts in (None, counts, torch.tensor(counts)):
        tree, mapping = dag.project("odir", frequencies=given_counts)
        assert (mapping >= 0).all()
        wanted = odir_slowly(slow, [0] * len(dag) if given_counts is None else counts)
        assert kept_parents(dag, tree, mapping) == wanted
        assert torch.equal(tree.depth[mapping], dag.depth), "shortest paths stay shortest"
        assert set(mapping[dag.leaves].tolist()) <= set(tree.leaves.tolist())


@given(graphs(max_nodes=9), st.randoms())
@settings(max_examples=80)
def test_yolo9000(graph: Graph, random: Random) -> None:
    dag = TaxonomyDAG(*graph.lists)
    slow = numbered(dag)
    tree, mapping = dag.project("yolo9000")
    parents = kept_parents(dag, tree, mapping)
    assert parents == yolo_slowly(slow, dag.leaves.tolist())
    assert set(mapping[dag.leaves].tolist()) == set(tree.leaves.tolist()), "the same leaves"
    classes = sorted(random.sample(range(1, len(dag)), random.randint(1, len(dag) - 1)))
    tree, mapping = dag.project("yolo9000", classes=classes)
    assert kept_parents(dag, tree, mapping) == yolo_slowly(slow, classes)
    assert (mapping[classes] > 0).all()


@given(graphs())
@settings(max_examples=60)
def test_every_path_of_the_tree_is_a_path_of_the_dag(graph: Graph) -> None:
    dag = TaxonomyDAG(*graph.lists)
    for rule in ("odir", "yolo9000"):
        tree, mapping = dag.project(rule)  # type: ignore[arg-type]
        for node, place in enumerate(mapping.tolist()):
            if place >= 0:
                assert dag.find(tree.path(place)) == node
                assert int(tree.depth[place]) >= int(dag.depth[node])


@given(trees())
@settings(max_examples=40)
def test_a_tree_is_projected_to_itself(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    dag = TaxonomyDAG.from_tree(tree)
    for rule in ("odir", "yolo9000"):
        found, mapping = dag.project(rule)  # type: ignore[arg-type]
        assert found == tree
        assert torch.equal(mapping, torch.arange(len(tree)))


def test_odir_by_hand() -> None:
    edges = [("a", "r"), ("b", "r"), ("c", "r"), ("d", "c"), ("x", "d"), ("x", "b"), ("x", "a"), ("y", "b")]
    dag = TaxonomyDAG.from_edges(edges)
    tree, mapping = dag.project()
    assert tree.path_name(int(mapping[dag.find("x")])) == "a/x", "the deeper c/d is out; a comes before b"
    counts = torch.zeros(len(dag), dtype=torch.int64)
    counts[dag.find("y")] = 1
    tree, mapping = dag.project("odir", frequencies=counts)
    assert tree.path_name(int(mapping[dag.find("x")])) == "b/x", "b has more samples below"


def test_yolo9000_by_hand() -> None:
    # x has two ways: over the new p and q, or over the new s below k, which the tree already has
    edges = [("k", "r"), ("k1", "k"), ("p", "r"), ("q", "p"), ("x", "q"), ("s", "k"), ("x", "s"), ("p2", "q")]
    edges += [("p2", "k")]
    dag = TaxonomyDAG.from_edges(edges)
    tree, mapping = dag.project("yolo9000")
    assert tree.path_name(int(mapping[dag.find("x")])) == "k/s/x"
    assert tree.path_name(int(mapping[dag.find("p2")])) == "k/p2"
    assert mapping[dag.encode(["p", "q"])].tolist() == [-1, -1]


def test_wrong_arguments() -> None:
    dag = TaxonomyDAG.from_edges([("a", "r"), ("b", "r"), ("x", "a"), ("x", "b")])
    with pytest.raises(ValueError, match="rule is 'nearest'; expected 'odir' or 'yolo9000'"):
        dag.project("nearest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classes is given, which the rule 'odir' does not use"):
        dag.project("odir", classes=[1])
    with pytest.raises(ValueError, match="frequencies is given"):
        dag.project("yolo9000", frequencies=[1, 1, 1, 1])
    with pytest.raises(ValueError, match=r"frequencies has shape \(2,\)"):
        dag.project("odir", frequencies=[1, 1])
    with pytest.raises(ValueError, match=r"classes\[1\] is a missing label"):
        dag.project("yolo9000", classes=[1, -1])


def test_the_tree_is_of_the_same_release() -> None:
    edges = [("a", "r"), ("b", "r"), ("c", "a"), ("c", "b")]
    dag = TaxonomyDAG.from_edges(edges).with_release("2026-01")
    assert [dag.project(rule)[0].release for rule in ("odir", "yolo9000")] == ["2026-01"] * 2


def test_the_order_of_a_file_changes_no_parent() -> None:
    for first, second in (("a", "b"), ("b", "a")):
        edges = [(first, "r"), (second, "r"), ("x", first), ("x", second)]
        tree, _ = TaxonomyDAG.from_edges(edges).project()
        assert tree.path(tree.find("x")) == ("a", "x")


def test_a_tie_goes_to_the_first_id(tmp_path: Path) -> None:
    """Also where the next release lists its terms in another order, under other names."""
    terms = [("X:3", "cell", ["X:1", "X:2"]), ("X:2", "a part", ["X:0"]), ("X:1", "b part", ["X:0"])]
    for turn in (1, -1):
        text = "format-version: 1.2\n\n[Term]\nid: X:0\nname: root\n"
        for number, name, above in terms[::turn]:
            text += f"\n[Term]\nid: {number}\nname: {name}\n" + "".join(f"is_a: {p}\n" for p in above)
        (tmp_path / "x.obo").write_text(text)
        dag = load_taxonomy(tmp_path / "x.obo")
        assert isinstance(dag, TaxonomyDAG)
        tree, _ = dag.project()
        assert tree.path_name(tree.find("cell")) == "b part/cell"


def test_the_command_says_which_parents_were_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out, table = tmp_path / "dag.csv", tmp_path / "tree.csv", tmp_path / "dropped.csv"
    file.write_text("child,parent\nr,\nb,r\na,r\nx,a\nx,b\ny,a\nz,b\nz,y\n")
    assert main(["taxonomy", "project", str(file), "--out", str(out), "--dropped", str(table)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "2 nodes had several parents and kept the one nearest the root (rule odir), and of equally near ones "
        f"(1 node) the first by id, else by name; 2 other parents were dropped: see {table}"
    )
    assert table.read_text().splitlines() == ["node,kept,dropped", "x,a,b", "z,b,a/y"]
    assert main(["taxonomy", "project", str(file), "--out", str(out), "--rule", "yolo9000"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert "path that adds the fewest nodes (rule yolo9000); " in said
    assert said.endswith("dropped: --dropped FILE.csv lists them")
