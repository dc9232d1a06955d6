"""Other people's packages and ours at the same work, in one process, in turn.

    pip install pytorch-metric-learning open-metric-learning hiclass faiss-cpu usearch
    python benchmarks/peers_all.py [--short]

One thread. A row is one work: a loss forward and backward, numbers of a search, classifiers, wrong labels, a
vector index. Losses, recall, MAP@R, mAP and F1 of both must agree. CPU seconds are medians over
the rounds, *theirs ÷ ours* medians of the ratios within a round: above 1, ours takes less. Rows of packages
that are not installed are left out. Maps by UMAP and t-SNE have no row: the explorer takes them from there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import Results, Row, Size, Table, choose, in_turn, main
from index import NAMES, TREE, clusters
from inputs import Batch, balanced, batch
from labeltree.curation.suspects import find_suspects
from labeltree.decisions.lda import fit_discriminants
from labeltree.geometry import Sphere
from labeltree.index import Index, IndexRows
from labeltree.losses import ImageTextLoss, NormalisedSoftmaxLoss, SupConLoss
from labeltree.metrics.functional import hierarchical_f1
from labeltree.metrics.retrieval import Retrieval
from labeltree.ridge import fit_tree_ridge
from labeltree.ridge.fitting import PENALTIES
from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy
from peers import package_supcon

Call = Callable[[], Any]
COLUMNS = ("work", "package", "theirs, CPU s", "ours, CPU s", "theirs ÷ ours", "least to greatest")
PACKAGES = {
    "pytorch-metric-learning": "pytorch_metric_learning",
    "open-metric-learning": "oml",
    "sentence-transformers": "sentence_transformers",
    "torchmetrics": "torchmetrics",
    "scikit-learn": "sklearn",
    "hiclass": "hiclass",
    "faiss-cpu": "faiss",
    "usearch": "usearch",
    "cleanlab": "cleanlab",
}
_CLOSE = 1e-4


def compared(work: str, package: str, theirs: Call, ours: Call, rounds: int = 5) -> list[Any]:
    """A row; what both return is compared first, if it is a number."""
    values = [call() for call in (theirs, ours)]
    if all(isinstance(value, float) for value in values) and abs(values[0] - values[1]) > _CLOSE:
        raise SystemExit(f"{work}: {package} gives {values[0]}, ours {values[1]}")
    timings = in_turn({"ours": ours, "theirs": theirs}, "ours", rounds=rounds)
    mine, other = timings["ours"], timings["theirs"]
    return [work, package, other.seconds, mine.seconds, other.ratio, other.spread]


def step(loss: Callable[[Tensor], Tensor], z: Tensor) -> Call:
    """Forward and backward; returns the loss."""
    leaf = z.clone().requires_grad_()

    def call() -> float:
        leaf.grad = None
        value = loss(leaf)
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    return call


def losses(size: Size) -> Iterator[Row]:
    """SupCon, normalised softmax, and images with texts."""
    for n in choose(size, full=(512, 4096), short=(512,), tiny=(32,)):
        given = batch(n)
        if find_spec("pytorch_metric_learning"):
            ours = SupConLoss(given.taxonomy, temperature=0.1)
            labels = given.nodes
            yield compared(
                f"SupCon, n = {n}",
                "pytorch-metric-learning",
                step(package_supcon(given), given.z),
                step(lambda z, ours=ours, labels=labels: ours(z, labels), given.z),
            )
            yield compared(f"normalised softmax, n = {n}", "pytorch-metric-learning", *_softmax(given))
        if find_spec("oml"):
            yield compared(f"ArcFace without a margin, n = {n}", "open-metric-learning", *_arcface(given))
        if find_spec("sentence_transformers"):
            yield compared(f"images with texts, n = {n}", "sentence-transformers", *_pairs(given))


def _softmax(given: Batch) -> tuple[Call, Call]:
    from pytorch_metric_learning.losses import NormalizedSoftmaxLoss

    ours = NormalisedSoftmaxLoss(given.taxonomy, given.z.shape[1], temperature=0.1)
    theirs = NormalizedSoftmaxLoss(len(ours.classes), given.z.shape[1], temperature=0.1)
    return _with_proxies(given, ours, theirs, theirs.W.T)


def _arcface(given: Batch) -> tuple[Call, Call]:
    from oml.losses import ArcFaceLoss

    ours = NormalisedSoftmaxLoss(given.taxonomy, given.z.shape[1], temperature=0.1)
    theirs = ArcFaceLoss(given.z.shape[1], len(ours.classes), m=0, s=10)
    return _with_proxies(given, ours, theirs, theirs.weight)


def _with_proxies(
    given: Batch, ours: NormalisedSoftmaxLoss, theirs: torch.nn.Module, weights: Tensor
) -> tuple[Call, Call]:
    """Both losses with the same proxies; theirs takes the places of the classes as labels."""
    with torch.no_grad():
        weights.copy_(ours.proxies)
    place = torch.full((given.taxonomy.num_nodes,), -1)
    place[ours.classes] = torch.arange(len(ours.classes))
    labels = place[given.nodes]
    return step(lambda z: theirs(z, labels), given.z), step(lambda z: ours(z, given.nodes), given.z)


def _pairs(given: Batch) -> tuple[Call, Call]:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    class Given(torch.nn.Module):
        """A model whose output is its input."""

        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return features

    theirs = MultipleNegativesRankingLoss(
        Given(),  # type: ignore[arg-type]
        scale=10.0,
        directions=("query_to_doc", "doc_to_query"),
        partition_mode="per_direction",
    )
    ours = ImageTextLoss(given.taxonomy, 0.1, positives="instance", relatives=0)
    half = len(given) // 2
    nodes, instances = given.nodes[:half], torch.arange(half)

    def of_them(z: Tensor) -> Tensor:
        parts = [{"sentence_embedding": part} for part in (z[:half], z[half:])]
        return theirs(parts, torch.empty(0))

    def mine(z: Tensor) -> Tensor:
        return ours(z[:half], z[half:], nodes, nodes, instances, instances)

    return step(of_them, given.z), step(mine, given.z)


def searches(size: Size) -> Iterator[Row]:
    """Numbers of a search of each sample among the others."""
    n = choose(size, full=5_000, short=2_000, tiny=60)
    tree = balanced(8, 64, 512) if n > 100 else balanced(2, 4, 8)
    generator = torch.Generator().manual_seed(0)
    nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=generator)]
    points = torch.randn(len(tree), 128, generator=generator)[nodes]
    points = torch.nn.functional.normalize(points + 2 * torch.randn(n, 128, generator=generator))

    def asked(*names: str) -> Call:
        def call() -> float:
            search = Retrieval(points, nodes, rank_once=False)
            values = {
                "recall": lambda: search.recall(1),
                "map@r": search.map_at_r,
                "map": search.mean_average_precision,
            }
            return sum(float(values[name]()) for name in names)

        return call

    if find_spec("pytorch_metric_learning") and find_spec("faiss"):
        from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

        include = ("precision_at_1", "mean_average_precision_at_r")
        calculator = AccuracyCalculator(include=include, k="max_bin_count", device=torch.device("cpu"))

        def of_calculator() -> float:
            found = calculator.get_accuracy(points, nodes)
            return float(found["precision_at_1"] + found["mean_average_precision_at_r"])

        # a query alone in its class is none of ours, and counts 0 in theirs
        kept = torch.bincount(nodes)[nodes] > 1
        points, nodes = points[kept], nodes[kept]
        yield compared(
            f"recall@1 and MAP@R of {n:,}",
            "pytorch-metric-learning",
            of_calculator,
            asked("map@r", "recall"),
            3,
        )
    if find_spec("oml"):
        from oml.functional.metrics import calc_cmc, calc_map

        counts = (torch.bincount(nodes)[nodes] - 1).tolist()

        def of_oml() -> float:
            similarity = points @ points.T
            similarity.fill_diagonal_(-2)
            ranked = similarity.argsort(dim=1, descending=True)[:, :-1]
            right = [nodes[row] == node for row, node in zip(ranked, nodes, strict=True)]
            first = calc_cmc(right, counts, (1,))[0].double().mean()
            return float(first + calc_map(right, counts, (len(nodes) - 1,))[0].double().mean())

        yield compared(
            f"recall@1 and mAP of {n:,}", "open-metric-learning", of_oml, asked("map", "recall"), 3
        )
    if find_spec("torchmetrics"):
        from torchmetrics.retrieval import RetrievalMAP

        def of_torchmetrics() -> float:
            rows = torch.arange(len(points))
            others = rows[:, None] != rows
            query = rows[:, None].expand_as(others)[others]
            same = (nodes[:, None] == nodes)[others]
            above = 2 + (points @ points.T)[others]  # it counts no result whose score is 0 or less
            return float(RetrievalMAP()(above, same, indexes=query))

        yield compared(f"mAP of {n:,}", "torchmetrics", of_torchmetrics, asked("map"), 1)
    if find_spec("sentence_transformers"):
        yield compared(
            f"accuracy@1 and MAP@100 of {n:,}", "sentence-transformers", *_evaluator(points, nodes), 3
        )


def _evaluator(points: Tensor, nodes: Tensor) -> tuple[Call, Call]:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    half = len(points) // 2
    mine, theirs = nodes[:half], nodes[half:]
    known = torch.isin(mine, theirs)
    queries, corpus, mine = points[:half][known], points[half:], mine[known]
    names = [str(row) for row in range(len(corpus))]
    relevant = {
        str(row): {names[at] for at in torch.nonzero(theirs == node)[:, 0].tolist()}
        for row, node in enumerate(mine)
    }
    evaluator = InformationRetrievalEvaluator(
        {str(row): str(row) for row in range(len(queries))},
        dict(zip(names, names, strict=True)),
        relevant,
        mrr_at_k=[],
        ndcg_at_k=[],
        accuracy_at_k=[1],
        precision_recall_at_k=[],
        map_at_k=[100],
        write_csv=False,
    )

    def of_evaluator() -> float:
        scores = queries @ corpus.T
        best = scores.topk(min(100, len(corpus)), dim=1)
        hits = [
            [{"corpus_id": names[at], "score": score} for score, at in zip(*row, strict=True)]
            for row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        found = evaluator.compute_metrics(hits)
        return float(found["accuracy@k"][1] + found["map@k"][100])

    def ours() -> float:
        search = Retrieval(queries, mine, None, corpus, theirs, rank_once=False)
        return float(search.recall(1)) + float(search.mean_average_precision())

    # at most a hundred of a class: the hundred best then rarely hold all, so values are not compared
    return (lambda: (of_evaluator(),)), (lambda: (ours(),))


def classifiers(size: Size) -> Iterator[Row]:
    """Heads on vectors, and answers of a tree."""
    n, d, classes = choose(size, full=(10_000, 768, 100), short=(2_000, 256, 20), tiny=(200, 16, 8))
    tree = Taxonomy.from_paths([(f"{i // 20}", f"{i // 20}/{i // 5}", f"class {i}") for i in range(classes)])
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, classes, n)
    vectors = 0.25 * rng.standard_normal((classes, d))[chosen] + rng.standard_normal((n, d))
    vectors = vectors.astype(np.float32)
    given, nodes = torch.from_numpy(vectors), tree.leaves[torch.from_numpy(chosen)]
    if find_spec("sklearn"):
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.linear_model import RidgeClassifierCV

        double = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float64)
        yield compared(
            f"ridge, λ by validation, {n:,} × {d}",
            "scikit-learn",
            lambda: RidgeClassifierCV(alphas=PENALTIES).fit(double, chosen),
            lambda: fit_tree_ridge(given, nodes, tree),
            3,
        )
        yield compared(
            f"LDA with shrinkage, {n:,} × {d}",
            "scikit-learn",
            lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(vectors, chosen),
            lambda: fit_discriminants(given, nodes),
            3,
        )
    if find_spec("hiclass"):
        yield from _hiclass(given, nodes, tree)


def _hiclass(given: Tensor, nodes: Tensor, tree: Taxonomy) -> Iterator[Row]:
    from hiclass import LocalClassifierPerParentNode
    from hiclass.metrics import f1
    from sklearn.linear_model import LogisticRegression

    paths = np.array([tree.path(node) for node in nodes.tolist()])
    few = min(len(given), 2_000)
    x, rows = given[:few].numpy(), paths[:few]
    names = [tree.path_name(node) for node in nodes[:few].tolist()]

    def of_hiclass() -> Any:
        local = LocalClassifierPerParentNode(LogisticRegression(max_iter=200))
        return local.fit(x, rows).predict(x)

    yield compared(
        f"fit and answer, {few:,} × {given.shape[1]}",
        "hiclass",
        of_hiclass,
        lambda: TaxonomyClassifier(tree).fit(x, names).predict(x),
        1,
    )
    drawn = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    others = np.array([tree.path(node) for node in drawn.tolist()])
    yield compared(
        f"hierarchical F1 of {len(nodes):,} answers",
        "hiclass",
        lambda: float(f1(paths, others)),
        lambda: float(hierarchical_f1(drawn, nodes, tree)),
    )


def wrong_labels(size: Size) -> Iterator[Row]:
    """Labels that look wrong, from vectors."""
    if not find_spec("cleanlab"):
        return
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    n, classes = choose(size, full=(5_000, 40), short=(1_500, 20), tiny=(200, 8))
    tree = Taxonomy.from_paths([(f"{i // 20}", f"{i // 20}/{i // 5}", f"class {i}") for i in range(classes)])
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, classes, n)
    vectors = (0.5 * rng.standard_normal((classes, 128))[chosen] + rng.standard_normal((n, 128))).astype(
        np.float32
    )
    wrong = rng.random(n) < 0.05
    given = np.where(wrong, rng.integers(0, classes, n), chosen)
    wrong = given != chosen
    points, nodes = torch.from_numpy(vectors), tree.leaves[torch.from_numpy(given)]
    names = [str(row) for row in range(n)]
    precision: dict[str, float] = {}

    def theirs() -> None:
        issues = CleanLearning(LogisticRegression(max_iter=200), cv_n_folds=5).find_label_issues(
            vectors, given
        )
        first = np.argsort(issues["label_quality"].to_numpy())[: wrong.sum()]
        precision["theirs"] = float(wrong[first].mean())

    def ours() -> None:
        found = find_suspects(points, points, nodes, tree, geometry=Sphere(), ids=names)
        first = [int(each.sample) for each in found.found[: wrong.sum()]]
        precision["ours"] = float(wrong[first].mean())

    row = compared(f"wrong labels among {n:,} × 128", "cleanlab", theirs, ours, 3)
    row[0] += f" (right of the first {wrong.sum()}: {precision['theirs']:.2f}, ours {precision['ours']:.2f})"
    yield row


def indexes(size: Size) -> Table:
    """Exact and approximate search of ten neighbours, one query at a time."""
    n = choose(size, full=200_000, short=50_000, tiny=2_000)
    vectors, parts = clusters(n + 200, choose(size, full=128, short=128, tiny=16), min(2_000, n // 20))
    queries, vectors = vectors[n:], np.ascontiguousarray(vectors[:n])
    rows: list[Row] = []
    nearest = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]

    def ask(name: str, built: float, search: Callable[[Any], Any]) -> None:
        few = iter(range(10**9))
        seconds = in_turn({"one": lambda: search(queries[next(few) % 200])}, "one", rounds=5)["one"].seconds
        found = [set(map(int, search(query))) for query in queries]
        share = np.mean([len(own & set(row)) / 10 for own, row in zip(found, nearest.tolist(), strict=True)])
        rows.append([name, built, 1e3 * seconds, float(share)])

    with tempfile.TemporaryDirectory() as place:
        leaves = TREE.encode(NAMES).numpy()
        ids = [str(row) for row in range(n)]

        def create() -> Index:
            index = Index.create(
                Path(place) / "index", IndexRows(ids, vectors, leaves[parts[:n]]), taxonomy=TREE
            )
            index.vectors()
            if not index.info().approximate:
                index.tune()
            return index

        built, index = _once(create)
        for name, exact in (("labeltree, exact", True), ("labeltree, approximate (tuned to .95)", False)):
            ask(name, built, lambda q, exact=exact: index.search(q, k=10, exact=exact, columns=[])[0].ids)
        if find_spec("faiss"):
            import faiss

            faiss.omp_set_num_threads(1)
            for name, made in (
                ("faiss-cpu, IndexFlatIP", lambda: faiss.IndexFlatIP(vectors.shape[1])),
                (
                    "faiss-cpu, IndexHNSWFlat(32)",
                    lambda: faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT),
                ),
            ):
                taken, flat = _once(lambda made=made: _filled(made(), vectors))
                ask(name, taken, lambda q, flat=flat: flat.search(q[None], 10)[1][0])
        if find_spec("usearch"):
            from usearch.index import Index as Other

            def fill() -> Any:
                other = Other(ndim=vectors.shape[1], metric="ip", dtype="f32")
                other.add(np.arange(n), vectors, threads=1)
                return other

            taken, other = _once(fill)
            ask("usearch, HNSW", taken, lambda q: other.search(q, 10, threads=1).keys)
    columns = ("index", "built, CPU s", "query, CPU ms", "recall@10")
    return Table(
        f"Ten neighbours among {n:,} × {vectors.shape[1]}, {min(2_000, n // 20):,} clusters", columns, rows
    )


def _filled(index: Any, vectors: Any) -> Any:
    index.add(vectors)
    return index


def _once(call: Call) -> tuple[float, Any]:
    began = time.process_time()
    made = call()
    return time.process_time() - began, made


def measure(size: Size) -> Results:
    """All rows of what is installed."""
    parts = [
        Table(title, COLUMNS, list(rows(size)))
        for title, rows in (
            ("Losses, forward and backward", losses),
            ("Numbers of a search", searches),
            ("Classifiers", classifiers),
            ("Wrong labels", wrong_labels),
        )
    ]
    there, missing = [], []
    for package in PACKAGES:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    notes = [
        f"Packages: {', '.join(there)}." + (f" Not installed: {', '.join(missing)}." if missing else ""),
        "Ours reads a label at any depth of a tree; the others' labels are flat, but for hiclass.",
        "What computes numbers of rankings is given similarities or hits of one matrix product.",
    ]
    return Results([*parts, indexes(size)], notes=notes)


if __name__ == "__main__":
    main(__doc__, measure)
