"""The losses over a queue: figures, slow loops, derivatives, precision, and what becomes what."""

import copy
import json
import math
import pickle
from pathlib import Path

import pytest
import torch
from queue_settings import SETTINGS, TREES
from slow_losses import even_tree
from slow_queue_losses import Stored, random_queries
from torch.nn import functional

from labeltree.losses import (
    ASCLLoss,
    CoInsLoss,
    GrafitLoss,
    MaskConLoss,
    NNCLRLoss,
    NTXentLoss,
    SelfConLoss,
    SupConLoss,
)
from labeltree.losses.relation_table import same_label
from labeltree.pairs import LabelRows, PairRelation, soft_target_contrast
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

CASES = json.loads((Path(__file__).parent / "oracles" / "maskcon.json").read_text())["cases"]
INF = math.inf


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def close(got, expected):
    assert (got.detach() - double(expected)).abs().max() <= 1e-9 * max(double(expected).abs().max(), 1e-12)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_figures(case):
    given, expected = case["inputs"], case["expected"]
    count = max(given["coarse"] + given["queue_coarse"]) + 1
    tree = Taxonomy.from_paths([(str(label),) for label in range(count)])
    nodes, stored = (tree.encode([str(y) for y in given[key]]) for key in ("coarse", "queue_coarse"))
    queue = Stored(double(given["queue"]), stored, torch.tensor(given["queue_ids"]))
    batch = (double(given["k"]), queue, nodes, torch.tensor(given["ids"]))
    grafit = {"temperature": given["T1"], "w": given["w"]}
    maskcon = {**grafit, "target_temperature": given["T2"]}
    losses = {
        "official": MaskConLoss(tree, **maskcon, variant="reference"),
        "paper_own_entry_not_a_soft_positive": MaskConLoss(tree, **maskcon, exclude_self="negative"),
        "paper_own_entry_dropped": MaskConLoss(tree, **maskcon),
        "selfcon": SelfConLoss(given["T1"], exclude_self="keep"),
        "grafit": GrafitLoss(tree, **grafit, exclude_self="keep"),
        "coins": CoInsLoss(tree, **grafit, exclude_self="keep"),
    }
    for name, loss in losses.items():
        if expected.get(name) is None:
            continue
        queries = double(given["q"]).requires_grad_()
        logits = double(given["class_logits"] or [[]]).requires_grad_()
        value = loss(logits, queries, *batch) if name == "coins" else loss(queries, *batch)
        value.backward()
        close(value, expected[name]["loss"])
        close(queries.grad, expected[name]["grad"])
        if name == "coins":
            close(logits.grad, expected["coins"]["grad_class_logits"])


@pytest.mark.parametrize("case", [c for c in CASES if "soft_relations" in c["expected"]])
def test_figures_of_the_relations(case):
    """Each stored key is given an axis of its own besides: a query along it has z' as its attraction."""
    given = case["inputs"]
    keys, stored = double(given["k"]), double(given["queue"])
    b, m = len(keys), len(stored)
    tree = Taxonomy.from_paths([(str(y),) for y in range(max(given["coarse"] + given["queue_coarse"]) + 1)])
    rows = (tree.encode([str(y) for y in given[name]]) for name in ("coarse", "queue_coarse"))
    relation = PairRelation(*(LabelRows.of(tree.paths, nodes, None, None) for nodes in rows), offset=None)
    same = same_label(relation.space)
    found = torch.ones(b, 1 + m, dtype=torch.float64)
    for j, axis in enumerate(torch.eye(m, dtype=torch.float64)):
        contrast = soft_target_contrast(
            torch.cat([stored.new_zeros(stored.shape[1]), axis]).expand(b, -1),
            torch.cat([keys, keys.new_zeros(b, m)], dim=1),
            torch.cat([stored, torch.eye(m, dtype=torch.float64)], dim=1),  # longer than stored by √2
            relation,
            positive=same,
            members=same[None],
            temperature=1 / math.sqrt(2),
            target_temperature=given["T2"] / math.sqrt(2),
        )
        found[:, 1 + j] = contrast.attraction
    close(found, case["expected"]["soft_relations"])
    torch.testing.assert_close(contrast.mass, found.sum(1))


@pytest.mark.parametrize("name", SETTINGS)
def test_only_queries_have_a_gradient(name):
    queries, keys, queue, nodes, instances = random_queries(TREES["even"], 2)
    keys.requires_grad_()
    queue.vectors.requires_grad_()
    SETTINGS[name][0](TREES["even"])(queries.requires_grad_(), keys, queue, nodes, instances).backward()
    assert queries.grad.abs().sum() > 0
    assert keys.grad is None
    assert queue.vectors.grad is None


def same(first, second, batch):
    for loss in (first, second):
        loss.reduction = "none"
    torch.testing.assert_close(first(*batch), second(*batch), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize(("exclude_self", "seed"), [("drop", 0), ("negative", 1), ("keep", 2)])
def test_special_cases(tree, exclude_self, seed):
    t, how = TREES[tree], {"exclude_self": exclude_self}
    batch = random_queries(t, seed)
    for undecided in ("ignore", "negative"):
        masked = {**how, "undecided": undecided}
        same(MaskConLoss(t, 0.3, INF, 0.6, **masked), GrafitLoss(t, 0.3, 0.6, **masked), batch)
        same(MaskConLoss(t, 0.3, 0.1, 0.0, **masked), SelfConLoss(0.3, **how), batch)
        same(GrafitLoss(t, 0.3, 0.0, **masked), SelfConLoss(0.3, **how), batch)
        same(MaskConLoss(t, 0.3, 1e-9, **masked), MaskConLoss(t, 0.3, 0.0, **masked), batch)
    same(MaskConLoss(t, 0.3, 0.0, 1.0, mask=False, **how), NNCLRLoss(0.3, **how), batch)
    for loss, limit in (
        (MaskConLoss(t, 0.3, 1e9, 0.6, **how), GrafitLoss(t, 0.3, 0.6, **how)),
        (MaskConLoss(t, 0.3, 1e-9, 1.0, mask=False, **how), NNCLRLoss(0.3, **how)),
    ):
        torch.testing.assert_close(loss(*batch), limit(*batch), rtol=1e-8, atol=0)
    flat = MaskConLoss(t, 0.3, INF, 1.0, mask=False, **how)
    same(ASCLLoss(0.3, INF, **how), flat, batch)
    same(ASCLLoss(0.3, INF, trust="confidence", **how), SelfConLoss(0.3, **how), batch)
    one_class = (*batch[:2], Stored(batch[2].vectors, torch.full((9,), int(t.leaves[0])), batch[2].instances))
    one_class = (*one_class, torch.full((5,), int(t.leaves[0])), batch[4])
    same(MaskConLoss(t, 0.3, 0.2, **how), MaskConLoss(t, 0.3, 0.2, mask=False, **how), one_class)
    same(MaskConLoss(t, 0.3, 0.2, variant="reference"), MaskConLoss(t, 0.3, 0.2, exclude_self="keep"), batch)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
def test_grafit_is_supcon_and_selfcon_is_simclr_of_the_row_with_its_key_and_the_queue(tree, undecided):
    t = TREES[tree]
    queries, keys, queue, nodes, instances = random_queries(t, 4)
    supcon = SupConLoss(t, 0.3, reduction="none", undecided=undecided)
    simclr = NTXentLoss(0.3, reduction="none")
    grafit = GrafitLoss(t, 0.3, 1.0, exclude_self="keep", reduction="none", undecided=undecided)
    others = Stored(queue.vectors, queue.nodes, queue.instances + 10**6)
    selfcon = SelfConLoss(0.3, reduction="none")(queries, keys, others, nodes, instances)
    for i, row in enumerate(grafit(queries, keys, queue, nodes, instances)):
        z = torch.cat([queries[i : i + 1], keys[i : i + 1], queue.vectors])
        labels = torch.cat([nodes[i].expand(2), queue.nodes])
        samples = torch.cat([instances[i].expand(2), queue.instances])
        torch.testing.assert_close(row, supcon(z, labels, samples)[0])
        samples = torch.cat([instances[i].expand(2), others.instances])
        torch.testing.assert_close(selfcon[i], simclr(z, labels, samples)[0])


def test_nnclr_is_half_of_the_own_key_and_half_of_its_nearest_neighbour():
    queries, keys, queue, nodes, instances = random_queries(TREES["even"], 5)
    rows = NNCLRLoss(0.3, exclude_self="keep", reduction="none")(queries, keys, queue, nodes, instances)
    q, k, h = (functional.normalize(x, dim=1) for x in (queries, keys, queue.vectors))
    log_q = torch.cat([(q * k).sum(1, keepdim=True), q @ h.T], dim=1).div(0.3).log_softmax(1)
    nearest = 1 + (k @ h.T).argmax(1)
    expected = -(log_q[:, 0] + log_q[torch.arange(len(q)), nearest]) / 2
    torch.testing.assert_close(rows, expected, rtol=1e-12, atol=1e-13)


def test_coins_is_its_parts():
    t = TREES["ragged"]
    batch = random_queries(t, 0)
    loss = CoInsLoss(t, 0.2, 0.3)
    logits = torch.randn(5, len(loss.classes), dtype=torch.float64)
    parts = 0.3 * loss.cross_entropy(logits, batch[3]) + 0.7 * SelfConLoss(0.2)(*batch)
    torch.testing.assert_close(loss(logits, *batch), parts)
    assert torch.equal(loss.predict(logits), t.leaves[logits.argmax(1)])
    loss.temperature = 0.4
    parts = 0.3 * loss.cross_entropy(logits, batch[3]) + 0.7 * SelfConLoss(0.4)(*batch)
    torch.testing.assert_close(loss(logits, *batch), parts)


@pytest.mark.parametrize("name", SETTINGS)
def test_float32_and_bfloat16(name):
    t = even_tree(3, 3)
    queries, keys, queue, nodes, instances = random_queries(t, 0, b=24, m=60, d=16, leaves=True)
    loss = SETTINGS[name][0](t)
    loss.temperature = 0.07
    exact = loss(queries, keys, queue, nodes, instances)
    stored = Stored(queue.vectors.float(), queue.nodes, queue.instances)
    single = loss(queries.float(), keys.float(), stored, nodes, instances)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)
    half, key = queries.bfloat16().requires_grad_(), keys.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half, key, stored, nodes, instances)
    assert torch.equal(value, loss(half.detach().float(), key.float(), stored, nodes, instances))
    value.backward()
    assert half.grad.isfinite().all()


@pytest.mark.parametrize("name", SETTINGS)
def test_copies(name):
    batch = random_queries(TREES["even"], 1)
    loss = SETTINGS[name][0](TREES["even"])
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), copy.deepcopy(loss).bfloat16()):
        assert other(*batch) == loss(*batch)
    assert not loss.state_dict()
