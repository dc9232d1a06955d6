"""The recipe of a run: every setting that training depends on, in one typed schema."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from labeltree.atomic import atomic_write

__all__ = ["HeadRecipe", "OptimizerRecipe", "Recipe", "TableRecipe"]


_CARRYING_OUT = {"workers", "checkpoint_minutes", "accelerator"}


@dataclass(frozen=True)
class HeadRecipe:
    """The projection head between features and embeddings.

    Attributes:
        dim: width of the embeddings.
        hidden: width of the hidden layers; None = width of the features.
        layers: linear layers; 1 = a linear head.
        gain: factor on the last layer's initial weights. In the Poincaré ball a fresh head's outputs are
            longer than the norm at which they are clipped, and what is clipped cannot learn its radius; 0.25
            starts them inside.
    """

    dim: int = 128
    hidden: int | None = None
    layers: int = 2
    gain: float = 1.0


@dataclass(frozen=True)
class TableRecipe:
    """Which columns of a table are what; None = found by their usual names.

    Attributes:
        image_column: path of each image, relative to the table.
        label_columns: one column a depth, coarse to fine, or one column of labels of ``taxonomy``.
        group_column: samples of one group (patient, item) stay on one side of every split.
        split_column: ``train``, ``val`` or ``test``.
    """

    image_column: str | None = None
    label_columns: list[str] | None = None
    group_column: str | None = None
    split_column: str | None = None


@dataclass(frozen=True)
class OptimizerRecipe:
    """How weights move.

    Attributes:
        name: ``adamw`` (HWC + LAM paper) or ``sgd`` with momentum (HiMulConE paper).
        lr: learning rate of the encoder; None = 1e-4 where it starts from trained weights (the HWC + LAM
            paper's), else 3e-3.
        head_lr_factor: the head, and all else that is not encoder, learns this many times faster; None = 10
            where the encoder starts from trained weights (that paper's), else 1.
        weight_decay: not applied to biases and normalisation.
        momentum: of SGD.
        schedule: ``cosine`` to zero, ``step`` (times ``decay`` at each milestone) or ``constant``.
        warmup_epochs: linear warm-up from zero; may be a fraction of an epoch.
        milestones: epochs at which ``step`` decays.
        decay: factor of ``step``.
        clip_norm: largest norm of the whole gradient; None = no clipping.
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float | None = None
    head_lr_factor: float | None = None
    weight_decay: float = 1e-4
    momentum: float = 0.9
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    warmup_epochs: float = 1.0
    milestones: list[int] = field(default_factory=list)
    decay: float = 0.1
    clip_norm: float | None = None


@dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    Attributes:
        data: a data set by name, a folder of nested folders, or a table (``.csv``, ``.parquet``).
        objective: what to train with; several joined by ``+`` add up (``hwc+lam``).
        taxonomy: a taxonomy file, where the data do not bring their own.
        table: which columns are what, where the data are a table.
        geometry: where embeddings live.
        curvature: of the Poincaré ball, below 0.
        encoder: a small encoder of ours, or any timm or torchvision name.
        pretrained: start from the encoder's published weights.
        weights: start from this file of encoder weights.
        trainable: ``all``, ``last:K`` (the last K stages) or ``head`` (nothing of the encoder).
        image_size: side of the square images in pixels; None = as the data set has them, else 32.
        channels: 1 or 3; None = as the data set has them.
        views: augmentation: ``simclr``, ``randaugment`` or ``identity``.
        erasing: probability of random erasing.
        flip: mirror images at random. Turn off where left and right differ.
        sampler: ``auto`` is what the objective asks for.
        batch_size: samples a step; each comes in two views.
        epochs: passes over the training samples.
        limit: use at most this many samples for training and validation together, drawn evenly over the
            labels.
        val: share of the training samples that is held out for validation.
        test: share held out for the test, where the data set has no test split of its own.
        seed: of weights, splits, batches and views.
        head: the projection head.
        optimizer: how weights move.
        term_weights: factor of each objective's loss, in the order they are named; empty = 1 each.
        ema: decay of a moving average of the encoder weights, kept in the checkpoints; 0 = none.
        ema_evaluate: evaluate the moving average instead of the weights themselves.
        monitor: validation metric that chooses the best checkpoint.
        patience: stop after this many epochs without a better ``monitor``; None = never.
        on_error: what to do with an unreadable image.
        precision: ``32`` or ``bf16`` (mixed).
        accelerator: ``auto``, ``cpu`` or ``gpu``.
        workers: loader processes; 0 = load in the training process, best for small images.
        checkpoint_minutes: save the training state this often within an epoch; always at its end.
        channels_last: memory format of images and weights.
        options: settings of each objective, by name.
    """

    data: str
    objective: str = "hwc+lam"
    taxonomy: str | None = None
    table: TableRecipe = field(default_factory=TableRecipe)
    geometry: Literal["sphere", "euclidean", "poincare"] = "sphere"
    curvature: float = -1.0
    encoder: str = "small-conv"
    pretrained: bool = False
    weights: str | None = None
    trainable: str = "all"
    image_size: int | None = None
    channels: Literal[1, 3] | None = None
    views: Literal["simclr", "randaugment", "identity"] = "simclr"
    erasing: float = 0.0
    flip: bool = True
    sampler: Literal["auto", "hierarchical", "random", "balanced"] = "auto"
    batch_size: int = 256
    epochs: int = 10
    limit: int | None = None
    val: float = 0.1
    test: float = 0.2
    seed: int = 0
    head: HeadRecipe = field(default_factory=HeadRecipe)
    optimizer: OptimizerRecipe = field(default_factory=OptimizerRecipe)
    term_weights: list[float] = field(default_factory=list)
    ema: float = 0.0
    ema_evaluate: bool = False
    monitor: str = "map_at_r"
    patience: int | None = None
    on_error: Literal["raise", "skip"] = "skip"
    precision: Literal["32", "bf16"] = "32"
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    workers: int = 0
    checkpoint_minutes: float = 2.0
    channels_last: bool = True
    options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = [
            ("epochs", self.epochs >= 1, "1 or more"),
            ("batch_size", self.batch_size >= 2, "2 or more"),
            ("curvature", self.curvature < 0, "below 0"),
            ("val", 0 < self.val < 1, "between 0 and 1"),
            ("test", 0 < self.test < 1, "between 0 and 1"),
            ("ema", 0 <= self.ema < 1, "in [0, 1)"),
            ("limit", self.limit is None or self.limit >= 2, "2 or more"),
            ("patience", self.patience is None or self.patience >= 1, "1 or more"),
            ("workers", self.workers >= 0, "0 or more"),
            ("checkpoint_minutes", self.checkpoint_minutes >= 0, "0 or more"),
            ("optimizer.lr", self.optimizer.lr is None or self.optimizer.lr > 0, "above 0"),
            ("optimizer.warmup_epochs", self.optimizer.warmup_epochs >= 0, "0 or more"),
            ("seed", 0 <= self.seed < 2**32, "from 0 to 2^32 - 1"),
            ("ema_evaluate", not self.ema_evaluate or self.ema > 0, "false where ema is 0"),
            ("head.gain", self.head.gain > 0, "above 0"),
            ("head.dim", self.head.dim >= 1, "1 or more"),
        ]
        for name, holds, expected in checks:
            if not holds:
                value: Any = self
                for part in name.split("."):
                    value = getattr(value, part)
                raise ValueError(f"{name} is {value}; it must be {expected}")

    @property
    def learning_rates(self) -> tuple[float, float]:
        """The peak learning rates of the encoder and of everything else."""
        trained = self.pretrained or self.weights is not None
        lr, factor = self.optimizer.lr, self.optimizer.head_lr_factor
        lr = (1e-4 if trained else 3e-3) if lr is None else lr
        return lr, lr * ((10.0 if trained else 1.0) if factor is None else factor)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as nested plain values, objectives' settings under their own names."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        options: dict[str, Any] = plain.pop("options")
        return plain | options

    def save(self, path: str | Path) -> None:
        """Write the recipe as YAML, atomically."""
        import yaml

        with atomic_write(path) as temporary:
            temporary.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True), "utf-8")

    def differences(self, other: Recipe) -> list[str]:
        """Sentences like ``epochs is 10, not 20`` for each setting in which the two differ.

        Settings that change how a run is carried out, but not what it computes, do not count.
        """
        mine, theirs = _flat(self.to_dict()), _flat(other.to_dict())
        return [
            f"{key} is {mine.get(key)}, not {theirs.get(key)}"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key) != theirs.get(key) and key not in _CARRYING_OUT
        ]


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
