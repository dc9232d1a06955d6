"""The ridge head with its penalty and calibration by folds, beside what scikit-learn takes.

    python benchmarks/ridge.py [--short] [--nonlinear 2048 4096]

10,000 vectors of 1,280 dimensions in 100 classes. CPU seconds of one thread, medians of three rounds in turn
for the first two rows, one round for the others. RidgeClassifierCV tries as many penalties as the ridge head,
by leaving one out and by five folds; LogisticRegressionCV three, by five folds. With --nonlinear the ridge
head on that many random Fourier features instead of scikit-learn's, one round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV
from threadpoolctl import threadpool_limits

from labeltree.ridge import fit_tree_ridge
from labeltree.ridge.fitting import PENALTIES
from labeltree.taxonomy import Taxonomy


def main() -> None:
    """Print CPU seconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="2,000 vectors of 256 dimensions")
    parser.add_argument("--nonlinear", type=int, nargs="+", default=[], help="numbers of Fourier features")
    options = parser.parse_args()
    short = options.short
    n, d, classes = (2_000, 256, 20) if short else (10_000, 1_280, 100)
    tree = Taxonomy.from_paths([(f"{i // 20}", f"{i // 5}", f"{i}") for i in range(classes)])
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, classes, n)
    vectors = (0.25 * rng.standard_normal((classes, d))[chosen] + rng.standard_normal((n, d))).astype(
        np.float32
    )
    nodes = tree.leaves[torch.from_numpy(chosen)]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    given, double = torch.from_numpy(vectors), unit.astype(np.float64)
    runs: dict[str, Callable[[], object]] = {
        "ridge head": lambda: fit_tree_ridge(given, nodes, tree),
        "RidgeClassifierCV, leaving one out": lambda: RidgeClassifierCV(alphas=PENALTIES).fit(double, chosen),
    }
    once: dict[str, Callable[[], object]] = {
        "RidgeClassifierCV, five folds": lambda: RidgeClassifierCV(alphas=PENALTIES, cv=5).fit(
            double, chosen
        ),
        "LogisticRegressionCV, five folds": lambda: LogisticRegressionCV(
            Cs=[1.0, 10.0, 100.0], cv=5, l1_ratios=(0.0,), use_legacy_attributes=False
        ).fit(unit, chosen),
    }
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for count in (0, *options.nonlinear) if options.nonlinear else ():
            cost = seconds(lambda count=count: fit_tree_ridge(given, nodes, tree, nonlinear=count))
            print(f"ridge head, {count:,} Fourier features {cost:7.1f} CPU s", flush=True)
        if options.nonlinear:
            return
        rounds = [{name: seconds(run) for name, run in runs.items()} for _ in range(3)]
        taken = {name: median(each[name] for each in rounds) for name in runs}
        print(f"ridge head: λ, folds, calibration {taken['ridge head']:7.1f} CPU s", flush=True)
        for name in [*[*runs][1:], *once]:
            other = taken[name] if name in taken else seconds(once[name])
            ratio = taken["ridge head"] / other
            print(f"{name:34s}{other:7.1f} CPU s, ratio {ratio:.2f}", flush=True)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the process."""
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
