"""Random Fourier features before the ridge head: what they are worth, and whether folds know it.

    python benchmarks/nonlinear.py RUN [RUN …] [--features 0 1024 2048 4096]
    python benchmarks/nonlinear.py intents letters --confirmation FOLDER [--split 0]

RUN is a run folder with a table of features, as `benchmarks/frozen_heads.py` takes it; with --confirmation it
is a set of docs/confirmation.md, and FOLDER its work folder. Heads learn from all samples that are not test
samples, with the defaults of `labeltree train`. Rows: the linear head (0 features), and heads of that many
Fourier features. *folds* is the log loss that folds of the training samples measure, and *gain* how much
lower it is than that of the linear head, ± its standard error: `auto` compares 4,096 features by it.
Retrieval is among the test samples. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from confirmation import read_split
from frozen_heads import Samples, answer_scores, read, space_scores
from labeltree.ridge import FoldOutputs, TreeRidge, fit_tree_ridge


def test_log_loss(head: TreeRidge, samples: Samples) -> float:
    """The mean log loss of the test samples labelled at a class that the head answers."""
    vectors, nodes = samples.part(samples.test)
    at = torch.searchsorted(head.classes, nodes).clamp_max(len(head.classes) - 1)
    known = head.classes[at] == nodes
    logs = head.log_probabilities(vectors)[known]
    return -float(logs.gather(1, at[known][:, None]).mean())


def gain(linear: FoldOutputs, other: FoldOutputs) -> str:
    """How much lower the log loss of the folds is, ± its standard error."""
    gains = (linear.losses - other.losses)[~linear.losses.isnan()]
    return f"{float(gains.mean()):+.3f} ± {float(gains.std() / len(gains) ** 0.5):.3f}"


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--features", type=int, nargs="+", default=[0, 1024, 2048, 4096])
    parser.add_argument("--confirmation", type=Path, help="work folder of benchmarks/confirmation.py")
    parser.add_argument("--split", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.sets:
        with threadpool_limits(1):
            report(name, options)


def report(name: str, options: argparse.Namespace) -> None:
    """Print the table of a set."""
    work = options.confirmation
    samples = read(Path(name), options.split) if work is None else read_split(work, name, options.split)
    learned = torch.cat([samples.train, samples.val]).sort().values
    samples.train = learned
    vectors, nodes = samples.part(learned)
    print(f"\n{name}: {len(learned)} + {len(samples.test)} samples of {vectors.shape[1]} numbers\n")
    print("| Fourier features | λ | top-1 | HF1 | log loss | MAP@R | AHP | folds | gain | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    linear: FoldOutputs | None = None
    for count in options.features:
        before = time.process_time()
        head, seen = fit_tree_ridge(vectors, nodes, samples.taxonomy, nonlinear=count)
        seconds = time.process_time() - before
        linear = linear or seen
        row = answer_scores(head.predict(samples.vectors[samples.test]), samples)
        row |= space_scores(head.posterior_embeddings(samples.vectors), samples)
        print(
            f"| {count:,} | {head.penalty:.3g} | {row['top1']:.3f} | {row['hierarchical_f1']:.3f} | "
            f"{test_log_loss(head, samples):.3f} | {row['map_at_r']:.3f} | {row['ahp']:.3f} | "
            f"{seen.log_loss:.3f} | {gain(linear, seen) if count else ''} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
