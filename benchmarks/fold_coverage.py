"""How often answers of the ridge head hold the truth where its folds say that they do, and how certain it is.

    python benchmarks/fold_coverage.py [--repetitions 60]
    python benchmarks/fold_coverage.py --split [--repetitions 60]

Twelve classes below two branches and six families, in 16 dimensions, with 60, 150 or 500 training samples and
noise of three sizes: balanced, in groups of four or so with a class each, long-tailed (the k-th class has 1/k
of the samples of the first), and with 30 % of the labels at families or branches. Each row, of 2,000 new
samples over the repetitions: the accuracy and the mean probability of the most probable class; the log loss,
and that of one scale without slopes and offsets of the classes; the coverage, and its standard error, where
80 and 90 % are asked for.

With `--split`, what folds of all samples say of the top-1 accuracy, beside a test split of 30 %: by the
protocol `folds`, drawn once and three times, and by the usual evaluation. The accuracy of the head (of all
samples; of 70 %) on 4,000 new samples; the width of the 95 % interval; the root mean square of what is said
minus this accuracy; how often the interval holds it. Balanced, and in groups of four or so.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch

from labeltree.data.stratified import make_folds
from labeltree.decisions.answers import holds_truth
from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.ridge import fit_tree_ridge
from labeltree.runs import EmbeddingTable
from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(f"branch {i // 6}", f"family {i // 2}", f"class {i}") for i in range(12)])
COVERAGES = (0.8, 0.9)
World = Literal["balanced", "groups", "long tail", "coarse"]


def measures(world: World, count: int, noise: float, repetition: int) -> list[float]:
    """Accuracy, mean top probability, two log losses and the coverage for each that is asked for."""
    rng = np.random.default_rng([count, int(10 * noise), repetition])
    centres = rng.standard_normal((12, 16))
    shares = 1 / np.arange(1, 13) if world == "long tail" else np.ones(12)
    shares /= shares.sum()
    groups = rng.integers(0, count // 4, count) if world == "groups" else np.arange(count)
    classes = rng.choice(12, groups.max() + 1, p=shares)[groups]
    shared = rng.standard_normal((groups.max() + 1, 16))[groups]
    own = rng.standard_normal((count, 16))
    vectors = centres[classes] + noise * (0.8 * shared + 0.6 * own)
    labels = TREE.leaves[torch.from_numpy(classes)]
    if world == "coarse":
        coarse = torch.from_numpy(rng.random(count) < 0.3)
        depth = torch.from_numpy(rng.integers(1, 3, count))
        labels = torch.where(coarse, TREE.ancestors[labels, depth], labels)
    model = TaxonomyClassifier(TREE, tree=0.5, instance=0.0).fit(vectors, labels.numpy(), groups=groups)
    new = rng.choice(12, 2000, p=shares)
    unseen = centres[new] + noise * rng.standard_normal((2000, 16))
    truth = TREE.leaves[torch.from_numpy(new)]
    probabilities = model.predict_proba(unseen)
    answers = [torch.from_numpy(model.predict_nodes(unseen, asked)) for asked in COVERAGES]
    return [
        float(np.mean(model.predict(unseen) == truth.numpy())),
        float(probabilities.max(1).mean()),
        *log_losses(model, torch.from_numpy(unseen), truth),
        *(float(holds_truth(each, truth, TREE).double().mean()) for each in answers),
    ]


def log_losses(model: TaxonomyClassifier, vectors: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """Of the probabilities, and of those by one scale; of samples whose class was seen in training."""
    head = model.head_
    seen = torch.isin(truth, head.classes)
    columns = torch.searchsorted(head.classes, truth[seen])
    logits = head.log_probabilities(vectors[seen]), head.scale * head.outputs(vectors[seen])
    calibrated, scaled = (float(torch.nn.functional.cross_entropy(each, columns)) for each in logits)
    return calibrated, scaled


def said_of_top1(world: World, count: int, noise: float, repetition: int) -> list[list[float]]:
    """By folds drawn once, by folds drawn three times, by a split: what is said, its ends, what is right."""
    draw = np.random.default_rng([count, int(10 * noise), repetition, 1])
    centres = draw.standard_normal((12, 16))
    groups = draw.integers(0, count // 4, count) if world == "groups" else np.arange(count)
    vectors, classes = _draw(draw, centres, groups, noise)
    new, truth = _draw(draw, centres, np.arange(4000), noise)
    nodes, codes = TREE.leaves[classes], torch.from_numpy(groups)

    def right(rows: torch.Tensor) -> float:
        head, _ = fit_tree_ridge(vectors[rows], nodes[rows], TREE, groups=codes[rows])
        return float((head.predict(new) == TREE.leaves[truth]).double().mean())

    every = torch.arange(count)
    tested = make_folds(nodes, TREE, 10, groups=codes, seed=repetition) < 3
    table = EmbeddingTable(vectors.float(), nodes, groups=codes if world == "groups" else None)
    rows = []
    for repeats in (1, 3):
        settings = EvaluationSettings(options={"folds": {"repeats": repeats}}, resamples=400)
        result = evaluate(table, TREE, protocols=["folds"], settings=settings).main.protocols["folds"]
        ends = result.intervals.get("top1", (math.nan, math.nan))
        rows.append([result.scores["top1"], *ends, right(every)])
    head, _ = fit_tree_ridge(vectors[~tested], nodes[~tested], TREE, groups=codes[~tested])
    of_split = replace(
        table, split=np.where(tested.numpy(), "test", "train"), predictions=head.predict(vectors)
    )
    main = evaluate(of_split, TREE, settings=EvaluationSettings(classifier="own", resamples=400)).main
    rows.append([main.answer_score("top1"), *main.answer_interval("top1"), right(every[~tested])])
    return rows


def _draw(
    draw: np.random.Generator, centres: np.ndarray, groups: np.ndarray, noise: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors and classes of samples, those of a group with one class and much in common."""
    classes = draw.integers(0, 12, groups.max() + 1)[groups]
    shared = draw.standard_normal((groups.max() + 1, 16))[groups]
    mixed = 0.8 * shared + 0.6 * draw.standard_normal((len(groups), 16))
    return torch.from_numpy(centres[classes] + noise * mixed), torch.from_numpy(classes)


def print_splits(repetitions: int) -> None:
    """Print one row for each world, number of samples and way."""
    print("| world | samples | by | top-1 | error | width of the interval | it holds |\n" + "|---" * 7 + "|")
    for world in ("balanced", "groups"):
        for count in (50, 100, 200, 500):
            values = np.array([said_of_top1(world, count, 1.5, each) for each in range(repetitions)])
            for name, (said, low, high, truth) in zip(
                ("folds, once", "folds, three times", "split, 30 %"), values.transpose(1, 2, 0), strict=True
            ):
                known = ~np.isnan(low)  # not of fewer than six groups
                holds = ((low <= truth) & (truth <= high))[known]
                ends = f"{(high - low)[known].mean():.3f} | {holds.mean():.2f}" if known.any() else "– | –"
                error = np.sqrt(np.mean((said - truth) ** 2))
                print(
                    f"| {world} | {count} | {name} | {truth.mean():.3f} | {error:.3f} | {ends} |", flush=True
                )


def main() -> None:
    """Print one row for each world."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--split", action="store_true", help="folds beside a split of 30 %%")
    asked = parser.parse_args()
    count = asked.repetitions
    if asked.split:
        print_splits(count)
        return
    print("world      samples  noise   accuracy  top     loss   one scale  80 %            90 %")
    for world in get_args(World):
        for samples in (60, 150, 500):
            for noise in (0.7, 1.5, 3.0):
                rows = np.array([measures(world, samples, noise, number) for number in range(count)])
                mean, error = rows.mean(0), rows.std(0, ddof=1) / np.sqrt(count)
                cells = "   ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[4:], error[4:], strict=True))
                print(
                    f"{world:<9}  {samples:>7}  {noise:>5}   {mean[0]:.3f}     {mean[1]:.3f}   "
                    f"{mean[2]:.3f}  {mean[3]:.3f}      {cells}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
