"""Does HiMulCon gain by features of each depth that an attention mask picks (A-HMLC, Ott et al. 2025)?

    python benchmarks/attention_masks.py --work FOLDER [--sets NAME …] [--splits 3] [--out FILE]

FOLDER holds the features of docs/confirmation.md's sets (`confirmation.py features`). An adapter of one
hidden layer learns on them, with HiMulCon's loss of every depth l on z_l = P(h ∘ m_l(h)), where h are the
hidden features, m_l a softmax over them that depth l learns, times their number, and P a linear head of 128.
Without masks, m_l = 1: this is HiMulCon. All else is equal, the draws of batches included. Answers are those
of a logistic regression on h, whose strength validation chooses; retrieval is by h. The third row has masks,
and a tree whose leaves are permuted. No code is published, so that values cannot be compared with the
authors'.

Mean ± standard deviation over the splits, then the difference that masks make, with its 95 % interval for
splits that overlap (Nadeau and Bengio 2003).
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from confirmation import SETS, paired, read_split
from frozen_heads import Row, Samples, answer_scores, space_scores, timed, written
from labeltree.atomic import atomic_write
from labeltree.losses import HiMulConLoss
from labeltree.taxonomy import Taxonomy

HIDDEN, WIDTH, BATCH, EPOCHS = 512, 128, 256, 50
COLUMNS = ("top1", "hierarchical_f1", "recall_at_1", "map_at_r", "ahp", "CPU s")
WRONG = "masks, a wrong tree"
NAMES = ("HiMulCon", "with masks", WRONG)


class Adapter(nn.Module):
    """Hidden features of vectors, and an embedding for every depth of the tree."""

    def __init__(self, width: int, depths: int, *, masked: bool) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU())
        self.head = nn.Linear(HIDDEN, WIDTH)
        self.masks = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(depths if masked else 0))
        self.depths = depths

    def forward(self, vectors: Tensor) -> list[Tensor]:
        """Embeddings `(n, 128)` of each depth, coarse → fine."""
        hidden = self.hidden(vectors)
        if not self.masks:
            return [self.head(hidden)] * self.depths
        return [self.head(hidden * HIDDEN * mask(hidden).softmax(1)) for mask in self.masks]


def train(samples: Samples, seed: int, *, masked: bool, wrong: bool = False) -> Tensor:
    """Hidden features of all samples after training."""
    torch.manual_seed(seed)
    tree, depths = samples.taxonomy, samples.taxonomy.max_depth
    vectors = nn.functional.normalize(samples.vectors, dim=1).float()
    vectors = (vectors - vectors[samples.train].mean(0)) * math.sqrt(vectors.shape[1])
    nodes = samples.nodes
    if wrong:
        order = torch.randperm(len(tree.leaves), generator=torch.Generator().manual_seed(seed))
        nodes = tree.leaves[order][torch.searchsorted(tree.leaves, nodes)]
    model = Adapter(vectors.shape[1], depths, masked=masked)
    steps = math.ceil(len(samples.train) / BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS * steps)
    losses = [of_depth(tree, depth) for depth in range(depths)]
    draw = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for rows in samples.train[torch.randperm(len(samples.train), generator=draw)].split(BATCH):
            embeddings = model(vectors[rows])
            loss = sum(loss_at(z, nodes[rows]) for loss_at, z in zip(losses, embeddings, strict=True))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        return model.hidden(vectors)


def of_depth(tree: Taxonomy, depth: int) -> HiMulConLoss:
    """HiMulCon's term of one depth, with its usual weight."""
    weights = [0.0] * tree.max_depth
    weights[depth] = math.exp(1 / (tree.max_depth - depth))
    return HiMulConLoss(tree, weights=weights)


def score(hidden: Tensor, samples: Samples) -> Row:
    """Answers of a logistic regression, and retrieval."""
    points = nn.functional.normalize(hidden, dim=1)
    best: tuple[float, LogisticRegression] | None = None
    for strength in (1.0, 10.0, 100.0):
        model = LogisticRegression(C=strength, max_iter=1000)
        model.fit(points[samples.train], samples.nodes[samples.train])
        right = model.score(points[samples.val], samples.nodes[samples.val])
        if best is None or right > best[0]:
            best = right, model
    assert best is not None
    answers = torch.from_numpy(best[1].predict(points[samples.test]))
    return answer_scores(answers, samples) | space_scores(points.double(), samples)


def tables(rows: dict[str, dict[str, list[Row]]]) -> list[str]:
    """The tables of the sets."""
    lines = []
    for name, methods in rows.items():
        lines += [f"\n### {name}\n", f"| method | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
        for method, several in methods.items():
            cells = [written([row[column] for row in several]) for column in COLUMNS]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        gains = []
        for column in COLUMNS[:-1]:
            pairs = zip(methods[NAMES[1]], methods[NAMES[0]], strict=True)
            mean, error = paired([ours[column] - theirs[column] for ours, theirs in pairs])
            half = error * float(stats.t.ppf(0.975, len(methods[NAMES[0]]) - 1))
            gains.append(f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]")
        lines.append(f"| *what masks add* | {' | '.join(gains)} | |")
    return lines


def main() -> None:
    """Train on every split, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the features")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file of the tables")
    options = parser.parse_args()
    rows: dict[str, dict[str, list[Row]]] = {}
    for name in options.sets:
        for seed in range(options.splits):
            samples = read_split(options.work, name, seed)
            for method in NAMES:
                masked, wrong = method != NAMES[0], method == WRONG
                hidden, seconds = timed(partial(train, samples, seed, masked=masked, wrong=wrong))
                row = score(hidden, samples) | {"CPU s": seconds}
                rows.setdefault(name, {}).setdefault(method, []).append(row)
                print(f"{name}, split {seed}, {method}: {row}", flush=True)
        text = "\n".join(tables(rows)) + "\n"
        if options.out:
            with atomic_write(options.out) as path:
                path.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
