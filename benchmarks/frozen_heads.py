"""Frozen features: what every head makes of the same vectors, trained, solved or neither.

    python benchmarks/frozen_heads.py RUN --work FOLDER [--seeds 0 1 2] [--out FILE]

RUN is a run folder with the table that `labeltree embed RUN` keeps there: its features are the vectors, its
test samples stay so, and the seeds draw the validation samples from the others. Rows:

- *features*: answers by the nearest training sample; *whitened*: the same after whitening by the covariance
  within classes;
- *LDA* (shrinkage), *LogisticRegression* (unit length, C by validation), *RidgeClassifierCV*: their
  answers, and the features, which they do not change; *+ posterior*: their probabilities, calibrated by a
  temperature on validation, in the posterior space at tree 0.5, with nothing beside them;
- *tree-ridge*: `labeltree train --objective tree-ridge`; *tree 0*, *tree 1* and *a wrong tree* (its nodes
  permuted) are the same head with another space; *classes alone*: nothing beside the classes; *linear*: the
  linear space alone;
- objectives: `labeltree train --objective NAME` on the vectors; answers by what validation chose.

Retrieval is among the test samples. *unseen*: MAP@R of the test samples of a fifth of the classes, which are
left out of training, among all test samples (the heads that are solved, alone). CPU seconds of training.
Then a learning curve: 2, 5, 10 and 50 training samples of each class.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from torch import Tensor

import labeltree as lt
from labeltree.decisions import ClassNodes, fit_calibrator, posterior_embeddings
from labeltree.decisions.classifiers import classify
from labeltree.decisions.lda import fit_discriminants
from labeltree.geometry import Sphere
from labeltree.geometry.unit_vectors import unit_vectors
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import run_tables
from labeltree.metrics.functional import (
    class_prototypes,
    hierarchical_f1,
    map_at_r,
    pair_violations,
    parent_violations,
    retrieval_metrics,
)
from labeltree.ridge import TreeRidge, fit_tree_ridge
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import class_similarity

COLUMNS = (
    "top1",
    "hierarchical_f1",
    "recall_at_1",
    "map_at_r",
    "ahp",
    "h_ap",
    "parent_violations",
    "pair_violations",
    "unseen",
    "CPU s",
)
OBJECTIVES = ("supcon", "normalised-softmax", "happier", "hwc+lam", "pairs-proxies-means")
CURVE = (2, 5, 10, 50)
Row = dict[str, float]


@dataclasses.dataclass
class Samples:
    """Vectors `(n, d)` with the finest labels `(n,)`, and the rows of each part."""

    vectors: Tensor
    nodes: Tensor
    taxonomy: Taxonomy
    train: Tensor
    val: Tensor
    test: Tensor

    def part(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.vectors[rows], self.nodes[rows]


def read(run: Path, seed: int) -> Samples:
    """The samples of a run with a label; a tenth of those that are no test samples validate."""
    folder = RunFolder(run)
    taxonomy = folder.load_taxonomy()
    table = EmbeddingTable.load(folder.embeddings("trained"), taxonomy)
    assert table.features is not None
    assert table.split is not None
    labelled = table.nodes > 0
    test = labelled & torch.from_numpy(table.split == "test")
    others = (labelled & ~test).nonzero()[:, 0]
    order = others[torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))]
    held = order[: max(len(order) // 10, 1)]
    kept = order[max(len(order) // 10, 1) :].sort().values
    return Samples(table.features.double(), table.nodes, taxonomy, kept, held, test.nonzero()[:, 0])


def space_scores(points: Tensor, samples: Samples) -> Row:
    """Retrieval among the test samples, and violations of the tree, by cosine."""
    tested = torch.nn.functional.normalize(points[samples.test], dim=1).float()
    truth = samples.nodes[samples.test]
    measured = retrieval_metrics(tested, truth, samples.taxonomy, graded=True)
    learned = torch.nn.functional.normalize(points[samples.train], dim=1).float()
    means = class_prototypes(learned, samples.nodes[samples.train], samples.taxonomy, Sphere())
    return {
        "recall_at_1": float(measured["recall@1"]),
        "map_at_r": float(measured["map@r"]),
        "ahp": float(measured["ahp@250"]),
        "h_ap": float(measured["h_ap"]),
        "parent_violations": float(
            parent_violations(tested, truth, samples.taxonomy, means, geometry=Sphere())
        ),
        "pair_violations": float(pair_violations(tested, truth, samples.taxonomy, Sphere())),
    }


def answer_scores(answers: Tensor, samples: Samples) -> Row:
    truth = samples.nodes[samples.test]
    return {
        "top1": float((answers == truth).double().mean()),
        "hierarchical_f1": float(hierarchical_f1(answers, truth, samples.taxonomy)),
    }


def unseen_score(points: Callable[[Samples], Tensor], samples: Samples, seed: int) -> float:
    """MAP@R of test samples of classes that are left out of training."""
    classes = samples.nodes[samples.train].unique()
    generator = torch.Generator().manual_seed(seed)
    hidden = classes[torch.randperm(len(classes), generator=generator)[: max(len(classes) // 5, 1)]]
    rest = dataclasses.replace(
        samples,
        train=samples.train[~torch.isin(samples.nodes[samples.train], hidden)],
        val=samples.val[~torch.isin(samples.nodes[samples.val], hidden)],
    )
    tested = torch.nn.functional.normalize(points(rest)[samples.test], dim=1).float()
    truth = samples.nodes[samples.test]
    each = map_at_r(tested, truth, taxonomy=samples.taxonomy, reduction="none")
    return float(each[torch.isin(truth, hidden)].nanmean())


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    before = time.process_time()
    result = work()
    return result, time.process_time() - before


def of_sklearn(samples: Samples, rows: dict[str, Row], seed: int) -> None:
    """The rows of scikit-learn and of no training."""
    unit = unit_vectors(samples.vectors)
    x, y = samples.part(samples.train)
    nearest = (unit[samples.test] @ unit[samples.train].T).argmax(1)
    rows["features"] = answer_scores(y[nearest], samples) | space_scores(unit, samples)
    rows["features"]["unseen"] = unseen_score(lambda _: unit, samples, seed)

    apart = x - torch.stack([x[y == node].mean(0) for node in y.unique()])[torch.searchsorted(y.unique(), y)]
    within = apart.T @ apart / len(x)
    within = within + 0.1 * within.diagonal().mean() * torch.eye(len(within), dtype=torch.float64)
    factor = torch.linalg.cholesky(torch.linalg.inv(within))
    white = unit_vectors((samples.vectors - x.mean(0)) @ factor)
    nearest = (white[samples.test] @ white[samples.train].T).argmax(1)
    rows["whitened"] = answer_scores(y[nearest], samples) | space_scores(white, samples)

    def logistic() -> LogisticRegression:
        best: tuple[float, LogisticRegression] | None = None
        for strength in (1.0, 10.0, 100.0, 1000.0):
            model = LogisticRegression(C=strength, max_iter=2000).fit(unit[samples.train], y)
            right = model.score(unit[samples.val], samples.nodes[samples.val])
            if best is None or right > best[0]:
                best = right, model
        assert best is not None
        return best[1]

    for name, fit, given in (
        (
            "LDA",
            lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(x, y),
            samples.vectors,
        ),
        ("LogisticRegression", logistic, unit),
        (
            "RidgeClassifierCV",
            lambda: RidgeClassifierCV(alphas=np.logspace(-3, 2, 11)).fit(unit[samples.train], y),
            unit,
        ),
    ):
        model, seconds = timed(fit)
        answers = torch.from_numpy(model.predict(given[samples.test]))
        rows[name] = answer_scores(answers, samples) | space_scores(unit, samples) | {"CPU s": seconds}
        if name != "RidgeClassifierCV":
            scores = torch.from_numpy(model.decision_function(given))
            classes = ClassNodes(torch.from_numpy(model.classes_), samples.taxonomy)
            calibrator = fit_calibrator(
                scores[samples.val], samples.nodes[samples.val], classes, "temperature"
            )
            points = posterior_embeddings(
                calibrator(scores, classes).exp(), classes.nodes, samples.taxonomy, tree=0.5
            )
            rows[f"{name} + posterior"] = answer_scores(answers, samples) | space_scores(points, samples)


def of_ridge(samples: Samples, rows: dict[str, Row], seed: int) -> None:
    """The rows of the ridge head, which needs no validation samples and so learns from them, too."""
    learned = torch.cat([samples.train, samples.val]).sort().values

    def solve(given: Samples) -> TreeRidge:
        known = torch.cat([given.train, given.val])
        return fit_tree_ridge(*given.part(known), given.taxonomy)[0]

    head, seconds = timed(lambda: solve(samples))
    answers = answer_scores(head.predict(samples.vectors[samples.test]), samples)
    seen = dataclasses.replace(samples, train=learned)

    def row(points: Callable[[TreeRidge], Tensor]) -> Row:
        unseen = unseen_score(lambda given: points(solve(given)), samples, seed)
        return answers | space_scores(points(head), seen) | {"unseen": unseen}

    every = samples.vectors
    rows["tree-ridge"] = row(lambda h: h.posterior_embeddings(every)) | {"CPU s": seconds}
    rows["tree-ridge, tree 0"] = row(lambda h: h.posterior_embeddings(every, tree=0.0))
    rows["tree-ridge, tree 1"] = row(lambda h: h.posterior_embeddings(every, tree=1.0))
    rows["tree-ridge, a wrong tree"] = row(lambda h: wrong_space(h, every, seed))
    rows["tree-ridge, classes alone"] = row(lambda h: h.posterior_embeddings(every, instance=0.0))
    rows["tree-ridge, linear"] = row(lambda h: h.embed(every))


def wrong_space(head: TreeRidge, vectors: Tensor, seed: int) -> Tensor:
    """The posterior space of a head with the classes permuted on the tree."""
    likeness = class_similarity(head.classes, head.taxonomy, head.similarity, head.tree)
    order = torch.randperm(len(likeness), generator=torch.Generator().manual_seed(seed))
    points = torch.linalg.cholesky(likeness[order][:, order])
    linear = unit_vectors(head.outputs(vectors) @ (points - points.mean(0)))
    beside = torch.cat([linear, unit_vectors(vectors)], 1) * (head.instance / 2) ** 0.5
    return torch.cat([head.probabilities(vectors) @ points, beside], 1)


def of_objectives(samples: Samples, rows: dict[str, Row], work: Path, seed: int) -> None:
    """The rows of the objectives, trained on the vectors as `labeltree train` does by default."""
    split = np.full(len(samples.nodes), "", "<U5")
    for name in ("train", "val", "test"):
        split[getattr(samples, name)] = name
    known = split != ""
    names = np.array([samples.taxonomy.path_name(node) for node in samples.nodes[known].tolist()])
    data = work / "features.npz"
    np.savez(data, vectors=samples.vectors[known].float().numpy(), label=names, split=split[known])
    samples.taxonomy.save(work / "taxonomy.json")
    for name in OBJECTIVES:
        out = work / name
        shutil.rmtree(out, ignore_errors=True)
        _, seconds = timed(
            lambda name=name, out=out: lt.train(
                data, out=out, objective=name, seed=seed, taxonomy=work / "taxonomy.json", progress_bar=False
            )
        )
        loaded, tables = run_tables(out, ("trained",))
        table = tables["trained"]
        answers = classify(run_classifiers(loaded).scores(), table)
        place = torch.full((len(split),), -1)
        place[torch.from_numpy(np.flatnonzero(known))] = torch.arange(len(table))
        points = torch.zeros(len(split), table.embeddings.shape[1])
        points[torch.from_numpy(np.flatnonzero(known))] = table.embeddings
        rows[name] = answer_scores(answers[place[samples.test]], samples) | space_scores(points, samples)
        rows[name]["CPU s"] = seconds


def curve(samples: Samples, seed: int) -> dict[str, list[float]]:
    """Top-1 by the number of training samples of each class; NaN where too few classes have so many."""
    results: dict[str, list[float]] = {"tree-ridge": [], "LogisticRegression": [], "LDA": [], "means": []}
    every = torch.cat([samples.train, samples.val])
    every = every[torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))]
    truth = samples.nodes[samples.test]
    unit = unit_vectors(samples.vectors)
    for count in CURVE:
        chosen = torch.cat(
            [every[samples.nodes[every] == node][:count] for node in samples.nodes[every].unique()]
        )
        counts = torch.bincount(samples.nodes[every])
        if float((counts[counts > 0] >= count).double().mean()) < 0.5:
            for row in results.values():
                row.append(float("nan"))
            continue
        x, y = samples.vectors[chosen], samples.nodes[chosen]
        head, _ = fit_tree_ridge(x, y, samples.taxonomy, folds=min(5, count))
        logistic = LogisticRegression(C=100, max_iter=2000).fit(unit[chosen], y)
        found, weight, bias = fit_discriminants(x, y)
        classes = y.unique()
        means = unit_vectors(torch.stack([unit[chosen][y == node].mean(0) for node in classes]))
        for name, answers in (
            ("tree-ridge", head.predict(samples.vectors[samples.test])),
            ("LogisticRegression", torch.from_numpy(logistic.predict(unit[samples.test]))),
            ("LDA", found[(samples.vectors[samples.test] @ weight + bias).argmax(1)]),
            ("means", classes[(unit[samples.test] @ means.T).argmax(1)]),
        ):
            results[name].append(float((answers == truth).double().mean()))
    return results


def written(values: list[float], digits: int = 3) -> str:
    known = [value for value in values if value == value]
    if not known:
        return "–"
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{spread}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--without-training", action="store_true", help="leave the objectives out")
    parser.add_argument("--out", type=Path, help="JSON of the results")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    table: dict[str, list[Row]] = {}
    curves: dict[str, list[list[float]]] = {}
    for seed in options.seeds:
        samples = read(options.run, seed)
        rows: dict[str, Row] = {}
        of_sklearn(samples, rows, seed)
        of_ridge(samples, rows, seed)
        if not options.without_training:
            of_objectives(samples, rows, options.work, seed)
        for name, row in rows.items():
            table.setdefault(name, []).append(row)
        for name, values in curve(samples, seed).items():
            curves.setdefault(name, []).append(values)
    print(
        f"{len(samples.train)} + {len(samples.val)} + {len(samples.test)} samples, {len(options.seeds)} seeds"
    )
    print(f"{'':27}" + "".join(f"{name:>18}" for name in COLUMNS))
    for name, found in table.items():
        cells = [written([row[c] for row in found if c in row], 1 if c == "CPU s" else 3) for c in COLUMNS]
        print(f"{name:27}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"\ntop-1 with {', '.join(map(str, CURVE))} samples a class")
    for name, values in curves.items():
        print(f"{name:27}" + "".join(f"{written(list(each)):>18}" for each in zip(*values, strict=True)))
    if options.out is not None:
        options.out.write_text(json.dumps({"rows": table, "curves": curves}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
