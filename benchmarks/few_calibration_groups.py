"""What it costs to calibrate probabilities and coverage on the same few groups, such as patients.

    python benchmarks/few_calibration_groups.py --draws 150

Each draw makes class scores on a tree of twelve leaves, of groups that differ in what they look like and in
how well their classes are told apart, and scales them: by 0.4, 1 and 3, as a classifier that is too unsure,
right and too sure. `apart` fits a temperature to 30 % of the groups and takes thresholds from the others;
`together` uses all for both, as `fit_rule` does where nine groups would not be left. Printed are means on 30
new groups: the share of answers that hold the truth, the share of the uncertainty that they remove, and the
log loss.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, Promise, fit_rule, holds_truth
from labeltree.decisions.answers import information
from labeltree.decisions.conformal import share_of_groups
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(branch, branch + leaf) for branch in "xyz" for leaf in "1234"])
CLASSES = ClassNodes(TREE.leaves, TREE)
NEW = 30


def draw(groups: int, size: int, scale: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and groups of samples."""
    random = torch.Generator().manual_seed(seed)
    group = torch.arange(groups).repeat_interleave(size)
    place = torch.randint(12, (len(group),), generator=random)
    scores = torch.randn(groups, 12, generator=random)[group] + torch.randn(len(group), 12, generator=random)
    scores += (torch.arange(12) // 4 == (place // 4)[:, None]).float()
    skill = 2.25 + 0.75 * torch.randn(groups, generator=random)
    scores[torch.arange(len(group)), place] += skill[group]
    return scores * scale, TREE.leaves[place], group


def measure_draw(groups: int, size: int, scale: float, coverage: float, seed: int, together: bool) -> Tensor:
    """Coverage, information and log loss on new groups."""
    scores, labels, group = draw(groups + NEW, size, scale, seed)
    held = group < groups
    part = share_of_groups(held[held], group[held], 0.3, 0)
    rule = fit_rule(
        scores[held],
        labels[held],
        CLASSES,
        groups=group[held],
        for_probabilities=None if together or not bool(part.any()) else part,
    )
    new, truth = scores[~held], labels[~held]
    answers = rule.answer(new, Promise(coverage), top=0).nodes
    loss = -rule.probabilities(new)[torch.arange(len(new)), CLASSES.place[truth]].log()
    columns = (holds_truth(answers, truth, TREE), information(answers, TREE), loss)
    return torch.stack([column.double().mean() for column in columns])


def main() -> None:
    """Print a line for each number of groups and their size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=150)
    given = parser.parse_args()
    print("| groups × samples | scale | promised | coverage: apart, together | information | log loss |")
    print("|---|---:|---:|---:|---:|---:|")
    for groups, coverage in ((4, 0.55), (6, 0.75), (9, 0.8), (11, 0.85)):
        for size in (10, 60):
            for scale in (0.4, 1.0, 3.0):
                ways = [
                    torch.stack(
                        [
                            measure_draw(groups, size, scale, coverage, seed, way)
                            for seed in range(given.draws)
                        ]
                    )
                    for way in (False, True)
                ]
                pairs = zip(*(way.mean(0).tolist() for way in ways), strict=True)
                cells = " | ".join(f"{apart:.2f}, {together:.2f}" for apart, together in pairs)
                print(f"| {groups} × {size} | {scale:g} | {coverage:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
