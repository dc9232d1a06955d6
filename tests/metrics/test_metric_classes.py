"""The torchmetrics classes: batch by batch, across processes, pickled and reset, they equal the functions."""

import math
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from metric_loops import ragged_tree
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from forked import start_ranks
from labeltree import metrics
from labeltree.geometry import Euclidean, PoincareBall
from labeltree.metrics import functional

pytestmark = pytest.mark.slow

TAXONOMY = ragged_tree()
COUNT = 43


def data() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randint(-1, TAXONOMY.num_nodes, (COUNT,), generator=generator)
    guess = torch.randint(TAXONOMY.num_nodes, (COUNT,), generator=generator)
    return {
        "embeddings": 0.15 * torch.randn(COUNT, 4, generator=generator),
        "nodes": nodes,
        "predicted": torch.where((torch.arange(COUNT) % 2 == 0) & (nodes >= 0), nodes, guess),
        "clusters": nodes.clamp(min=0) // 2,
        "probabilities": torch.randn(COUNT, TAXONOMY.num_leaves, generator=generator).softmax(dim=1),
    }


DATA = data()
PROTOTYPES = functional.class_prototypes(DATA["embeddings"].flip(0), DATA["nodes"], TAXONOMY)
PREDICTION, SAMPLE, CLUSTERING = ("predicted", "nodes"), ("embeddings", "nodes"), ("nodes", "clusters")
SCORED = ("probabilities", "nodes")
THRESHOLDS = torch.linspace(0.1, 0.9, TAXONOMY.num_nodes, dtype=torch.float64)


def defined(value: Tensor) -> Tensor:
    """The entries that are not NaN: a node need not have both positive and negative samples."""
    return value[~value.isnan()] if value.is_floating_point() else value


def scalars(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the class gives, so that a LightningModule can log it."""
    return {name: value.double() for name, value in values.items() if name != "hp_curve"}


# name -> the class, its inputs, and the function of all inputs that it must equal
CASES: dict[str, tuple[Callable[[], Metric], tuple[str, str], Callable[..., Any]]] = {
    "f1": (
        lambda: metrics.HierarchicalF1(TAXONOMY),
        PREDICTION,
        lambda p, t: functional.hierarchical_f1(p, t, TAXONOMY),
    ),
    "f1 with root": (
        lambda: metrics.HierarchicalF1(TAXONOMY, include_root=True, undecided="negative"),
        PREDICTION,
        lambda p, t: functional.hierarchical_f1(p, t, TAXONOMY, True, undecided="negative"),
    ),
    "tree accuracy": (
        lambda: metrics.TreeAccuracy(TAXONOMY),
        PREDICTION,
        lambda p, t: functional.tree_accuracy(p, t, TAXONOMY),
    ),
    "severity": (
        lambda: metrics.MistakeSeverity(TAXONOMY),
        PREDICTION,
        lambda p, t: functional.mistake_severity(p, t, TAXONOMY),
    ),
    "accuracy by depth": (
        lambda: metrics.AccuracyByDepth(TAXONOMY),
        PREDICTION,
        lambda p, t: functional.accuracy_by_depth(p, t, TAXONOMY),
    ),
    "parent violations": (
        lambda: metrics.ParentViolations(TAXONOMY, PROTOTYPES, Euclidean()),
        SAMPLE,
        lambda z, t: functional.parent_violations(z, t, TAXONOMY, PROTOTYPES, geometry=Euclidean()),
    ),
    "parent order": (
        lambda: metrics.ParentOrderAccuracy(TAXONOMY, PROTOTYPES),
        SAMPLE,
        lambda z, t: functional.parent_order_accuracy(z, t, TAXONOMY, PROTOTYPES),
    ),
    "recall": (
        lambda: metrics.RecallAtK(k=5, geometry="poincare"),
        SAMPLE,
        lambda z, t: functional.recall_at_k(z, t, ks=(5,), geometry=PoincareBall())[5],
    ),
    "map at r": (
        lambda: metrics.MAPAtR(taxonomy=TAXONOMY, depth=1),
        SAMPLE,
        lambda z, t: functional.map_at_r(z, t, taxonomy=TAXONOMY, depth=1),
    ),
    "map": (
        lambda: metrics.MeanAveragePrecision(geometry=Euclidean()),
        SAMPLE,
        lambda z, t: functional.mean_average_precision(z, t, geometry=Euclidean()),
    ),
    "hp": (
        lambda: metrics.HierarchicalPrecisionAtK(TAXONOMY, k=3),
        SAMPLE,
        lambda z, t: functional.hierarchical_precision_at_k(z, t, TAXONOMY, ks=(3,))[3],
    ),
    "ahp": (
        lambda: metrics.AverageHierarchicalPrecision(TAXONOMY, k=9, rule="trapezoid"),
        SAMPLE,
        lambda z, t: functional.average_hierarchical_precision(z, t, TAXONOMY, k=9, rule="trapezoid"),
    ),
    "h-ap": (
        lambda: metrics.HAP(TAXONOMY, relevance="map", weights=(1, 2, 1, 3)),
        SAMPLE,
        lambda z, t: functional.h_ap(z, t, TAXONOMY, relevance="map", weights=(1, 2, 1, 3)),
    ),
    "asi": (
        lambda: metrics.AverageSetIntersection(TAXONOMY),
        SAMPLE,
        lambda z, t: functional.average_set_intersection(z, t, TAXONOMY),
    ),
    "ndcg": (
        lambda: metrics.NDCG(TAXONOMY, geometry="euclidean"),
        SAMPLE,
        lambda z, t: functional.ndcg(z, t, TAXONOMY, geometry="euclidean"),
    ),
    "graded retrieval": (
        lambda: metrics.RetrievalMetrics(TAXONOMY, ahp_k=9, graded=True),
        SAMPLE,
        lambda z, t: scalars(functional.retrieval_metrics(z, t, TAXONOMY, ahp_k=9, graded=True)),
    ),
    "cophenetic": (
        lambda: metrics.CopheneticCorrelation(TAXONOMY),
        SAMPLE,
        lambda z, t: functional.cophenetic_correlation(z, t, TAXONOMY),
    ),
    "all retrieval": (
        lambda: metrics.RetrievalMetrics(TAXONOMY, ks=(1, 3), ahp_k=9, depths=(1, 2)),
        SAMPLE,
        lambda z, t: scalars(functional.retrieval_metrics(z, t, TAXONOMY, ks=(1, 3), ahp_k=9, depths=(1, 2))),
    ),
    "pair violations": (
        lambda: metrics.PairViolations(TAXONOMY, geometry=Euclidean(), reading="triplets"),
        SAMPLE,
        lambda z, t: functional.pair_violations(z, t, TAXONOMY, Euclidean(), reading="triplets"),
    ),
    "nmi": (
        lambda: metrics.NormalizedMutualInformation("geometric"),
        CLUSTERING,
        lambda a, b: functional.normalized_mutual_information(a, b, average="geometric"),
    ),
    "node auroc": (
        lambda: metrics.NodeAUROC(TAXONOMY),
        SCORED,
        lambda p, t: functional.node_auroc(p, t, TAXONOMY),
    ),
    "node average precision": (
        lambda: metrics.NodeAveragePrecision(TAXONOMY),
        SCORED,
        lambda p, t: functional.node_average_precision(p, t, TAXONOMY),
    ),
    "node metrics at": (
        lambda: metrics.NodeMetricsAt(TAXONOMY, THRESHOLDS),
        SCORED,
        lambda p, t: functional.node_metrics_at(THRESHOLDS, p, t, TAXONOMY),
    ),
    "node decisions": (
        lambda: metrics.NodeDecisionMetrics(TAXONOMY),
        PREDICTION,
        lambda p, t: functional.node_decision_metrics(p, t, TAXONOMY),
    ),
}


def plain(value: Any) -> Any:
    return {name: plain(v) for name, v in value.items()} if isinstance(value, dict) else value.tolist()


def update(metric: Metric, names: tuple[str, str], rows: slice, double: bool = False) -> None:
    batch = [DATA[name][rows] for name in names]
    metric.update(*(x.double() if double and x.is_floating_point() else x for x in batch))


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            same(found[name], expected[name])
    else:
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def any_value(found: Any) -> bool:
    """Whether something is not NaN: the root has no AUROC, and other nodes may have none."""
    if isinstance(found, dict):
        # no two samples share exactly the first three nodes of their paths
        return all(any_value(part) for name, part in found.items() if name != "ap/depth3")
    return any(any_value(part) for part in found) if isinstance(found, list) else found == found


@pytest.mark.parametrize("name", CASES)
def test_batches_equal_the_whole_and_reset_forgets(name: str) -> None:
    make, names, function = CASES[name]
    expected = plain(function(*(DATA[key] for key in names)))
    assert any_value(expected), "the case must have a value"
    metric = make()
    update(metric, names, slice(0, 9))
    assert metric.update_count == 1
    metric.reset()
    for start in range(0, COUNT, 10):
        update(metric, names, slice(start, start + 10))
    same(plain(metric.compute()), expected)
    same(plain(metric.compute()), expected)


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_goes_on_where_it_was(name: str) -> None:
    make, names, function = CASES[name]
    metric = make()
    update(metric, names, slice(0, 20))
    again = pickle.loads(pickle.dumps(metric))
    update(again, names, slice(20, COUNT))
    same(plain(again.compute()), plain(function(*(DATA[key] for key in names))))


@pytest.mark.parametrize("name", CASES)
def test_forward_gives_the_batch_and_keeps_the_whole(name: str) -> None:
    make, names, function = CASES[name]
    metric = make()
    for rows in (slice(0, 30), slice(30, COUNT)):
        batch = [DATA[key][rows] for key in names]
        same(plain(metric(*batch)), plain(function(*batch)))
    same(plain(metric.compute()), plain(function(*(DATA[key] for key in names))))


@pytest.mark.parametrize("name", CASES)
def test_no_batch_at_all_is_nan(name: str) -> None:
    metric = CASES[name][0]()
    with pytest.warns(UserWarning, match="before the ``update``"):
        value = metric.compute()
    values = value if isinstance(value, dict) else {"": value}
    for key, v in values.items():
        if v.is_floating_point():
            assert (v == 0 if key.startswith(("queries", "database")) else v.isnan()).all()


def test_counts_of_left_out_samples() -> None:
    metric = metrics.TreeAccuracy(TAXONOMY)
    update(metric, PREDICTION, slice(None))
    left_out = int((DATA["nodes"] <= 0).sum())
    assert (metric.left_out.item(), metric.count.item()) == (left_out, COUNT - left_out)


def test_state_dict_holds_the_state_when_asked() -> None:
    metric = metrics.HierarchicalF1(TAXONOMY)
    metric.persistent(True)
    update(metric, PREDICTION, slice(None))
    other = metrics.HierarchicalF1(TAXONOMY)
    other.persistent(True)
    other.load_state_dict(metric.state_dict())
    other.update(DATA[PREDICTION[0]][:0], DATA[PREDICTION[1]][:0])
    assert other.compute() == metric.compute()


def test_half_precision_and_large_ids_survive_collection() -> None:
    ids = torch.tensor([2**24, 2**24 + 1, 2**24, 2**24 + 1])
    points = torch.tensor([[1.0, 0.0], [0.99, 0.01], [0.0, 1.0], [0.01, 0.99]]).bfloat16()
    metric = metrics.RecallAtK()
    metric.update(points[:2], ids[:2])
    metric.update(points[2:], ids[2:])
    assert metric.compute().item() == 0.0


def test_groups_come_with_the_batches() -> None:
    """Some batches without: their samples stand alone."""
    groups = torch.randint(-1, 6, (COUNT,), generator=torch.Generator().manual_seed(1))
    groups[20:30] = -1
    options = {"taxonomy": TAXONOMY, "ks": (1, 3), "ahp_k": 9}
    every = metrics.RetrievalMetrics(**options)
    single = [
        metrics.RecallAtK(k=3),
        metrics.MAPAtR(),
        metrics.MeanAveragePrecision(),
        metrics.HierarchicalPrecisionAtK(TAXONOMY, k=3),
        metrics.AverageHierarchicalPrecision(TAXONOMY, k=9),
    ]
    for metric in (every, *single):
        for part, given in ((slice(0, 20), True), (slice(20, 30), False), (slice(30, COUNT), True)):
            more = {"groups": groups[part]} if given else {}
            metric.update(DATA["embeddings"][part], DATA["nodes"][part], **more)
    expected = functional.retrieval_metrics(DATA["embeddings"], DATA["nodes"], **options, query_groups=groups)
    same(plain(every.compute()), plain(scalars(expected)))
    for metric, name in zip(single, ("recall@3", "map@r", "map", "hp@3", "ahp@9"), strict=True):
        assert metric.compute().item() == pytest.approx(expected[name].item(), abs=1e-12)
    with pytest.raises(ValueError, match="embeddings has 2 rows, groups 3"):
        metrics.MAPAtR().update(torch.zeros(2, 3), torch.tensor([1, 2]), groups=torch.tensor([1, 2, 3]))


def test_a_lightning_module_logs_all_retrieval_metrics() -> None:
    """Without a warning: it would turn whole numbers into floats."""
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader

    class Validation(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.retrieval = metrics.RetrievalMetrics(TAXONOMY, ks=(1,), depths=(1,))

        def validation_step(self, batch: Tensor) -> None:
            self.retrieval.update(DATA["embeddings"][batch], DATA["nodes"][batch])

        def on_validation_epoch_end(self) -> None:
            self.log_dict(self.retrieval.compute())

    loader = DataLoader(range(COUNT), batch_size=10)  # type: ignore[arg-type]
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = Trainer(accelerator="cpu", logger=False, **quiet)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (logged,) = trainer.validate(Validation(), loader, verbose=False)
    assert not [str(found.message) for found in caught if "log" in str(found.message).lower()]
    assert logged["queries"] == (DATA["nodes"] >= 0).sum()


def test_metrics_of_a_collection_stay_their_own_whatever_the_first_batch_is() -> None:
    """A collection takes metrics of equal states for one; where all is right they had equal sums."""
    makes = {
        "f1": lambda: metrics.HierarchicalF1(TAXONOMY),
        "f1 with root": lambda: metrics.HierarchicalF1(TAXONOMY, include_root=True),
        "tree accuracy": lambda: metrics.TreeAccuracy(TAXONOMY),
        "severity": lambda: metrics.MistakeSeverity(TAXONOMY),
        "by depth": lambda: metrics.AccuracyByDepth(TAXONOMY),
    }
    together, alone = MetricCollection({name: make() for name, make in makes.items()}), {}
    batches = [(TAXONOMY.leaves, TAXONOMY.leaves), (DATA["predicted"], DATA["nodes"])]
    for predicted, nodes in batches:
        together.update(predicted, nodes)
    for name, make in makes.items():
        alone[name] = make()
        for batch in batches:
            alone[name].update(*batch)
    for name, value in together.compute().items():
        torch.testing.assert_close(value, alone[name].compute(), equal_nan=True)
    ways = (None, "raw")
    of_parents = partial(metrics.ParentViolations, TAXONOMY, PROTOTYPES)
    pair = MetricCollection({str(way): of_parents(distance=way) for way in ways})
    for rows in (slice(0, 0), slice(0, COUNT)):
        pair.update(DATA["embeddings"][rows], DATA["nodes"][rows])
    for way in ways:
        assert pair.compute()[str(way)] == of_parents(distance=way)(DATA["embeddings"], DATA["nodes"])


def test_a_bad_batch_is_refused_when_it_comes() -> None:
    with pytest.raises(ValueError, match=r"nodes has dtype torch.float32"):
        metrics.MAPAtR().update(torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(ValueError, match="embeddings holds NaN or infinity in row 0"):
        metrics.MAPAtR().update(torch.full((2, 3), math.nan), torch.zeros(2).long())


# rows of each of two processes: uneven shares in uneven batches, and a process without any
SHARES = {"uneven": ([(0, 9), (9, 30)], [(30, COUNT)]), "one empty": ([], [(0, 25), (25, COUNT)])}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    results = {}
    for share, batches in SHARES.items():
        for name, (make, names, _) in CASES.items():
            metric = make()
            for start, stop in batches[rank]:
                update(metric, names, slice(start, stop), double=share == "one empty")
            results[share, name] = plain(metric.compute())
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:The ``compute`` method:UserWarning")
def test_two_processes_equal_one(tmp_path: Path) -> None:
    start_ranks(work, (str(tmp_path),), nprocs=2)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for name, (_, names, function) in CASES.items():
        expected = plain(function(*(DATA[key] for key in names)))
        for share in SHARES:
            for rank in range(2):
                same(found[rank][share, name], expected)


def test_every_public_name_exists() -> None:
    for name in metrics.__all__:
        assert getattr(metrics, name) is not None
        assert name in dir(metrics)
    with pytest.raises(AttributeError, match="has no attribute 'Precision'"):
        _ = metrics.Precision  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
def test_rows_of_one_sample_count_once(name: str) -> None:
    """As where two ranks validate the same samples: without ids each would be its own first hit."""
    make, (first, second), function = CASES[name]
    metric = make()
    ids = 1000 + torch.arange(COUNT)
    for rows in (slice(0, 20), slice(10, COUNT), slice(0, COUNT)):
        metric.update(DATA[first][rows], DATA[second][rows], instances=ids[rows])
    expected = function(DATA[first], DATA[second])
    found = metric.compute()
    if not isinstance(expected, dict):
        expected, found = {"": expected}, {"": found}
    for key, value in found.items():
        torch.testing.assert_close(value, expected[key], equal_nan=True)
    metric.reset()
    metric.update(DATA[first][:5], DATA[second][:5], instances=torch.full((5,), -1))
    metric.update(DATA[first][:5], DATA[second][:5])
    assert len(metric.rows(metric.names[0])) == 10  # -1 stands alone
    with pytest.raises(ValueError, match="instances has 3 rows"):
        metric.update(DATA[first][:5], DATA[second][:5], instances=ids[:3])


def validate_the_same(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    warnings.simplefilter("always")
    points = torch.randn(12, 4, generator=torch.Generator().manual_seed(3))
    nodes = TAXONOMY.leaves[torch.arange(12) % 3]
    told, silent = metrics.RecallAtK(), metrics.RecallAtK()
    told.update(points, nodes, instances=torch.arange(12))
    silent.update(points, nodes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = [told.compute(), silent.compute()]
    torch.save((values, [str(warning.message) for warning in caught]), f"{folder}/same{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_with_the_same_samples(tmp_path: Path) -> None:
    start_ranks(validate_the_same, (str(tmp_path),), nprocs=2)
    points = torch.randn(12, 4, generator=torch.Generator().manual_seed(3))
    one = functional.recall_at_k(points, TAXONOMY.leaves[torch.arange(12) % 3], ks=(1,))[1]
    assert one < 1
    for rank in range(2):
        (told, silent), messages = torch.load(tmp_path / f"same{rank}.pt")
        assert told == one
        assert silent == 1  # nothing says that these are one another, but that is remarked
        (message,) = [m for m in messages if "bit by bit" in m]
        assert message.startswith("12 of 24 samples have the embedding of another one")
        assert "RecallAtK.update(..., instances=ids) counts them once" in message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metrics.RecallAtK(1), "taxonomy is 1; expected the taxonomy of the labels, or None"),
        (lambda: metrics.RecallAtK(k=0), "k.* is 0; expected an integer of at least 1"),
        (lambda: metrics.RecallAtK(k=(1, 5)), r"is \(1, 5\); expected an integer"),
        (lambda: metrics.RecallAtK(depth=1), "depth is given without taxonomy"),
        (lambda: metrics.RecallAtK(TAXONOMY, depth=9), "depth is 9; expected a depth of the taxonomy"),
        (lambda: metrics.RecallAtK(geometry="ball"), "geometry is 'ball'; expected one of"),
        (lambda: metrics.RecallAtK(ks=(1,)), "Unexpected keyword arguments: `ks`"),
        (lambda: metrics.MAPAtR(TAXONOMY, depth=0), "depth is 0"),
        (lambda: metrics.MeanAveragePrecision(geometry=3), "geometry is 3"),
        (lambda: metrics.HierarchicalPrecisionAtK(None), "taxonomy is None; expected the taxonomy"),
        (lambda: metrics.HierarchicalPrecisionAtK(TAXONOMY, k=-1), "is -1; expected an integer"),
        (lambda: metrics.AverageHierarchicalPrecision(TAXONOMY, rule="median"), "rule is 'median'"),
        (lambda: metrics.RetrievalMetrics(5), "taxonomy is 5; expected the taxonomy of the labels, and all"),
        (lambda: metrics.RetrievalMetrics(TAXONOMY, ks=(1, 0)), "is 0; expected an integer"),
        (lambda: metrics.RetrievalMetrics(TAXONOMY, depths=(7,)), "depth is 7"),
        (lambda: metrics.RetrievalMetrics(TAXONOMY, ahp_k=0), "ahp_k is 0"),
        (lambda: metrics.RetrievalMetrics(TAXONOMY, only="map"), "only is 'map'; expected a list of keys"),
        (
            lambda: metrics.RetrievalMetrics(TAXONOMY, only=("recall@3",)),
            "fits no key; did you mean 'recall@",
        ),
        (lambda: metrics.RetrievalMetrics(TAXONOMY, k=1), "Unexpected keyword arguments: `k`"),
        (lambda: metrics.PairViolations(TAXONOMY, reading="threes"), "reading is 'threes'"),
        (lambda: metrics.PairViolations(TAXONOMY, geometry="ball"), "geometry is 'ball'"),
        (lambda: metrics.ParentViolations(TAXONOMY, torch.zeros(3, 2)), "prototypes have shape"),
        (lambda: metrics.ParentViolations(TAXONOMY, PROTOTYPES, distance="far"), "distance is 'far'"),
        (lambda: metrics.HierarchicalF1(TAXONOMY, undecided="maybe"), "undecided is 'maybe'"),
        (lambda: metrics.MistakeSeverity(TAXONOMY, undecided="maybe"), "undecided is 'maybe'"),
        (lambda: metrics.NormalizedMutualInformation("mean"), "average is 'mean'"),
    ],
)
def test_arguments_are_refused_at_construction(make: Callable[[], Metric], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_log_dict_takes_what_retrieval_metrics_compute() -> None:
    collection = MetricCollection(
        {"one": metrics.RecallAtK(TAXONOMY), "all": metrics.RetrievalMetrics(TAXONOMY, depths=(1,))}
    )
    collection.update(DATA["embeddings"], DATA["nodes"])
    values = collection.compute()
    assert all(value.numel() == 1 for value in values.values())
    assert values["recall@1"] == values["one"]
    assert "ahp@250" in values
    few = metrics.RetrievalMetrics(TAXONOMY, ks=(1, 3), only=("recall@*", "ahp@250"))
    few.update(DATA["embeddings"], DATA["nodes"])
    assert set(few.compute()) == {"recall@1", "recall@3", "ahp@250"}
    assert few.compute()["ahp@250"] == values["ahp@250"]


def test_copies_without_instances_or_groups_are_told() -> None:
    points = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    points[9:] = points[:3]
    nodes, ids = TAXONOMY.leaves[:3].repeat(4), torch.arange(12)
    ids[9:] = ids[:3]

    def measured(points: torch.Tensor, **ids: torch.Tensor) -> float:
        metric = metrics.RecallAtK(TAXONOMY)
        metric.update(points, nodes, **ids)
        return float(metric.compute())

    with pytest.warns(UserWarning, match="3 of 12 samples have the embedding of another one"):
        measured(points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured(points, instances=ids)
        measured(points, groups=ids)
        measured(torch.ones(12, 3))
