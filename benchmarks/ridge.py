"""The ridge head with all its settings chosen by folds, beside what scikit-learn takes.

    python benchmarks/ridge.py [--short]

10,000 vectors of 1,280 dimensions in 100 classes. CPU seconds of the whole process; RidgeClassifierCV tries
as many penalties as the ridge head, by leaving one out; LogisticRegressionCV three, by five folds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV

from labeltree.ridge import fit_tree_ridge
from labeltree.ridge.fitting import PENALTIES
from labeltree.taxonomy import Taxonomy


def main() -> None:
    """Print CPU seconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="2,000 vectors of 256 dimensions")
    short = parser.parse_args().short
    n, d, classes = (2_000, 256, 20) if short else (10_000, 1_280, 100)
    tree = Taxonomy.from_paths([(f"{i // 20}", f"{i // 5}", f"{i}") for i in range(classes)])
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, classes, n)
    vectors = (0.25 * rng.standard_normal((classes, d))[chosen] + rng.standard_normal((n, d))).astype(
        np.float32
    )
    nodes = tree.leaves[torch.from_numpy(chosen)]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def seconds(work: Callable[[], object]) -> float:
        before = time.process_time()
        work()
        return time.process_time() - before

    given = torch.from_numpy(vectors)
    ours = seconds(lambda: fit_tree_ridge(given, nodes, tree))
    print(f"ridge head: settings, folds, calibration      {ours:7.1f} CPU s")
    fixed = seconds(lambda: fit_tree_ridge(given, nodes, tree, tree=0.5, instance=0.0, similarity="depth"))
    print(f"  with the space given                        {fixed:7.1f} CPU s")
    ridge = seconds(lambda: RidgeClassifierCV(alphas=PENALTIES).fit(unit, chosen))
    print(f"RidgeClassifierCV                             {ridge:7.1f} CPU s, ratio {ours / ridge:.2f}")
    logistic = seconds(
        lambda: LogisticRegressionCV(
            Cs=[1.0, 10.0, 100.0], cv=5, l1_ratios=(0.0,), use_legacy_attributes=False
        ).fit(unit, chosen)
    )
    print(f"LogisticRegressionCV                          {logistic:7.1f} CPU s, ratio {ours / logistic:.2f}")


if __name__ == "__main__":
    main()
