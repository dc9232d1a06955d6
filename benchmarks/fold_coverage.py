"""How often answers of the ridge head hold the truth where its folds say that they do.

    python benchmarks/fold_coverage.py [--repetitions 60]

Twelve classes below two branches and six families, in 16 dimensions, with 60, 150 or 500 training samples,
noise of three sizes, alone or in groups of four or so with a class each. Each row: the mean coverage of 2,000
new samples over the repetitions, and its standard error, where 80 and 90 % are asked for.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from labeltree.decisions.answers import holds_truth
from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(f"branch {i // 6}", f"family {i // 2}", f"class {i}") for i in range(12)])
COVERAGES = (0.8, 0.9)


def coverage(count: int, noise: float, grouped: bool, repetition: int) -> list[float]:
    """The coverage of new samples, of groups that were not seen, for each that is asked for."""
    rng = np.random.default_rng([count, int(10 * noise), repetition])
    centres = rng.standard_normal((12, 16))
    groups = rng.integers(0, count // 4, count) if grouped else np.arange(count)
    classes = rng.integers(0, 12, groups.max() + 1)[groups]
    shared = rng.standard_normal((groups.max() + 1, 16))[groups]
    own = rng.standard_normal((count, 16))
    vectors = centres[classes] + noise * (0.8 * shared + 0.6 * own)
    labels = TREE.leaves.numpy()[classes]
    model = TaxonomyClassifier(TREE, tree=0.5, instance=0.0).fit(vectors, labels, groups=groups)
    new = rng.integers(0, 12, 2000)
    unseen = centres[new] + noise * rng.standard_normal((2000, 16))
    truth = TREE.leaves[torch.from_numpy(new)]
    answers = [torch.from_numpy(model.predict_nodes(unseen, asked)) for asked in COVERAGES]
    return [float(holds_truth(each, truth, TREE).double().mean()) for each in answers]


def main() -> None:
    """Print one row for each world."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    count = parser.parse_args().repetitions
    print("samples  noise  groups   80 %            90 %")
    for samples in (60, 150, 500):
        for noise in (0.7, 1.5, 3.0):
            for grouped in (False, True):
                rows = np.array([coverage(samples, noise, grouped, number) for number in range(count)])
                mean, error = rows.mean(0), rows.std(0, ddof=1) / np.sqrt(count)
                cells = "   ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
                print(f"{samples:>7}  {noise:>5}  {'yes' if grouped else 'no':<6}   {cells}", flush=True)


if __name__ == "__main__":
    main()
