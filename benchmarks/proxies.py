"""Objectives with a proxy for each class, beside cross entropy and SupCon (P17).

    python benchmarks/proxies.py [--short]

A training step of the small encoder on 32 pixels, forward, backward and optimizer, with 1,644 classes in a
tree of 8, 95 and 1,644 nodes as emoji have: 256 images, and 512 views of 256 images where pairs are compared.
And the memory and time of a loss with 100,000 classes alone: 256 rows of 128 dimensions, forward and back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch

from harness import Results, Row, Size, Table, choose, in_turn, main
from inputs import balanced
from labeltree.losses import CrossEntropyLoss, NormalisedSoftmaxLoss, TreeProxyLoss
from labeltree.models import build_encoder
from labeltree.taxonomy import Taxonomy
from labeltree.training.objective import Objective
from labeltree.training.read_recipes import make_recipe
from peak import forget_peak, resident

ROWS, DIM = 256, 128
OF_LABELS = ("ce", "normalised-softmax", "tree-proxies", "haframe", "csl", "hierarchical-proxies")
OF_PAIRS = ("supcon", "hwc", "hwc+lam", "hwc+tree-proxies", "pairs-proxies-means")


def step(name: str, taxonomy: Taxonomy, views: int) -> Callable[[], object]:
    """A training step of an objective on the same images."""
    torch.manual_seed(0)
    encoder = build_encoder("small-conv", channels=3, image_size=32)
    recipe = make_recipe({"data": "emoji", "objective": name})
    objective = Objective(recipe, taxonomy, encoder.feature_dim)
    parameters = [*encoder.parameters(), *objective.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    images = torch.randn(views * ROWS, 3, 32, 32).to(memory_format=torch.channels_last)
    instances = torch.arange(ROWS).repeat(views)
    nodes = taxonomy.leaves[torch.randint(taxonomy.num_leaves, (ROWS,))].repeat(views)

    def call() -> None:
        optimizer.zero_grad()
        objective(encoder(images), nodes, instances)["loss"].backward()
        optimizer.step()

    return call


def steps(taxonomy: Taxonomy, rounds: int) -> tuple[list[Row], dict[str, float]]:
    """CPU milliseconds and ratios of steps, and the ratios by name."""
    rows: list[Row] = []
    ratios: dict[str, float] = {}
    for names, views in ((OF_LABELS, 1), (OF_PAIRS, 2)):
        found = in_turn({name: step(name, taxonomy, views) for name in names}, names[0], rounds=rounds)
        for name, timing in found.items():
            rows.append([name, views * ROWS, 1000 * timing.seconds, timing.ratio, names[0], timing.spread])
            ratios[name] = timing.ratio
    return rows, ratios


def many_classes(taxonomy: Taxonomy) -> tuple[list[Row], float]:
    """Time and memory of losses alone; the most megabytes of a loss over cosines."""
    torch.manual_seed(0)
    nodes = taxonomy.leaves[torch.randint(taxonomy.num_leaves, (ROWS,))]
    rows: list[Row] = []
    most = 0.0
    options: dict[str, Any] = {"start": "random"}
    for name, make in {
        "a linear layer and cross entropy": lambda: _Linear(taxonomy),
        "normalised-softmax": lambda: NormalisedSoftmaxLoss(taxonomy, DIM),
        "tree-proxies": lambda: TreeProxyLoss(taxonomy, DIM, **options),
    }.items():
        loss = make()
        points = torch.randn(ROWS, DIM, requires_grad=True)
        gc.collect()
        forget_peak()
        before = resident("VmRSS:")
        found = in_turn({name: lambda loss=loss, z=points: loss(z, nodes).backward()}, name, rounds=1)
        used = (resident("VmHWM:") - before) / 1e6
        rows.append([name, found[name].seconds, used])
        if not isinstance(loss, _Linear):
            most = max(most, used)
    return rows, most


class _Linear(torch.nn.Module):
    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(DIM, taxonomy.num_leaves)
        self.loss = CrossEntropyLoss(taxonomy)

    def forward(self, points: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
        """The loss of a batch."""
        value: torch.Tensor = self.loss(self.linear(points), nodes)
        return value


def measure(size: Size) -> Results:
    """A table of steps and one of many classes."""
    rounds = choose(size, full=15, short=5, tiny=1)
    tree = choose(size, full=(8, 95, 1644), short=(8, 95, 1644), tiny=(2, 4, 8))
    many = choose(size, full=(10, 1000, 100_000), short=(10, 1000, 100_000), tiny=(2, 4, 40))
    rows, ratios = steps(balanced(*tree), rounds)
    alone, megabytes = many_classes(balanced(*many))
    columns = ("objective", "views", "CPU ms", "×", "of", "least–most")
    return Results(
        [
            Table(f"A training step, {tree[-1]:,} classes", columns, rows),
            Table(f"A loss alone, {many[-1]:,} classes", ("loss", "CPU s", "MB over baseline"), alone),
        ],
        notes=["The gradients of proxies are part of the memory; proxies themselves are in the baseline."],
        measured={"P17 step": ratios["tree-proxies"], "P17 pairs": ratios["pairs-proxies-means"]}
        | {"P17 memory": megabytes / 1000},
    )


if __name__ == "__main__":
    main(__doc__, measure)
