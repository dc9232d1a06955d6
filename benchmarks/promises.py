"""What it costs a promise that its samples have been used before: coverage with reused and fresh samples.

    python benchmarks/promises.py --sizes 40 100 400 --draws 600

Each draw makes a small training set of a tree of nine classes, candidates to choose from, n validation
samples and a test set. The candidate that is right for most validation samples answers. Its thresholds come
either from the validation samples (as without ``--calib``), or from as many fresh samples (as with it); the
promise is 0.9. Printed are the mean coverages over draws and their difference, with standard errors, and the
coverage expected of m exchangeable samples, ⌈(m+1)·0.9⌉/(m+1).

    epochs        31 snapshots of a linear classifier in training, the class means, and least squares
    equals        200 classifiers, each of a random half of the features: a bad case of a choice
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction

import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, Promise, fit_rule, holds_truth
from labeltree.taxonomy import Taxonomy

DIM, PER_CLASS, TESTED = 24, 8, 4000
TREE = Taxonomy.from_paths([(f"branch {a}", f"class {a}{b}") for a in range(3) for b in range(3)])


def drawn(count: int, centres: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features (n, d) and class numbers (n,) of samples."""
    classes = torch.randint(len(centres), (count,), generator=draw)
    return centres[classes] + torch.randn(count, DIM, generator=draw), classes


def epochs(x: Tensor, y: Tensor, draw: torch.Generator) -> Tensor:
    """Weights (k, d + 1, C) of a linear classifier in training, class means and least squares."""
    x = torch.cat([x, torch.ones(len(x), 1)], 1)
    truth = torch.nn.functional.one_hot(y, len(TREE.leaves)).float()
    weights, found = torch.zeros(x.shape[1], truth.shape[1]), []
    for _ in range(31):
        for rows in torch.randperm(len(x), generator=draw).split(8):
            slope = x[rows].T @ (torch.softmax(x[rows] @ weights, 1) - truth[rows]) / len(rows)
            weights = weights - 0.3 * slope
        found.append(weights)
    means = truth.T @ x / truth.sum(0)[:, None].clamp_min(1)
    means[:, -1] = -0.5 * means[:, :-1].square().sum(1)
    return torch.stack([*found, means.T, torch.linalg.lstsq(x, truth, driver="gelsd").solution * 4])


def equals(x: Tensor, y: Tensor, draw: torch.Generator) -> Tensor:
    """Weights of class means, each of a random half of the features."""
    means = torch.stack([x[y == kind].mean(0) for kind in range(len(TREE.leaves))])
    found = []
    for _ in range(200):
        kept = torch.zeros(DIM)
        kept[torch.randperm(DIM, generator=draw)[: DIM // 2]] = 1
        found.append(torch.cat([(means * kept).T, -0.5 * (means * kept).square().sum(1)[None]]))
    return torch.stack(found)


def one_draw(candidates: str, n: int, seed: int) -> tuple[float, float, float, int]:
    """Coverage with reused and with fresh samples, the accuracy chosen by less the true one, and m."""
    draw = torch.Generator().manual_seed(seed)
    branches = torch.randn(3, DIM, generator=draw).repeat_interleave(3, 0) * 0.6
    centres = branches + torch.randn(9, DIM, generator=draw) * 0.45
    x = torch.cat([centres[k] + torch.randn(PER_CLASS, DIM, generator=draw) for k in range(9)])
    weights = {"epochs": epochs, "equals": equals}[candidates](
        x, torch.arange(9).repeat_interleave(PER_CLASS), draw
    )
    held, fresh, test = (drawn(count, centres, draw) for count in (n, n, TESTED))

    def scores(of: Tensor, which: Tensor) -> Tensor:
        return torch.cat([of, torch.ones(len(of), 1)], 1) @ which

    right = torch.stack([(scores(held[0], each).argmax(1) == held[1]).float().mean() for each in weights])
    chosen = weights[int(right.argmax())]
    classes = ClassNodes(TREE.leaves, TREE)
    found, m = [], 0
    truth = scores(test[0], chosen)
    for thresholds in (held, fresh):
        both = [torch.cat([a, b]) for a, b in zip(held, thresholds, strict=True)]
        rule = fit_rule(scores(held[0], chosen), TREE.leaves[held[1]], classes, seed=seed)
        if thresholds is fresh:  # as many samples as without them
            m = len(rule.fitted)
            marks = torch.arange(2 * n) < n
            rule = fit_rule(
                scores(both[0], chosen)[: n + m],
                TREE.leaves[both[1]][: n + m],
                classes,
                for_probabilities=marks[: n + m],
                seed=seed,
            )
        answers = rule.answer(truth, Promise(0.9), top=1).nodes
        found.append(float(holds_truth(answers, TREE.leaves[test[1]], TREE).double().mean()))
    gap = float(right.max()) - float((truth.argmax(1) == test[1]).float().mean())
    return found[0], found[1], gap, m


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 100, 400])
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for candidates in ("epochs", "equals"):
        for n in options.sizes:
            rows = torch.tensor([one_draw(candidates, n, seed) for seed in range(options.draws)]).double()
            reused, fresh, gap, count = rows.unbind(1)
            error = [float(each.std() / math.sqrt(len(rows))) for each in (reused, fresh, reused - fresh)]
            m = int(count.median())
            expected = float(Fraction(math.ceil(Fraction(9, 10) * (m + 1)), m + 1))
            print(
                f"{candidates}, n = {n} (thresholds of {m}, expected {expected:.3f}): "
                f"reused {reused.mean():.3f} ± {error[0]:.3f}, fresh {fresh.mean():.3f} ± {error[1]:.3f}, "
                f"difference {(reused - fresh).mean():+.4f} ± {error[2]:.4f}; validation accuracy "
                f"too high by {gap.mean():.3f}",
                flush=True,
            )
