"""The settings of a recipe that stand in a group of their own: head, table, queue, optimizer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["HeadRecipe", "OptimizerRecipe", "QueueRecipe", "TableRecipe"]


@dataclass(frozen=True)
class HeadRecipe:
    """The projection head between features and embeddings.

    Attributes:
        dim: width of the embeddings; None = what the objective asks for, else 128.
        hidden: width of the hidden layers; None = width of the features.
        layers: linear layers; 1 = a linear head.
        gain: factor on the last layer's initial weights. In the Poincaré ball a fresh head's outputs are
            longer than the norm at which they are clipped, and what is clipped cannot learn its radius; 0.25
            starts them inside.
    """

    dim: int | None = None
    hidden: int | None = None
    layers: int = 2
    gain: float = 1.0


@dataclass(frozen=True)
class TableRecipe:
    """Which columns of a table are what; None = found by their usual names.

    Attributes:
        image_column: path of each image, relative to the table; several columns are several images a row.
        text_column: text of each sample; beside ``image_column``, or alone.
        label_columns: one column a depth, coarse to fine, or one column of labels of ``taxonomy``.
        group_column: samples of one group (patient, item) stay on one side of every split.
        split_column: ``train``, ``val`` or ``test``.
        aspect_columns: labels of further taxonomies over the same samples (MLCL), one column each, flat names
            or paths ``a/b``; whole numbers are ratings too.
    """

    image_column: list[str] | str | None = None
    text_column: str | None = None
    label_columns: list[str] | None = None
    group_column: str | None = None
    split_column: str | None = None
    aspect_columns: list[str] | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Those that are given."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@dataclass(frozen=True)
class QueueRecipe:
    """The momentum encoder and the queue of its keys, for the objectives that ask for them.

    Attributes:
        size: keys that are kept; the oldest go first.
        momentum: share of the key encoder's weights that stays at a step.
    """

    size: int = 4096
    momentum: float = 0.99


@dataclass(frozen=True)
class OptimizerRecipe:
    """How weights move.

    Attributes:
        name: ``adamw`` (HWC + LAM paper) or ``sgd`` with momentum (HiMulConE paper).
        lr: learning rate of the encoder; None = 1e-4 where it starts from trained weights (the HWC + LAM
            paper's), else 3e-3.
        head_lr_factor: the head, and all else that is not encoder, learns this many times faster; None = 10
            where the encoder starts from trained weights (that paper's), else 1.
        weight_decay: not applied to biases and normalisation unless ``decay_all``.
        decay_all: weight decay on all parameters, as the published code of most papers has it.
        momentum: of SGD.
        nesterov: momentum of SGD looks ahead.
        schedule: ``cosine`` to zero, ``step`` (times ``decay`` at each milestone), ``constant``, or ``sgdr``
            (cosines that restart, each cycle longer than the one before).
        warmup_epochs: linear warm-up from zero; may be a fraction of an epoch.
        milestones: epochs at which ``step`` decays.
        decay: factor of ``step``.
        cycle_epochs: length of the first cycle of ``sgdr``.
        cycle_factor: each cycle is this many times as long as the one before.
        min_lr: the learning rate of the encoder at the end of each cycle of ``sgdr``.
        clip_norm: largest norm of the whole gradient; None = no clipping.
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float | None = None
    head_lr_factor: float | None = None
    weight_decay: float = 1e-4
    decay_all: bool = False
    momentum: float = 0.9
    nesterov: bool = False
    schedule: Literal["cosine", "step", "constant", "sgdr"] = "cosine"
    warmup_epochs: float = 1.0
    milestones: list[int] = field(default_factory=list)
    decay: float = 0.1
    cycle_epochs: int = 12
    cycle_factor: int = 2
    min_lr: float = 1e-6
    clip_norm: float | None = None
