"""Metrics of samples with several labels, against loops over their labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree.geometry import Euclidean
from labeltree.metrics.functional import (
    hierarchical_f1,
    nearest_labels,
    node_auroc,
    node_decision_metrics,
    recall_at_k,
    set_overlap,
    set_retrieval,
)
from labeltree.metrics.functional.node_labels import NodeLabels
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from labeltree.taxonomy.label_sets import distinct_labels

TREE = Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y", "b/z/3", "b/z/4", "c"])
ROWS = st.lists(
    st.tuples(
        st.integers(0, TREE.num_nodes - 1),
        st.lists(st.integers(-1, TREE.num_nodes - 1), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def read(rows):
    answers, sets = zip(*rows, strict=True)
    return torch.tensor(answers), distinct_labels(torch.tensor(sets), TREE)


def line(node):
    return {node, *TREE.ancestors_of(node)} - {0}


@settings(max_examples=60)
@given(ROWS)
def test_overlap_and_nearest_label(rows):
    answers, sets = read(rows)
    nearest = nearest_labels(answers, sets, TREE)
    for row, sizes in enumerate(zip(*set_overlap(answers, sets, TREE), strict=True)):
        labels, answer = [node for node in sets[row].tolist() if node >= 0], int(answers[row])
        shared = [int(TREE.lca_depth(answer, node)) for node in labels]
        assert int(nearest[row]) == (labels[shared.index(max(shared))] if labels else -1)
        if labels and not bool(TREE.is_leaf[nearest[row]]):  # the label says nothing finer
            answer = [0, *sorted(line(answer))][: int(TREE.depth[nearest[row]]) + 1][-1]
        truth = set().union(*(line(node) for node in labels)) if labels else set()
        wanted = (len(line(answer) & truth), len(line(answer)), len(truth))
        assert tuple(int(size) for size in sizes) == wanted


@settings(max_examples=40)
@given(ROWS)
def test_one_label_is_the_usual_f1(rows):
    answers, sets = read(rows)
    common, of_answer, of_labels = set_overlap(answers, sets[:, :1], TREE)
    known = sets[:, 0] > 0
    wanted = hierarchical_f1(answers, sets[:, 0], TREE, reduction="none")
    found = 2 * common / (of_answer + of_labels)
    torch.testing.assert_close(found[known].double(), wanted[known])


@settings(max_examples=40)
@given(ROWS)
def test_states_of_nodes(rows):
    _, sets = read(rows)
    labels = NodeLabels.of("target_nodes", sets, TREE)
    states = labels.states(slice(0, TREE.num_nodes))[:, labels.label]
    known = [row for row in range(len(sets)) if int(sets[row].max()) > 0]
    assert labels.known.tolist() == known
    for place, row in enumerate(known):
        nodes = [node for node in sets[row].tolist() if node > 0]
        positive = set().union(*({0} | line(node) for node in nodes))
        below = set().union(*(set(TREE.descendants(node).tolist()) for node in nodes))
        for node in range(TREE.num_nodes):
            wanted = 1 if node in positive else -1 if node in below else 0
            assert states[node, place] == wanted


def test_auroc_of_a_node_counts_every_label():
    one, three, c = TREE.encode(["1", "3", "c"]).tolist()
    sets = torch.tensor([[one, three], [three, -1], [c, -1]])
    probabilities = torch.full((3, 6), 0.1)
    place = {int(node): column for column, node in enumerate(TREE.leaves)}
    probabilities[0, place[one]], probabilities[1, place[three]], probabilities[2, place[c]] = 0.5, 0.5, 0.5
    auroc = node_auroc(probabilities, sets, TREE)
    assert auroc[[one, c]].tolist() == [1.0, 1.0]
    assert auroc[three].item() == 0.75  # the first sample ties with the third
    rates = node_decision_metrics(torch.tensor([one, three, c]), sets, TREE)
    assert rates["sensitivity"][[one, three]].tolist() == [1.0, 0.5]
    assert rates["true_positives"][three] + rates["false_negatives"][three] == 2


def test_on_a_dag():
    dag = TaxonomyDAG.from_edges([("a", "root"), ("b", "root"), ("ab", "a"), ("ab", "b"), ("c", "b")])
    ab, c, b = (dag.find(name) for name in ("ab", "c", "b"))
    found = set_overlap(torch.tensor([c, ab]), torch.tensor([[ab, c], [ab, -1]]), dag)
    assert [size.tolist() for size in found] == [[2, 3], [2, 3], [4, 3]]
    assert b in dag.ancestors_of(ab)


def slow_retrieval(points, sets, keys, key_sets, groups, key_groups, depth=None):
    recalls, precisions = [], []
    for row, own in enumerate(sets.tolist()):
        order = [
            place
            for place in torch.cdist(points[row : row + 1], keys)[0].argsort(stable=True).tolist()
            if not (keys is points and place == row)
            and not (groups is not None and int(groups[row]) == int(key_groups[place]) >= 0)
        ]

        def at(node):
            return node if depth is None else int(TREE.ancestors[node, depth])

        mine = {at(node) for node in own if node >= 0} - {-1}
        hits = [bool(mine & ({at(n) for n in key_sets[p].tolist() if n >= 0} - {-1})) for p in order]
        total = sum(hits)
        if not total:
            recalls.append(None)
            precisions.append(None)
            continue
        recalls.append(float(hits[0]))
        precisions.append(sum(sum(hits[: k + 1]) / (k + 1) for k in range(total) if hits[k]) / total)
    return recalls, precisions


@pytest.mark.parametrize("gallery", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_retrieval(gallery, grouped):
    generator = torch.Generator().manual_seed(3)
    n = 40
    points, keys = torch.randn(2, n, 3, generator=generator)
    sets, key_sets = (
        distinct_labels(torch.randint(-1, TREE.num_nodes, (n, 2), generator=generator), TREE)
        for _ in range(2)
    )
    groups, key_groups = torch.randint(-1, 6, (2, n), generator=generator) if grouped else (None, None)
    if not gallery:
        keys, key_sets, key_groups = points, sets, groups
    among = (keys, key_sets) if gallery else ()
    found = set_retrieval(
        points, sets, TREE, *among, geometry=Euclidean(), query_groups=groups, key_groups=key_groups
    )
    for depth in (None, *range(1, TREE.max_depth + 1)):
        recalls, precisions = slow_retrieval(points, sets, keys, key_sets, groups, key_groups, depth)
        name = "recall@1" if depth is None else f"recall@1/depth{depth}"
        wanted = torch.tensor([torch.nan if x is None else x for x in recalls], dtype=torch.float64)
        torch.testing.assert_close(found[name], wanted, equal_nan=True)
        if depth is None:
            wanted = torch.tensor([torch.nan if x is None else x for x in precisions], dtype=torch.float64)
            torch.testing.assert_close(found["map@r"], wanted, equal_nan=True)


def test_retrieval_of_single_labels_is_the_usual_one():
    generator = torch.Generator().manual_seed(4)
    points = torch.randn(50, 3, generator=generator)
    nodes = TREE.leaves[torch.randint(len(TREE.leaves), (50,), generator=generator)]
    found = set_retrieval(points, nodes[:, None], TREE)["recall@1"]
    wanted = recall_at_k(points, nodes, ks=(1,), reduction="none")
    torch.testing.assert_close(found, wanted[1].double(), equal_nan=True)
