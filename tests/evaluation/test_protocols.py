"""Every protocol against a slow loop of its own, in each geometry, with ragged leaves and coarse labels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation import (
    EvaluationSettings,
    Inputs,
    JudgingTaxonomy,
    ProtocolResult,
    Second,
    choose_samples,
)
from labeltree.evaluation.protocol_registry import get_protocol
from labeltree.geometry import get_geometry
from labeltree.metrics import LinearProbe
from labeltree.metrics.functional import normalized_mutual_information
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow


def inputs_of(table: EmbeddingTable, taxonomy: Taxonomy | TaxonomyDAG, **others: object) -> Inputs:
    settings = others.pop("settings", EvaluationSettings())
    judging = JudgingTaxonomy.of(taxonomy)
    table = judging.table(table)
    split = str(others.get("split", "test"))
    return Inputs(table, judging, choose_samples(table, judging.tree, split, settings), settings, **others)


def run(name: str, inputs: Inputs, **options: object) -> ProtocolResult:
    entry = get_protocol(name)
    return entry.run(inputs, entry.choose(options))


@pytest.fixture(scope="module")
def coarse(table: EmbeddingTable, taxonomy: Taxonomy) -> EmbeddingTable:
    """Some labels are inner nodes, some missing, and there are no features."""
    nodes = table.nodes.clone()
    nodes[::11] = taxonomy.parent[nodes[::11]]
    nodes[5::17] = -1
    return replace(table, nodes=nodes, features=None)


def path(taxonomy: Taxonomy, node: int) -> list[int]:
    found = []
    while node > 0:
        found.insert(0, node)
        node = int(taxonomy.parent[node])
    return found


def same(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def subtree_means(taxonomy: Taxonomy, values: list[float], nodes: list[int]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for value, node in zip(values, nodes, strict=True):
        for above in [0, *path(taxonomy, node)]:
            if not math.isnan(value):
                found.setdefault(taxonomy.path_name(above), []).append(value)
    return {name: sum(several) / len(several) for name, several in found.items()}


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_knn(geometry: str, coarse: EmbeddingTable, taxonomy: Taxonomy) -> None:
    space = get_geometry(geometry)
    table = replace(coarse, embeddings=space.embed(coarse.embeddings), geometry=geometry)
    inputs = inputs_of(table, taxonomy)
    result = run("knn", inputs, ks=(1, 4), main_k=4)
    points, nodes = table.embeddings, table.nodes.tolist()
    right, depth_right = [], [[] for _ in range(taxonomy.max_depth)]
    for row in inputs.samples.test.tolist():
        near = space.distance(points[row].double(), points[inputs.learned].double()).tolist()
        like = space.similarity(points[row].double(), points[inputs.learned].double()).tolist()
        votes = dict.fromkeys(sorted({nodes[i] for i in inputs.learned.tolist()}), 0.0)
        for place in sorted(range(len(near)), key=lambda i: near[i])[:4]:
            power = math.exp(like[place] / 0.07) if geometry == "sphere" else 1 / near[place]
            votes[nodes[int(inputs.learned[place])]] += power
        answer = max(votes, key=lambda node: votes[node])
        if inputs.samples.finest[nodes[row]]:
            right.append(float(answer == nodes[row]))
        true, guess = path(taxonomy, nodes[row]), path(taxonomy, answer)
        leaf = nodes[row] in taxonomy.leaves
        for depth in range(taxonomy.max_depth):
            if leaf or depth < len(true):
                end = -1 if depth >= len(true) else true[depth]
                reached = guess[depth] if depth < len(guess) else guess[-1]
                depth_right[depth].append(reached == (true[-1] if end == -1 else end))
    assert result.scores["embeddings.top1"] == result.scores["embeddings.top1_at_4"]
    assert result.scores["embeddings.top1"] == pytest.approx(np.mean(right), abs=1e-12)
    assert result.by_depth["embeddings.accuracy"] == pytest.approx([np.mean(each) for each in depth_right])
    tested = [nodes[row] for row in inputs.tested.tolist()]
    same(result.by_node["embeddings.top1"], subtree_means(taxonomy, right, tested))
    assert result.axes["embeddings.top1"] == [1.0, 4.0]


@pytest.mark.parametrize("how", ["splits", "listed", "share"])
def test_query_gallery(how: str, coarse: EmbeddingTable, taxonomy: Taxonomy, tmp_path: object) -> None:
    table, options = coarse, {}
    test = np.flatnonzero(table.split == "test")
    if how == "splits":
        split = table.split.astype("U7")
        split[test[::3]], split[test[1::3]] = "query", "gallery"
        table = replace(table, split=split)
    if how == "listed":
        listing = tmp_path / "queries.txt"
        listing.write_text("\n".join(str(int(table.instances[row])) for row in test[:20]) + "\n")
        options["listed"] = str(listing)
    inputs = inputs_of(table, taxonomy)
    result = run("query-gallery", inputs, ks=(1, 3), **options)
    fine = {int(r) for r in (inputs.samples.finest[table.nodes.clamp_min(0)] & (table.nodes > 0)).nonzero()}
    if how == "splits":
        queries = [r for r in np.flatnonzero(table.split == "query").tolist() if r in fine]
        gallery = [r for r in np.flatnonzero(table.split == "gallery").tolist() if r in fine]
    elif how == "listed":
        queries = [r for r in test[:20].tolist() if r in fine]
        gallery = [r for r in test.tolist() if r in fine and r not in queries]
    else:
        assert result.counts["queries"] + result.counts["gallery"] == len([r for r in test if r in fine])
        for node in torch.unique(table.nodes[torch.tensor([r for r in test.tolist() if r in fine])]):
            assert f"{taxonomy.path_name(int(node))}" in result.by_node["embeddings.recall_at_1"]
        return
    points = torch.nn.functional.normalize(table.embeddings.double(), dim=1)
    recall, precision, coarse_recall = [], [], []
    for q in queries:
        ranked = sorted(gallery, key=lambda g, q=q: (-float(points[q] @ points[g]), g))
        hits = [int(table.nodes[g] == table.nodes[q]) for g in ranked]
        recall.append(float(any(hits[:3])))
        count = sum(hits)
        precision.append(
            sum(sum(hits[: i + 1]) / (i + 1) * hits[i] for i in range(count)) / count if count else math.nan
        )
        first = path(taxonomy, int(table.nodes[ranked[0]]))[0]
        coarse_recall.append(float(first == path(taxonomy, int(table.nodes[q]))[0]))
    assert result.counts["queries"] == len(queries)
    assert result.counts["gallery"] == len(gallery)
    assert result.scores["embeddings.recall_at_3"] == pytest.approx(np.mean(recall))
    assert result.scores["embeddings.map_at_r"] == pytest.approx(np.nanmean(precision))
    assert result.by_depth["embeddings.recall_at_1"][0] == pytest.approx(np.mean(coarse_recall))
    truth = [int(table.nodes[q]) for q in queries]
    same(result.by_node["embeddings.map_at_r"], subtree_means(taxonomy, precision, truth))


def test_query_gallery_names_what_is_wrong(
    table: EmbeddingTable, taxonomy: Taxonomy, tmp_path: object
) -> None:
    inputs = inputs_of(table, taxonomy)
    with pytest.raises(DataError, match=r"no split 'probe'.*the table has \['test', 'train', 'val'\]"):
        run("query-gallery", inputs, queries="probe")
    (tmp_path / "q.txt").write_text("nobody\n")
    with pytest.raises(DataError, match="lists 1 sample not in the table, such as 'nobody'"):
        run("query-gallery", inputs, listed=str(tmp_path / "q.txt"))
    with pytest.raises(DataError, match="read as the list of queries"):
        run("query-gallery", inputs, listed=str(tmp_path / "none.txt"))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_clustering(geometry: str, coarse: EmbeddingTable, taxonomy: Taxonomy) -> None:
    from sklearn.cluster import KMeans

    space = get_geometry(geometry)
    table = replace(coarse, embeddings=space.embed(coarse.embeddings), geometry=geometry)
    inputs = inputs_of(table, taxonomy)
    result = run("clustering", inputs, starts=2)
    rows = inputs.samples.search
    vectors = table.embeddings[rows].float()
    if geometry == "poincare":
        vectors = space.log(torch.zeros_like(vectors), vectors)
    elif geometry == "sphere":
        vectors = vectors / vectors.norm(dim=1, keepdim=True)

    def agreement(here: list[int], truth: list[int]) -> float:
        means = KMeans(len(set(truth)), n_init=2, random_state=0).fit_predict(vectors[here].numpy())
        clusters = torch.from_numpy(means).long()
        return float(normalized_mutual_information(torch.tensor(truth), clusters))

    paths = [path(taxonomy, int(node)) for node in table.nodes[rows]]
    everyone = list(range(len(rows)))
    for depth in range(taxonomy.max_depth):
        truth = [each[min(depth, len(each) - 1)] for each in paths]
        assert result.by_depth["embeddings.nmi"][depth] == pytest.approx(agreement(everyone, truth), abs=1e-9)
    within = {}
    for node in {each[0] for each in paths}:
        here = [i for i in everyone if paths[i][0] == node]
        within[taxonomy.path_name(node)] = agreement(here, [paths[i][-1] for i in here])
    same(result.by_node["embeddings.nmi_within"], within)
    assert result.scores["embeddings.nmi_within"] == pytest.approx(np.mean(list(within.values())))
    assert result.scores["embeddings.nmi"] == result.by_depth["embeddings.nmi"][-1]


def test_seen_unseen(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    new = taxonomy.encode(["animal/fish/trout", "plant/tree/oak"])
    without = (table.split != "train") | ~torch.isin(table.nodes, new).numpy()
    kept = table.rows(torch.from_numpy(without))
    result = run("seen-unseen", inputs_of(kept, taxonomy))
    assert result.counts["seen classes"] == 6
    assert result.counts["unseen classes"] == 2
    half = result.counts["unseen samples that the probe learned from"]
    assert 2 * half == result.counts["unseen test samples"] == 12
    # retrieval of either kind is that of a table that holds nothing else
    for name, mask in (("seen", ~torch.isin(kept.nodes, new)), ("unseen", torch.isin(kept.nodes, new))):
        alone = inputs_of(replace(kept.rows(mask & torch.from_numpy(kept.split == "test"))), taxonomy)
        found = alone.judge_retrieval(alone.reading("features"), alone.samples.search)
        assert result.scores[f"{name}.features.recall_at_1"] == found.scores["recall_at_1"]
        assert result.by_depth[f"{name}.features.map_at_r"] == found.by_depth["map_at_r"]
    gap = result.scores["seen.features.top1"] - result.scores["unseen.features.top1"]
    assert result.scores["unseen.features.top1_less_than_seen"] == pytest.approx(gap)
    # named, with training samples of their own in the table: the probe learns from those
    named = run("seen-unseen", inputs_of(table, taxonomy), unseen=("plant", "trout"))
    assert named.counts["unseen classes"] == 4
    (said,) = named.notes
    assert said.startswith(
        "All seen classes lie at or below 'animal': accuracy and recall at depth 1 are not"
    )
    assert math.isnan(named.by_depth["seen.features.accuracy"][0])
    assert math.isnan(named.by_depth["seen.features.recall_at_1"][0])
    assert not math.isnan(named.by_depth["unseen.features.recall_at_1"][0])
    learned = (table.split == "train") & (
        torch.isin(table.nodes, torch.arange(1, taxonomy.num_nodes))
    ).numpy()
    both = [named.counts[f"{kind} samples that the probe learned from"] for kind in ("seen", "unseen")]
    assert sum(both) == int(learned.sum())
    with pytest.raises(DataError, match="unseen names something that is not a node"):
        run("seen-unseen", inputs_of(table, taxonomy), unseen=("elk",))
    with pytest.raises(DataError, match="no training split"):
        run("seen-unseen", inputs_of(replace(table, split=None), taxonomy))


def test_class_embeddings(taxonomy: Taxonomy, tmp_path: object) -> None:
    nodes = taxonomy.leaves.repeat(12)
    split = np.where(np.arange(len(nodes)) % 2 < 1, "train", "test")
    split = np.where(np.arange(len(nodes)) // 8 % 2 < 1, "train", "test")
    vectors = taxonomy.class_embeddings()
    place = torch.searchsorted(taxonomy.leaves, nodes)
    noise = torch.randn(len(nodes), 8, generator=torch.Generator().manual_seed(0))
    table = EmbeddingTable((vectors[place].float() + 0.2 * noise), nodes, split=split)
    inputs = inputs_of(table, taxonomy)
    result = run("class-embeddings", inputs)
    test = inputs.samples.test
    right = [
        float(
            taxonomy.leaves[
                max(range(8), key=lambda c, r=row: float(table.embeddings[r].double() @ vectors[c]))
            ]
        )
        == float(nodes[row])
        for row in test.tolist()
    ]
    assert result.scores["direct.embeddings.top1"] == pytest.approx(np.mean(right))
    assert 0.5 < np.mean(right) < 1.0

    # rotated and shifted: only a fitted map can tell
    rotation = torch.linalg.qr(noise[:8])[0]
    turned = inputs_of(replace(table, embeddings=table.embeddings @ rotation + 3.0), taxonomy)
    moved = run("class-embeddings", turned)
    assert moved.scores["fitted.embeddings.top1"] == pytest.approx(
        result.scores["fitted.embeddings.top1"], abs=0.05
    )
    assert moved.scores["fitted.embeddings.top1"] > moved.scores["direct.embeddings.top1"]

    # from a file, of another width
    wide = torch.nn.functional.pad(vectors.float(), (0, 3))
    EmbeddingTable(wide, taxonomy.leaves).save(tmp_path / "classes.npz")
    filed = run("class-embeddings", inputs, vectors=str(tmp_path / "classes.npz"))
    assert filed.scores["fitted.embeddings.top1"] == pytest.approx(result.scores["fitted.embeddings.top1"])
    assert "direct.embeddings.top1" not in filed.scores
    assert "cannot be compared directly" in filed.notes[0]
    with pytest.raises(DataError, match="8 numbers and the class embeddings 11"):
        run("class-embeddings", inputs, vectors=str(tmp_path / "classes.npz"), by=("direct",))
    EmbeddingTable(torch.eye(8), taxonomy.leaves[:1].repeat(8)).save(tmp_path / "twice.npz")
    with pytest.raises(DataError, match="several rows for class"):
        run("class-embeddings", inputs, vectors=str(tmp_path / "twice.npz"))


def test_few_samples(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    inputs = inputs_of(table, taxonomy)
    result = run(
        "few-samples", inputs, per_class=(2, 500), shares=(1.0,), totals=(30,), noise=(0.0, 1.0), seeds=3
    )
    everything = LinearProbe().fit(*_standard(inputs)[:2]).predict(_standard(inputs)[2])
    top1 = float((everything == inputs.nodes[inputs.tested]).double().mean())
    for name in ("per_class_500", "share_1"):
        assert result.scores[f"features.top1_{name}"] == pytest.approx(top1)
        assert result.scores[f"features.top1_{name}_sd"] == pytest.approx(0.0, abs=1e-12)
    assert result.scores["features.top1_per_class_2"] < top1 + 0.1
    assert result.scores["features.top1_total_30_sd"] > 0
    assert result.scores["features.top1_share_1_noise_1"] < 0.4 < top1  # labels that say nothing
    assert result.axes["features.top1_by_per_class"] == [2.0, 500.0]
    assert result.curves["features.top1_by_per_class"][1] == pytest.approx(top1)
    assert run("few-samples", inputs, per_class=(2,), seeds=3).scores == {
        key: value for key, value in result.scores.items() if "per_class_2" in key and "noise" not in key
    }


def _standard(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    features = inputs.table.features
    assert features is not None
    train, test = features[inputs.learned], features[inputs.tested]
    mean, deviation = train.mean(0), train.std(0, correction=0)
    return (train - mean) / deviation, inputs.nodes[inputs.learned], (test - mean) / deviation


def test_noise_changes_labels_as_often_as_it_says() -> None:
    from labeltree.evaluation.protocols.few_samples import noisy_labels

    labels = torch.arange(5).repeat(4000) * 3
    noisy = noisy_labels(labels, 0.4, 1)
    assert float((noisy == labels).double().mean()) == pytest.approx(1 - 0.4 * 4 / 5, abs=0.01)
    for other in (3, 6, 9, 12):
        assert float((noisy[labels == 0] == other).double().mean()) == pytest.approx(0.4 / 5, abs=0.015)


def test_transfer(table: EmbeddingTable, taxonomy: Taxonomy, tmp_path: object) -> None:
    other = Taxonomy.from_paths([("red", "dark"), ("red", "light"), ("blue",)])
    nodes = other.leaves.repeat(20)
    second = EmbeddingTable(
        tree_vectors(other, nodes, 6, 0.1, 4), nodes, features=tree_vectors(other, nodes, 10, 0.1, 5)
    )
    given = run("transfer", inputs_of(table, taxonomy, second=Second(second, other, "colours")), main_k=5)
    assert given.title == "Transfer to colours"
    assert given.counts["classes there"] == 3
    there = inputs_of(second, other)
    assert given.scores["knn.features.top1"] == run("knn", there, main_k=5).scores["features.top1"]
    assert given.by_depth["probe.features.accuracy"][0] >= given.scores["probe.features.top1"] > 0.9
    second.save(tmp_path / "second.npz")
    other.save(tmp_path / "other.json")
    files = {"table": str(tmp_path / "second.npz"), "taxonomy": str(tmp_path / "other.json")}
    read = run("transfer", inputs_of(table, taxonomy), main_k=5, totals=(12,), seeds=2, **files)
    same(given.scores, {key: value for key, value in read.scores.items() if "probe_from" not in key})
    assert 0 < read.scores["probe_from.features.top1_total_12"] <= 1
    with pytest.raises(DataError, match="needs the table of another data set"):
        run("transfer", inputs_of(table, taxonomy))
    with pytest.raises(DataError, match="of the evaluated method's encoder"):
        run("transfer", inputs_of(table, taxonomy, evaluated=False), **files)
    with pytest.raises(DataError, match="not of one encoder"):
        run("transfer", inputs_of(replace(table, embeddings=table.embeddings[:, :4]), taxonomy), **files)
    with pytest.raises(ValueError, match="belong together"):
        get_protocol("transfer").choose({"table": "x.npz"})


def test_sgd_probe_reads_what_it_is_asked_to(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    inputs = inputs_of(table, taxonomy)
    long = run("sgd-probe", inputs, roles=("features", "embeddings"), epochs=60, batch_size=30)
    assert {key.partition(".")[0] for key in long.scores} == {"features", "embeddings"}
    exact = LinearProbe().fit(*_standard(inputs)[:2]).predict(_standard(inputs)[2])
    top1 = float((exact == inputs.nodes[inputs.tested]).double().mean())
    assert long.scores["features.top1"] == pytest.approx(top1, abs=0.1)
    with pytest.raises(ValueError, match="roles are"):
        run("sgd-probe", inputs, roles=("pixels",))


@pytest.mark.parametrize("name", ["knn", "query-gallery", "clustering", "class-embeddings", "frequency"])
def test_a_dag_is_judged_as_a_dag(name: str) -> None:
    edges = [("dog", "pet"), ("dog", "worker"), ("cat", "pet"), ("ox", "worker"), ("pet", "animal")]
    dag = TaxonomyDAG.from_edges(
        [*edges, ("worker", "animal"), ("oak", "plant"), ("animal", "all"), ("plant", "all")]
    )
    names = ["dog", "cat", "ox", "oak"]
    nodes = dag.encode(names * 30)
    keep = torch.arange(120) % (1 + 2 * (torch.arange(120) % 4)) == 0
    split = np.where(np.arange(120) % 8 < 4, "train", "test")
    keep |= torch.from_numpy(split == "test")
    vectors = torch.randn(120, 5, generator=torch.Generator().manual_seed(2))
    table = EmbeddingTable(vectors + 2 * torch.eye(5)[torch.arange(120) % 4], nodes, split=split).rows(keep)
    inputs = inputs_of(table, dag)
    result = run(name, inputs)
    assert result.scores
    assert all(math.isnan(v) or -1 <= v <= 9 for v in result.scores.values())
    if name == "query-gallery":
        assert inputs.judging.tree is not dag
        assert 0 < result.scores["embeddings.ahp"] <= 1
