"""Class numbers that are given as nodes: losses and metrics say so, once; `nodes_of` makes nodes of them."""

import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from labeltree import losses, metrics
from labeltree.errors import TaxonomyError
from labeltree.metrics import functional
from labeltree.models import KeyQueue
from labeltree.sampling import BalancedBatchSampler, ClassBalancedBatchSampler, HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow

PATHS = [("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "fir")]
NUMBERS = torch.arange(4).repeat(2)
Z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
INSTANCES = torch.arange(8)


def tree() -> Taxonomy:
    return Taxonomy.from_paths(PATHS)


def queued(loss: torch.nn.Module) -> Callable[[Tensor], object]:
    queue = KeyQueue(8, 4)
    queue.enqueue(Z, tree().leaves.repeat(2), INSTANCES)
    return lambda nodes: loss(Z, Z, queue, nodes, INSTANCES)


def coins(loss: torch.nn.Module) -> Callable[[Tensor], object]:
    given = queued(lambda *batch: loss(Z, *batch))
    return lambda nodes: given(nodes)


def scored(metric: Callable[..., object]) -> Callable[[Tensor], object]:
    taxonomy = tree()
    return lambda nodes: metric(Z.softmax(1), nodes, taxonomy)


def predicted(metric: Callable[..., object]) -> Callable[[Tensor], object]:
    taxonomy = tree()
    return lambda nodes: metric(taxonomy.leaves.repeat(2), nodes, taxonomy)


def embedded(metric: Callable[..., object]) -> Callable[[Tensor], object]:
    taxonomy = tree()
    return lambda nodes: metric(Z, nodes, taxonomy)


def updated(make: Callable[[Taxonomy], object], first: Tensor) -> Callable[[Tensor], object]:
    metric = make(tree())
    return lambda nodes: (metric.update(first, nodes), metric.compute())


CALLS: dict[str, Callable[[], Callable[[Tensor], object]]] = {
    "supcon": lambda: (lambda loss: lambda n: loss(Z, n))(losses.SupConLoss(tree())),
    "himulcon": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HiMulConLoss(tree())),
    "hicone": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HiConELoss(tree())),
    "himulcone": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HiMulConELoss(tree())),
    "hwc": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HWCLoss(tree())),
    "outside": lambda: (lambda loss: lambda n: loss(Z, n))(losses.WeightedSupConLoss(tree())),
    "lam": lambda: (lambda loss: lambda n: loss(Z, n))(losses.LevelAwareMarginLoss(tree(), 4)),
    "mlcl": lambda: (lambda loss: lambda n: loss([Z, Z], n))(losses.MLCLLoss(tree(), depths=[1, 2])),
    "corr": lambda: (lambda loss: lambda n: loss(Z, n))(losses.CorrelationLoss(tree())),
    "csl": lambda: (lambda loss: lambda n: loss(Z, n))(losses.CSLLoss(tree(), 4)),
    "proxies": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HierarchicalProxyLoss(tree(), 4)),
    "softmax": lambda: (lambda loss: lambda n: loss(Z, n))(losses.NormalisedSoftmaxLoss(tree(), 4)),
    "happier": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HAPPIERLoss(tree(), 4)),
    "tree proxies": lambda: (lambda loss: lambda n: loss(Z, n))(losses.TreeProxyLoss(tree(), 4)),
    "haframe": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HAFrameLoss(tree(), 4)),
    "hier-cos": lambda: (lambda loss: lambda n: loss(Z.repeat(1, 2)[:, :6], n))(losses.HierCOSLoss(tree())),
    "haf": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HAFLoss(tree(), 4)),
    "cpcc": lambda: (lambda loss: lambda n: loss(Z, n))(losses.CPCCLoss(tree())),
    "ce": lambda: (lambda loss: lambda n: loss(Z, n))(losses.CrossEntropyLoss(tree())),
    "hxe": lambda: (lambda loss: lambda n: loss(Z, n))(losses.HXELoss(tree())),
    "soft labels": lambda: (lambda loss: lambda n: loss(Z, n))(losses.SoftLabelLoss(tree())),
    "center": lambda: (lambda loss: lambda n: loss(Z, Z, n))(losses.CenterLoss(tree(), 4)),
    "guided": lambda: (lambda loss: lambda n: loss(Z, n))(losses.GuidedPrototypeLoss(tree(), 4)),
    "cls": lambda: (lambda loss: lambda n: loss(Z, n))(losses.EmbeddingClassifierLoss(tree(), 4)),
    "label embedding": lambda: (lambda loss: lambda n: loss(Z, n))(losses.LabelEmbeddingLoss(tree(), 4)),
    "maskcon": lambda: queued(losses.MaskConLoss(tree())),
    "grafit": lambda: queued(losses.GrafitLoss(tree())),
    "coins": lambda: coins(losses.CoInsLoss(tree())),
    "f1": lambda: predicted(functional.hierarchical_f1),
    "tree accuracy": lambda: predicted(functional.tree_accuracy),
    "severity": lambda: predicted(functional.mistake_severity),
    "accuracy by depth": lambda: predicted(functional.accuracy_by_depth),
    "decisions": lambda: predicted(functional.node_decision_metrics),
    "auroc": lambda: scored(functional.node_auroc),
    "average precision": lambda: scored(functional.node_average_precision),
    "retrieval": lambda: embedded(functional.retrieval_metrics),
    "hp": lambda: embedded(functional.hierarchical_precision_at_k),
    "ahp": lambda: embedded(functional.average_hierarchical_precision),
    "h-ap": lambda: embedded(functional.h_ap),
    "ndcg": lambda: embedded(functional.ndcg),
    "cophenetic": lambda: embedded(functional.cophenetic_correlation),
    "violations": lambda: embedded(functional.pair_violations),
    "prototypes": lambda: embedded(functional.class_prototypes),
    "parents": lambda: embedded(lambda z, n, t: functional.parent_violations(z, n, t, torch.randn(7, 4))),
    "recall at a depth": lambda: embedded(lambda z, n, t: functional.recall_at_k(z, n, taxonomy=t, depth=1)),
    "class f1": lambda: updated(metrics.HierarchicalF1, tree().leaves.repeat(2)),
    "class retrieval": lambda: updated(metrics.RetrievalMetrics, Z),
    "class auroc": lambda: updated(metrics.NodeAUROC, Z.softmax(1)),
    "class violations": lambda: updated(metrics.PairViolations, Z),
}


def said(call: Callable[[Tensor], object], nodes: Tensor) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(nodes)
    found = {str(warning.message) for warning in caught}
    return {message for message in found if "class numbers" in message}


@pytest.mark.parametrize("name", CALLS)
def test_class_numbers_are_told_of_once(name: str) -> None:
    call = CALLS[name]()
    (message,) = said(call, NUMBERS)
    assert "nodes are exactly 0 to 3, as class numbers are, and node 0 is the root" in message
    assert "taxonomy.nodes_of(class_names)[class_numbers]" in message
    assert "taxonomy.encode(names)" in message
    assert not said(call, NUMBERS)  # labels at the root may be meant
    assert not said(CALLS[name](), tree().leaves.repeat(2))


def test_the_root_among_other_labels() -> None:
    nodes = tree().encode(["dog", "cat", "oak", "fir", "/", "plant", None, "dog"])
    (message,) = said(CALLS["hwc"](), nodes)
    assert message.startswith("nodes hold node 0, and node 0 is the root")


def test_predictions_of_the_root_are_answers() -> None:
    taxonomy = tree()
    assert not said(lambda n: functional.hierarchical_f1(0 * n, n, taxonomy), taxonomy.leaves)


def test_later_batches_are_not_looked_at() -> None:
    """A number read from the labels makes a GPU's caller wait: that may happen in the first batches alone."""
    loss, good = losses.SupConLoss(tree()), tree().leaves.repeat(2)
    for _ in range(4):
        assert not said(lambda n: loss(Z, n), good)
    assert said(lambda n: loss(Z, n), NUMBERS)
    other = losses.SupConLoss(tree())
    for _ in range(10):
        other(Z, good)
    assert not said(lambda n: other(Z, n), NUMBERS)


def test_copies() -> None:
    loss = losses.HWCLoss(tree(), 0.5, 0.5)
    good = tree().leaves.repeat(2)
    assert torch.equal(pickle.loads(pickle.dumps(loss))(Z, good), loss(Z, good))


def test_nodes_of_class_numbers() -> None:
    taxonomy = Taxonomy.from_paths([*PATHS, ("plant", "dog")])
    names = ["fir", "animal/dog", ("plant", "dog"), "oak"]
    assert torch.equal(
        taxonomy.nodes_of(names)[torch.tensor([1, 0, 2])], taxonomy.encode(["animal/dog", "fir", "plant/dog"])
    )
    assert taxonomy.nodes_of([]).shape == (0,)
    for wrong, message in (
        (["fir", "dog"], "label 'dog' is ambiguous, it may be .*; give the path"),
        (["fir", "oka"], "label 'oka' is not in the taxonomy .*oak"),
        (["fir", "oak", "fir"], "classes 0 and 2 are both 'plant/fir'; give each class a different node"),
        (["fir", None], "class 1 has no name"),
        ("fir", "labels is the string 'fir', expected a sequence"),
    ):
        with pytest.raises(TaxonomyError, match=message):
            taxonomy.nodes_of(wrong)


def test_what_is_no_tree() -> None:
    dag = TaxonomyDAG.from_edges([("x", "y"), ("x", "z"), ("y", "w"), ("z", "w")])
    for make in (
        lambda first: losses.HWCLoss(first, 0.5, 0.5),
        losses.MLCLLoss,
        lambda first: losses.CrossEntropyLoss(taxonomy=first),
        lambda first: losses.HAPPIERLoss(first, 4),
        lambda first: BalancedBatchSampler(first, NUMBERS, 4),
        lambda first: HierarchicalBatchSampler(first, NUMBERS, 4),
        lambda first: ClassBalancedBatchSampler(first, NUMBERS, 4),
    ):
        with pytest.raises(TaxonomyError, match=r"need a tree: .*project the DAG"):
            make(dag)
        with pytest.raises(TypeError, match=r"got 'tree\.yaml'; load_taxonomy reads one from a file"):
            make("tree.yaml")
        with pytest.raises(TypeError, match=r"need a labeltree\.Taxonomy, got Tensor"):
            make(Z)
    for wrong, said in ((tree(), "Taxonomy"), (Z, r"float32 of shape \(8, 4\)"), ("0.1", "str")):
        with pytest.raises(TypeError, match=f"NTXentLoss takes temperature, a number, first; got {said}"):
            losses.NTXentLoss(wrong)


def test_samplers_of_classes_say_it_once() -> None:
    for sampler in (BalancedBatchSampler, HierarchicalBatchSampler, ClassBalancedBatchSampler):
        taxonomy = tree()
        with pytest.warns(UserWarning, match="nodes are exactly 0 to 3, as class numbers are"):
            sampler(taxonomy, NUMBERS, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sampler(tree(), tree().leaves.repeat(2), 4)


def test_transforms_of_torch_func_are_refused() -> None:
    nodes = tree().leaves.repeat(2)
    hwc, cpcc, happier = (
        losses.HWCLoss(tree(), 0.5, 0.5),
        losses.CPCCLoss(tree()),
        losses.HAPPIERLoss(tree(), 4),
    )
    for loss in (
        lambda z: hwc(z, nodes),
        lambda z: cpcc(z, nodes),
        lambda z: happier(z, nodes, INSTANCES),
    ):
        with pytest.raises(RuntimeError, match="hand-written gradients, which torch"):
            torch.func.grad(loss)(Z)
