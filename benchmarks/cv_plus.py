"""How often the answers of CV+ hold the truth, beside what is guaranteed; and folds of labels at random.

    OPENBLAS_NUM_THREADS=1 python benchmarks/cv_plus.py [--draws 1000] [--samples 40 100 300] [--folds 5 10]
        [--penalty 1]
    OPENBLAS_NUM_THREADS=1 python benchmarks/cv_plus.py --permuted [--draws 200]

Eight classes below two branches and four families, in eight dimensions. A draw is a training set and 100 new
samples, each of a new group; λ and scale of each head are chosen without its fold. Worlds:
balanced; long tail (the k-th class has 1/k of the samples of the first); and both in groups of one to seven
samples with a class each and much else in common, with `--samples` groups. A row: the share of new samples
whose label is in the label set and whose answer holds the truth, each with its standard error over the draws,
the mean depth of the answers (of 3), the share of answers that are the root, and what is guaranteed.

Permuted labels say nothing: whatever the folds give for them beyond chance is flattery. Chance is that of the
same samples in random order within each held-out fold, and for answers 1 over the number of classes.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from labeltree.decisions.answers import holds_truth
from labeltree.metrics.functional import map_at_r, recall_at_k
from labeltree.ridge import Moments, TreeRidge, fit_cv_plus, fit_tree_ridge
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(f"branch {i // 4}", f"family {i // 2}", f"class {i}") for i in range(8)])
WORLDS = ("balanced", "long tail", "groups", "groups, tail")
COVERAGES = (0.9, 0.8)
NEW = 100


def draw(world: str, units: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
    """Vectors, labels and groups of training and new samples; of each group after the training one sample."""
    grouped = world.startswith("groups")
    sizes = np.r_[
        rng.integers(1, 8, units) if grouped else np.ones(units, dtype=int), np.ones(NEW, dtype=int)
    ]
    groups = np.arange(units + NEW).repeat(sizes)
    shares = 1 / np.arange(1, 9) if "tail" in world else np.ones(8)
    classes = rng.choice(8, units + NEW, p=shares / shares.sum())[groups]
    centres = np.random.default_rng(0).standard_normal((8, 8))
    shared = rng.standard_normal((units + NEW, 8))[groups]
    noise = 0.8 * shared + 0.6 * rng.standard_normal((len(groups), 8))
    vectors = torch.from_numpy(centres[classes] + 1.4 * noise)
    return vectors, TREE.leaves[torch.from_numpy(classes)], torch.from_numpy(groups)


def measures(
    world: str, units: int, folds: int, number: int, penalty: float | None = None
) -> list[list[float]]:
    """Of each coverage: the set's, the node's, depth, share of roots, what is guaranteed."""
    vectors, nodes, groups = draw(world, units, np.random.default_rng([units, number]))
    known, new, truth = groups < units, vectors[-NEW:], nodes[-NEW:]
    head = TreeRidge.of(Moments.of(vectors[known], nodes[known]), TREE, penalty=1.0, scale=1.0)
    cv = fit_cv_plus(
        vectors[known], nodes[known], head, groups=groups[known], penalty=penalty, folds=folds, seed=number
    )
    rows = []
    for coverage in COVERAGES:
        sets = cv.label_sets(new, coverage)
        inside = sets[torch.arange(NEW), torch.searchsorted(cv.labels, truth)]
        answers = cv.covering_nodes(sets)
        values = inside, holds_truth(answers, truth, TREE), TREE.depth[answers], answers == 0
        rows.append([float(each.double().mean()) for each in values] + [cv.guaranteed_coverage(coverage)])
    return rows


def print_coverage(draws: int, samples: list[int], folds: list[int], penalty: float | None) -> None:
    """Print a row for each world, number of units, number of folds and coverage."""
    print(
        "| world | n | K | draws | asked | set | answer | depth | root | guaranteed |\n" + "|---" * 10 + "|"
    )
    for world in WORLDS:
        for units in samples:
            for count in folds:
                values = np.array([measures(world, units, count, each, penalty) for each in range(draws)])
                mean, error = values.mean(0), values.std(0, ddof=1) / np.sqrt(draws)
                for place, coverage in enumerate(COVERAGES):
                    m, e = mean[place], error[place]
                    print(
                        f"| {world} | {units} | {count} | {draws} | {coverage} | {m[0]:.3f} ± {e[0]:.3f} | "
                        f"{m[1]:.3f} ± {e[1]:.3f} | {m[2]:.2f} | {m[3]:.2f} | {m[4]:.3f} |",
                        flush=True,
                    )


def excess(count: int, classes: int, chosen: bool, number: int) -> list[float]:
    """Top-1, recall@1 and MAP@R of the folds beyond chance, for labels that say nothing."""
    rng = np.random.default_rng([count, classes, number])
    tree = Taxonomy.from_paths([(f"family {k // 2}", f"species {k}") for k in range(classes)])
    vectors = torch.from_numpy(rng.standard_normal((count, 20)))
    nodes = tree.leaves[torch.from_numpy(rng.permutation(np.arange(count) % classes))]
    given = {} if chosen else {"penalty": 1.0}
    head, seen = fit_tree_ridge(vectors, nodes, tree, seed=number, **given)
    answers = seen.classes[seen.probabilities.argmax(1)]
    points = head.place(seen.outputs, seen.probabilities, vectors)
    recalls, precisions = [], []
    for fold in seen.folds.unique():
        rows = (seen.folds == fold).nonzero()[:, 0]
        z = points[rows].float()
        relevant = (nodes[rows] == nodes[rows, None]).sum(1) - 1
        others = len(rows) - 1
        recall = recall_at_k(z, nodes[rows], ks=(1,), reduction="none")[1]
        recalls.append(recall.double() - relevant / others)
        precision = map_at_r(z, nodes[rows], reduction="none").double()
        precisions.append(precision - torch.tensor([random_order(r, others) for r in relevant.tolist()]))
    return [
        float((answers == nodes).double().mean()) - 1 / classes,
        float(torch.cat(recalls).nanmean()),
        float(torch.cat(precisions).nanmean()),
    ]


def random_order(relevant: int, others: int) -> float:
    """The expected AP@R of results in random order: Σ_i (1 + (i − 1)(R − 1)/(N − 1))/i / N up to R."""
    again = (relevant - 1) / (others - 1)
    return sum((1 + (place - 1) * again) / place for place in range(1, relevant + 1)) / others


def print_permuted(draws: int) -> None:
    """Print a row for each number of samples and classes, with λ given and chosen."""
    print("| n | classes | λ | top-1 | recall@1 | MAP@R |\n" + "|---" * 6 + "|")
    for count in (50, 80, 500):
        for classes in (5, 12):
            for chosen in (False, True):
                values = np.array([excess(count, classes, chosen, number) for number in range(draws)])
                cells = " | ".join(
                    "–"  # no two samples of a class in a fold
                    if np.isnan(column).any()
                    else f"{column.mean():+.3f} ± {column.std(ddof=1) / np.sqrt(draws):.3f}"
                    for column in values.T
                )
                print(f"| {count} | {classes} | {'chosen' if chosen else 'given'} | {cells} |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--samples", type=int, nargs="+", default=[40, 100, 300])
    parser.add_argument("--folds", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--penalty", type=float, help="λ of all heads; by default each chooses its own")
    parser.add_argument("--permuted", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.permuted:
        print_permuted(asked.draws)
    else:
        print_coverage(asked.draws, asked.samples, asked.folds, asked.penalty)


if __name__ == "__main__":
    main()
