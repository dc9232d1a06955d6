"""What a training step spends its time on, and how much of it is the loss (P14).

    python benchmarks/training_step.py [--short]

The small encoder on the CPU, images of 32 pixels; and, where there is a GPU, ResNet-50 on images of 224
pixels in bfloat16. 256 samples a step: 512 views, or 256 where an objective learns from the first view. The
shares are those of all parts together; the last column is the step as the trainer takes it, with its loader
and its bookkeeping.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import lightning as L
import torch
from torch import Tensor

from harness import Results, Size, Table, choose, main
from inputs import balanced
from labeltree.data import ArrayStore, Source, make_splits
from labeltree.training.batches import Batch
from labeltree.training.experiment import Experiment, prepare
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe
from step_parts import PARTS, PartedStep, clock_of

OBJECTIVES = ("supcon", "himulcon", "hicone", "himulcone", "hwc", "hwc+lam", "mlcl", "maskcon")
BATCH = 256
# What the committed figures are of, whatever the defaults: every ω and every bound is computed.
OPTIONS: dict[str, dict[str, Any]] = {
    "hicone": {"variant": "paper"},
    "himulcone": {"variant": "paper"},
    "hwc": {"alpha": 0.5},
}


@dataclass(frozen=True)
class Setting:
    """Where and what a step is measured on."""

    encoder: str
    image_size: int
    device: str
    precision: Any
    samples: int
    rounds: int
    batch: int = BATCH

    @property
    def title(self) -> str:
        precision = "float32" if self.precision == "32" else "bfloat16"
        return f"{self.encoder}, {self.image_size} px, {precision}, {self.batch} samples a step"


def pictures(n: int, size: int) -> Tensor:
    """Smooth random images, (n, 3, size, size) uint8."""
    coarse = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    return (smooth.clamp(0, 1) * 255).to(torch.uint8)


def source_of(setting: Setting) -> Source:
    """So many pictures with labels of a tree of 8, 64 and 512 nodes, and their splits."""
    images, tree = pictures(setting.samples, setting.image_size), balanced(8, 64, 512)
    generator, rows = torch.Generator().manual_seed(0), torch.arange(setting.samples)
    nodes = tree.leaves[torch.randint(len(tree.leaves), (setting.samples,), generator=generator)]
    source = Source("pictures", tree, nodes, rows, ArrayStore(images), rows)
    return make_splits(source, val=0.1, test=0.1, seed=0)


def batches_of(experiment: Experiment, setting: Setting) -> list[Batch]:
    """The first of training, on the device."""
    return [
        {
            key: value.to(setting.device) if isinstance(value, Tensor) else value
            for key, value in batch.items()
        }
        for batch, _ in zip(experiment.batches.train_dataloader(), range(4), strict=False)
    ]


def trainee_of(objective: str, setting: Setting, source: Source) -> Experiment:
    """What a run with this objective trains; a queue is full."""
    accelerator: Any = "gpu" if setting.device == "cuda" else "cpu"
    recipe = Recipe(
        data="pictures",
        objective=objective,
        encoder=setting.encoder,
        image_size=setting.image_size,
        batch_size=setting.batch,
        precision=setting.precision,
        accelerator=accelerator,
        coarsen=2 if objective == "maskcon" else None,
        options={name: OPTIONS[name] for name in objective.split("+") if name in OPTIONS},
    )
    experiment = prepare(recipe, source)
    queue, nodes = experiment.module.queue, experiment.batches.training.nodes
    if queue is not None:
        old = torch.arange(recipe.queue.size)
        keys = torch.randn(
            len(old), experiment.module.objective.dim, generator=torch.Generator().manual_seed(0)
        )
        queue.enqueue(torch.nn.functional.normalize(keys, dim=1), nodes[old % len(nodes)], -1 - old)
    return experiment


class Steps(L.Callback):
    """Seconds of each of a trainer's steps, from the end of one to the end of the next."""

    def __init__(self, device: str) -> None:
        self._clock = clock_of(torch.device(device))
        self._ends: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self._ends.append(self._clock())

    @property
    def seconds(self) -> float:
        """Of the step in the middle; the first two do not count."""
        ends = self._ends[1:] if len(self._ends) > 2 else self._ends
        return median(b - a for a, b in pairwise(ends))


def whole_step(experiment: Experiment, setting: Setting) -> float:
    """Seconds of a step as the trainer takes it."""
    steps = Steps(setting.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = L.Trainer(
            accelerator="gpu" if setting.device == "cuda" else "cpu",
            devices=1,
            precision="bf16-mixed" if setting.precision == "bf16" else "32-true",
            max_steps=setting.rounds + 3,
            callbacks=[steps],
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            limit_val_batches=0,
            use_distributed_sampler=False,
        )
        trainer.fit(experiment.module, datamodule=experiment.batches)
    return steps.seconds


def _ready(
    experiment: Experiment, setting: Setting
) -> tuple[RepresentationModule, torch.optim.Optimizer, torch.dtype | None]:
    """The module in training on its device, silent; its optimiser, and the type of mixed precision."""
    module = experiment.module.to(setting.device).train()
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    dtype = torch.bfloat16 if setting.precision == "bf16" else None
    return module, module.configure_optimizers()["optimizer"], dtype


def parted_steps(experiments: dict[str, Experiment], setting: Setting) -> dict[str, list[dict[str, float]]]:
    """Every objective's parts, round by round, one step of each in a round."""
    steps, loaders, found = {}, {}, {}
    for name, experiment in experiments.items():
        steps[name] = PartedStep(*_ready(experiment, setting))
        loaders[name] = batches_of(experiment, setting)
        found[name] = [steps[name](loaders[name][0])][:0]  # the first is not counted
    for number in range(setting.rounds):
        for name, step in steps.items():
            found[name].append(step(loaders[name][number % len(loaders[name])]))
    return found


def undivided_step(experiment: Experiment, setting: Setting, loss: bool = True) -> float:
    """Seconds of a step without a wait for the GPU within it, its batches on the device already.

    Without its loss, the mean square of the embeddings takes the loss's place.
    """
    module, optimizer, dtype = _ready(experiment, setting)
    if not loss:
        for term in module.objective.terms.values():
            term.loss.forward = _mean_square  # type: ignore[method-assign, union-attr, assignment]
    batches, clock = batches_of(experiment, setting), clock_of(torch.device(setting.device))

    def steps(number: int) -> float:
        began = clock()
        for place in range(number):
            with torch.autocast(setting.device, dtype, enabled=dtype is not None):
                value = module.training_step(batches[place % len(batches)], 0)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
        return (clock() - began) / number

    steps(12)  # until losses trust their labels
    return median(steps(setting.rounds) for _ in range(3))


def _mean_square(**given: object) -> Tensor:
    tensors = [value for value in given.values() if isinstance(value, Tensor) and value.requires_grad]
    return torch.stack([tensor.float().square().mean() for tensor in tensors]).sum()


def table_of(setting: Setting, names: tuple[str, ...]) -> tuple[Table, float]:
    """Milliseconds of a step and the share of each part; the greatest share of a loss, in percent."""
    source = source_of(setting)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    experiments = {name: trainee_of(name, setting, source) for name in names}
    parted = parted_steps(experiments, setting)
    lines: list[list[str | float]] = []
    most = 0.0
    for name in names:
        sums = [sum(parts.values()) for parts in parted[name]]
        shares = {
            part: 100 * median(parts[part] / total for parts, total in zip(parted[name], sums, strict=True))
            for part in PARTS
        }
        loss = 100 * median(
            (parts["loss forward"] + parts["loss backward"]) / total
            for parts, total in zip(parted[name], sums, strict=True)
        )
        most = max(most, loss)
        whole = whole_step(trainee_of(name, setting, source), setting)
        lines.append([name, 1000 * median(sums), *shares.values(), loss, 1000 * whole])
    columns = (
        "objective",
        "parts, ms",
        *(f"{part}, %" for part in PARTS),
        "the loss, %",
        "in the trainer, ms",
    )
    return Table(setting.title, columns, lines), most


def measure(size: Size) -> Results:
    """The table of the CPU, and that of a GPU if there is one."""
    small = Setting(
        "small-conv",
        32,
        "cpu",
        "32",
        choose(size, full=20 * BATCH, short=10 * BATCH, tiny=300),
        choose(size, full=15, short=5, tiny=2),
        choose(size, full=BATCH, short=BATCH, tiny=64),
    )
    names = choose(size, full=OBJECTIVES, short=OBJECTIVES, tiny=("hwc+lam", "maskcon"))
    table, share = table_of(small, names)
    results = Results([table], {"P14": share})
    if torch.cuda.is_available():
        resnet = Setting(
            "torchvision:resnet50", 224, "cuda", "bf16", 8 * BATCH, choose(size, full=15, short=7, tiny=2)
        )
        results.tables.append(table_of(resnet, names)[0])
    else:
        results.notes.append("no GPU: the step of ResNet-50 was not measured.")
    return results


if __name__ == "__main__":
    main(__doc__, measure)
