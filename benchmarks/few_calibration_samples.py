"""What one temperature does for a classifier that is calibrated on few samples: log loss, and its answers.

    python benchmarks/few_calibration_samples.py --draws 20

Each draw makes Gaussian classes on a tree of six leaves, trains a linear discriminant analysis (or the
classifier that validation chooses) on n samples and calibrates it on m others, without a calibration and with
`soften_few`. Printed are means over draws, on 600 new samples: accuracy, log loss, the coverage of answers
that were promised 0.9, the share of the uncertainty that they remove, and the share that are withheld.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Literal

import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, Promise, fit_rule, holds_truth
from labeltree.decisions.answers import information
from labeltree.decisions.classifiers import fit_classifiers
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(branch, branch + leaf) for branch in "xyz" for leaf in "12"])
TESTED = 600
WAYS: tuple[Literal["none", "temperature"], ...] = ("none", "temperature")


def measure_draw(
    learned: int, held: int, dim: int, apart: float, seed: int, asked: Literal["lda", "auto"]
) -> dict[str, Tensor]:
    """The five numbers of each way to calibrate."""
    draw = torch.Generator().manual_seed(seed)
    branches = torch.randn(3, dim, generator=draw).repeat_interleave(2, 0)
    means = (branches + torch.randn(6, dim, generator=draw)) * apart / math.sqrt(dim)
    classes = torch.randint(6, (learned + held + TESTED,), generator=draw)
    points, nodes = means[classes] + torch.randn(len(classes), dim, generator=draw), TREE.leaves[classes]
    table = EmbeddingTable(points, nodes, features=points)
    rows = torch.arange(len(nodes))
    known = fit_classifiers(
        table, TREE, learned=rows[:learned], held=rows[learned : learned + held], asked=asked
    )
    scorer = known.scores()
    scores, judged = scorer(table), ClassNodes(scorer.classes, TREE)
    mine, new = slice(learned, learned + held), slice(learned + held, None)
    place = judged.place[nodes[new]]
    numbers = {}
    for way in WAYS:
        rule = fit_rule(scores[mine], nodes[mine], judged, calibration=way)
        p = rule.probabilities(scores[new])
        answers = rule.answer(scores[new], Promise(0.9), top=0).nodes
        loss = -p[place >= 0].gather(1, place[place >= 0][:, None]).clamp(min=1e-300).log().mean()
        right = scorer.classes[p.argmax(1)] == nodes[new]
        holds = holds_truth(answers, nodes[new], TREE)
        told = information(answers, TREE)
        columns = (right, holds, told, answers == 0)
        accuracy, coverage, worth, withheld = (float(column.double().mean()) for column in columns)
        numbers[way] = torch.tensor([accuracy, float(loss), coverage, worth, withheld])
    return numbers


def main() -> None:
    """Print a line for each size, number of dimensions and distance of the classes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--asked", choices=("lda", "auto"), default="lda")
    parser.add_argument("--sizes", nargs="*", default=["15,10", "30,20", "60,29"], help="learned,calibrated")
    parser.add_argument("--dims", nargs="*", type=int, default=[64, 256, 1000])
    parser.add_argument("--apart", nargs="*", type=float, default=[3.0, 6.0, 12.0])
    given = parser.parse_args()
    columns = (
        "learned, calibrated | dims | apart | calibration | accuracy | log loss | coverage | information"
    )
    print(f"| {columns} | withheld |\n|---|---:|---:|---|---:|---:|---:|---:|---:|")
    for size in given.sizes:
        learned, held = map(int, size.split(","))
        for dim in given.dims:
            for apart in given.apart:
                sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros(5))
                for seed in range(given.draws):
                    for way, numbers in measure_draw(learned, held, dim, apart, seed, given.asked).items():
                        sums[way] += numbers / given.draws
                for way, numbers in sums.items():
                    shown = " | ".join(f"{number:.2f}" for number in numbers.tolist())
                    print(f"| {size} | {dim} | {apart:g} | {way} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
