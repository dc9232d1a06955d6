"""Names and samples: how many samples of a class until its name stops helping.

    python benchmarks/names.py RUN [RUN ...] [--encoder minilm] [--draws 3] [--out FILE]
    python benchmarks/names.py --diagnoses FILE.csv

The second writes 40 texts of each of 100 categories of ICD-10-CM, of which a run can be made: descriptions of
codes and inclusion terms below the category, not its own description, which is its name.

RUN is a run on texts under that encoder, pretrained and frozen, with the table that `labeltree embed RUN`
keeps there: its features are the vectors, and its test samples are judged. Every class is new in turn: a
draw takes k of its other samples (all, if it has fewer), and what a name is worth (m, and the shift from
names to means) is learned from the four fifths of the classes that it is not among, with all their samples.
Rows:

- *names*: the nearest prototype from names alone, without a shift, as `predict --zero-shot` answers;
- *means*: the nearest mean of k samples;
- *shrunk*: (m·name + k·mean) / (m + k); with k = 0 the shifted name;
- *no names*: the same with the mean of all classes for a name, m learned from it, too;
- *wrong names*: the same with the names permuted.

Top-1 and hierarchical F1, means and standard deviations over the draws, and m.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.data import open_source
from labeltree.decisions.prototypes_from_names import (
    NameEvidence,
    name_prototypes,
    shrink_to_means,
    weigh_names,
)
from labeltree.metrics.functional import hierarchical_f1
from labeltree.models.name_space import open_name_space
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy.name_texts import name_texts

COUNTS = (0, 1, 2, 5, 10, 20)
FOLDS = 5


def first_of_each(labels: Tensor, count: int, order: Tensor) -> Tensor:
    """The first `count` samples of each class in an order, as positions."""
    seen: dict[int, int] = {}
    kept = []
    for row in order.tolist():
        label = int(labels[row])
        if seen.get(label, 0) < count:
            seen[label] = seen.get(label, 0) + 1
            kept.append(row)
    return torch.tensor(kept, dtype=torch.int64)


def evidence_of_folds(names: Tensor, points: Tensor, labels: Tensor) -> list[tuple[Tensor, NameEvidence]]:
    """The classes of each fold, and what the other classes say of names."""
    folds = torch.randperm(len(names), generator=torch.Generator().manual_seed(0)) % FOLDS
    parts = []
    for fold in range(FOLDS):
        others = (folds != fold).nonzero()[:, 0]
        place = torch.full((len(names),), -1)
        place[others] = torch.arange(len(others))
        rows = place[labels] >= 0
        evidence = weigh_names(names[others], points[rows], place[labels[rows]])
        parts.append(((folds == fold).nonzero()[:, 0], evidence))
    return parts


def shrunk(names: Tensor, sums: Tensor, counts: Tensor, parts: list[tuple[Tensor, NameEvidence]]) -> Tensor:
    """The prototypes of all classes, each by the evidence of the others."""
    prototypes = torch.zeros_like(names)
    for rows, evidence in parts:
        prototypes[rows] = shrink_to_means(names[rows], sums[rows], counts[rows], evidence)
    return prototypes


def study(path: Path, encoder: str, draws: int) -> dict[str, Any]:
    """The table of a run."""
    folder = RunFolder(path)
    tree = folder.load_taxonomy()
    table = EmbeddingTable.load(folder.embeddings("trained"), tree)
    assert table.features is not None
    points = normalize(table.features.double(), dim=1)
    split = np.asarray(table.split)
    known = tree.is_leaf[table.nodes.clamp(min=0)] & (table.nodes > 0)
    learned = torch.from_numpy(np.isin(split, ("train", "val"))) & known
    test = torch.from_numpy(split == "test") & known
    classes = torch.unique(table.nodes[learned])
    place = torch.full((tree.num_nodes,), -1)
    place[classes] = torch.arange(len(classes))
    x, y = points[learned], place[table.nodes[learned]]
    queries, truth = points[test], table.nodes[test]

    space = open_name_space(encoder)
    names = name_prototypes(name_texts(tree, classes.tolist()), space.embed_texts)
    wrong = names[torch.randperm(len(names), generator=torch.Generator().manual_seed(1))]
    none = torch.zeros_like(names)
    right, nothing, false = (evidence_of_folds(each, x, y) for each in (names, none, wrong))

    def score(prototypes: Tensor, there: Tensor | None = None) -> tuple[float, float]:
        cosines = queries @ prototypes.T
        if there is not None:
            cosines[:, ~there] = -math.inf
        answers = classes[cosines.argmax(1)]
        return float((answers == truth).double().mean()), float(hierarchical_f1(answers, truth, tree))

    rows: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for count in COUNTS:
        for draw in range(draws if count else 1):
            order = torch.randperm(len(y), generator=torch.Generator().manual_seed(draw))
            some = first_of_each(y, count, order)
            sums = torch.zeros_like(names).index_add_(0, y[some], x[some])
            counts = torch.bincount(y[some], minlength=len(classes))
            every = {
                "names": score(names),
                "shrunk": score(shrunk(names, sums, counts, right)),
                "wrong names": score(shrunk(wrong, sums, counts, false)),
            }
            if count:
                every["means"] = score(normalize(sums, dim=1), counts > 0)
                every["no names"] = score(shrunk(none, sums, counts, nothing))
            for row, scores in every.items():
                rows.setdefault(row, {}).setdefault(count, []).append(scores)
    worth = {
        "names": [round(each.weight, 3) for _, each in right],
        "no names": [round(each.weight, 3) for _, each in nothing],
        "wrong names": [round(each.weight, 3) for _, each in false],
    }
    return {"classes": len(classes), "test": int(test.sum()), "m": worth, "rows": rows}


def show(name: str, result: dict[str, Any]) -> None:
    """Print the table of a run."""
    print(f"\n{name}: {result['classes']} classes, {result['test']:,} test samples, m {result['m']}\n")
    print("| " + " | ".join(["top-1 / hierarchical F1", *(f"{count}" for count in COUNTS)]) + " |")
    print("|---" * (len(COUNTS) + 1) + "|")
    for row in ("names", "means", "no names", "shrunk", "wrong names"):
        cells = []
        for count in COUNTS:
            draws = result["rows"][row].get(count, [])
            cells.append(" / ".join(_mean(values) for values in zip(*draws, strict=True)) or "–")
        print("| " + " | ".join([row, *cells]) + " |")


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 and len(set(values)) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def write_diagnoses(file: Path) -> None:
    """A table of texts of ICD-10-CM with the category of each."""
    depth, classes, each = 3, 100, 40
    source = open_source("icd-10-cm")
    tree, nodes = source.taxonomy, source.nodes.clamp_min(0)
    category = tree.ancestors[nodes, depth].numpy()
    below = (source.nodes.numpy() > 0) & (tree.depth[nodes].numpy() > depth)
    kinds, counts = np.unique(category[below], return_counts=True)
    draw = np.random.default_rng(0)
    rows = [
        (row, int(kind))
        for kind in np.sort(draw.choice(kinds[counts >= each], classes, replace=False))
        for row in draw.choice(np.flatnonzero(below & (category == kind)), each, replace=False).tolist()
    ]
    texts = source.read([row for row, _ in rows])
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow(["text", "chapter", "block", "category"])
        for text, (_, kind) in zip(texts, rows, strict=True):
            # "Tuberculosis (A15-A19)" and "A18 Tuberculosis of other organs", without their codes
            *above, name = tree.path(kind)
            table.writerow(
                [text, *(re.sub(r" \([^ ]*\)$", "", each) for each in above), name.split(" ", 1)[1]]
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--diagnoses", type=Path, metavar="FILE.csv")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    if words.diagnoses is not None:
        write_diagnoses(words.diagnoses)
    results = {run.name: study(run, words.encoder, words.draws) for run in words.runs}
    for name, result in results.items():
        show(name, result)
    if words.out is not None:
        words.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
