"""The recipe of a run: every setting that training depends on, in one typed schema, and its checks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from labeltree.atomic import atomic_write
from labeltree.options.choices import ClassifierChoice, GeometryName, SamplerName
from labeltree.training.recipe_settings import check_idle, check_kinds, flatten, numbers, value_of

__all__ = [
    "GROUPS",
    "HeadRecipe",
    "LoraRecipe",
    "OptimizerRecipe",
    "QueueRecipe",
    "Recipe",
    "TableRecipe",
    "what_is_trained",
]


@dataclass(frozen=True)
class HeadRecipe:
    """The projection head between features and embeddings.

    Attributes:
        dim: Width of the embeddings; None = what the objective asks for, else 128, or 256 if the objective is
            left open and the features are those of a frozen, pretrained image encoder.
        hidden: Width of the hidden layers; None = width of the features.
        layers: Linear layers; 1 = a linear head; None = what the objective asks for, else 2.
        gain: Factor on the last layer's initial weights. In the Poincaré ball a fresh head's outputs are
            longer than the norm at which they are clipped, and what is clipped cannot learn its radius; 0.25
            starts them inside.
    """

    dim: int | None = None
    hidden: int | None = None
    layers: int | None = None
    gain: float = 1.0


@dataclass(frozen=True)
class TableRecipe:
    """Which columns of a table are what; None = found by their usual names.

    Attributes:
        image_column: Path of each image, relative to the table; several columns are several images a row.
        text_column: Text of each sample, beside `image_column` or alone; several columns are one text, as of
            a title and a description.
        label_columns: One column per depth, coarse to fine, or one column of labels of `taxonomy`.
        group_column: Samples of one group (patient, item) stay on one side of every split; None = `group`,
            `none` = no column.
        split_column: `train`, `val` or `test`; None = `split`, `none` = no column.
        keep_columns: Columns to keep with the samples, such as `lesion` and `site`: `evaluate` and
            `predict` can judge samples together by them (`--per lesion`), and break results down by them
            (`--by site`).
        aspect_columns: Labels of further taxonomies over the same samples (MLCL), one column each, flat names
            or paths `a/b`; whole numbers are ratings too.
        gaps: What becomes of a label whose coarser name is missing: `placeholder` (a node for it),
            `skip` (the finer name hangs on the next coarser one) or `error`; None = `placeholder` for
            ranks of biological names, else `error` unless other rows tell the name.
        fill_down: Columns, coarse to fine, in which an empty cell means the value above it, as below a
            department that is named once for many rows (`[Department, Category]`).
        image_folder: Folder of the images, if it is not that of the table.
        image_name: Names of the files there, from the cells of a row: `{gbifID}.jpg`, or with `*` for
            several: `{catalogNumber}_*.jpg`; rows without such a file are not used.
        encoding: Encoding of text that is not UTF-8, such as `cp1252` or `shift_jis`; None = found.
        sheet: Sheet of a workbook (.xlsx); None = the first that is not empty.
        names: What a name in the label columns is: `exact` (the default): the text; `plain`: without
            regard to case, spaces and the composition of Unicode; `scientific`: without authorship, with
            the genus above the species.
        synonyms: a table with the columns `synonym` and `accepted`.
        separator: What separates the names of paths in a column of labels or aspects (`'>'`), or `none`:
            only `/` does; None = `/`, and `>` where labels are surely breadcrumbs.
        label_separator: Text between the labels of a cell with several labels (`';'`).
        sample_column: Rows with equal values there are one sample, which has the labels of all its rows.
        annotator_column: With `sample_column`: who gave the label of the row, which is then a vote.
        vote_columns: Columns of votes on the label, one per annotator.
        agreement: The label is the finest node that more than this share of the votes agree on, 0.5 to 1
            (all); None = 0.5.
        confidence_column: Confidence in the label, 0 to 1.
        min_confidence: a label with less confidence becomes its parent.
        vector_column: The array of an `.npz` file, the key of `.obsm` of an `.h5ad` file, the column of
            lists of numbers, or the columns of numbers (`f_*`), that hold vectors; None = the only one,
            that with a usual name (vectors, embeddings, features), or all numbers that are nothing else.
        label_file: a table with the labels of vectors and their other columns, joined by id, or in the same
            order; None = for `features.npy`, `features.csv` beside it.
        id_column: Ids of vectors, by which they are named and joined; None = `id`, `none` =
            no column.
    """

    image_column: list[str] | str | None = None
    text_column: list[str] | str | None = None
    label_columns: list[str] | None = None
    group_column: str | None = None
    split_column: str | None = None
    keep_columns: list[str] | None = None
    aspect_columns: list[str] | None = None
    gaps: Literal["placeholder", "skip", "error"] | None = None
    fill_down: list[str] | None = None
    image_folder: str | None = None
    image_name: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    names: Literal["exact", "plain", "scientific"] | None = None
    synonyms: str | None = None
    separator: str | None = None
    label_separator: str | None = None
    sample_column: str | None = None
    annotator_column: str | None = None
    vote_columns: list[str] | None = None
    agreement: float | None = None
    confidence_column: str | None = None
    min_confidence: float | None = None
    vector_column: list[str] | str | None = None
    label_file: str | None = None
    id_column: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that are given, as arguments of `open_source`.

        Raises:
            DataError: If those that say how labels are read contradict each other.
        """
        from labeltree.data.tables.multi_label import (
            LabelEvidence,
        )  # the parser of the command line needs no data

        given = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        evidence = {
            field.name: given.pop(field.name)
            for field in dataclasses.fields(LabelEvidence)
            if field.name in given
        }
        return given | ({"evidence": LabelEvidence(**evidence)} if evidence else {})


@dataclass(frozen=True)
class QueueRecipe:
    """The momentum encoder and the queue of its keys, for the objectives that ask for them.

    Attributes:
        size: Number of keys that are kept; the oldest are dropped first.
        momentum: Share of the key encoder's weights that a step keeps.
    """

    size: int = 4096
    momentum: float = 0.99


@dataclass(frozen=True)
class LoraRecipe:
    """Low-rank updates of the linear layers of an encoder (LoRA: Hu et al. 2022).

    Attributes:
        rank: Rank of the update of a layer.
        alpha: The update is multiplied by alpha / rank.
        dropout: Dropout probability of the input of the update.
        targets: The layers, by the end of their names (`[q_proj, v_proj]`); None = all linear layers.
    """

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    targets: list[str] | None = None


@dataclass(frozen=True)
class OptimizerRecipe:
    """The optimizer and its learning-rate schedule.

    Attributes:
        name: `adamw` (HWC + LAM paper) or `sgd` with momentum (HiMulConE paper).
        lr: Learning rate of the encoder; None = 1e-4 where it starts from trained weights (the HWC + LAM
            paper's), else 3e-3.
        head_lr_factor: Factor of the learning rate of everything but the encoder; None = 10 where the encoder
            starts from trained weights (that paper's), else 1.
        weight_decay: Not applied to biases and normalisation unless `decay_all`.
        decay_all: Weight decay on all parameters, as the published code of most papers has it.
        momentum: Momentum of SGD.
        nesterov: Nesterov momentum of SGD.
        schedule: `cosine` to zero, `step` (times `decay` at each milestone), `constant`, or `sgdr`
            (cosines that restart, each cycle longer than the one before).
        warmup_epochs: Linear warm-up from zero; may be a fraction of an epoch.
        milestones: Epochs at which `step` decays.
        decay: Factor of `step`.
        cycle_epochs: Length of the first cycle of `sgdr`.
        cycle_factor: Each cycle is this many times as long as the one before.
        min_lr: The learning rate of the encoder at the end of each cycle of `sgdr`.
        clip_norm: Largest norm of the whole gradient; None = no clipping.
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


GROUPS: dict[str, type[Any]] = {
    "table": TableRecipe,
    "head": HeadRecipe,
    "lora": LoraRecipe,
    "optimizer": OptimizerRecipe,
    "queue": QueueRecipe,
}
"""The groups of settings within a recipe."""

_CARRYING_OUT = {
    "workers",
    "checkpoint_minutes",
    "accelerator",
    "devices",
    "num_nodes",
    "compile",
    "logger",
    "logger_folder",
}


@dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    Attributes:
        data: a data set by name, a folder of nested folders, a table (`.csv`, `.xlsx`, `.parquet` …), or
            vectors (`.npz`, `.npy`, `.h5ad`, or a table of numbers).
        objective: The training objective; several joined by `+` add up (`hwc+lam`). `auto`: the one
            that suits the samples and that the studies support.
        data_path: Folder of a data set that has a name; None = in the cache folder.
        taxonomy: a taxonomy file, if the data do not have their own.
        mapping: What became of the nodes of an older version of `taxonomy`, a file of 'labeltree taxonomy
            map': labels of the older version are read on the new one.
        corrections: a table of corrected labels, written by 'labeltree suspects' and decided by a person; or
            several in order (`[first.csv, second.csv]`), each about the labels that those before it have
            left. Splits are drawn by the labels as they were.
        table: The columns of the data, if they are a table.
        missing_labels: Names of classes that stand for missing labels (`[unknown, n/a]`), at any depth;
            their samples get the label above, or none.
        coarsen: Training sees labels down to this depth only; validation and test keep the finest.
        train_taxonomy: a taxonomy file to train on instead of the data's own; labels are matched by path,
            name, id or synonym.
            Validation and test keep the data's own.
        taxonomy_noise: For studies of mistakes in the taxonomy: training sees a tree in which this share of
            the nodes of every depth from 2 on lies under a wrong parent, drawn by the seed; validation and
            test keep the true one.
        projection: How a `train_taxonomy` whose nodes have several parents becomes a tree: the rule of
            `odir` or of `yolo9000`.
        inner_share: Share of the training samples whose label is replaced by a random ancestor below the
            root, for studies of coarse labels.
        inner: `keep` the samples whose label was replaced by `inner_share`, or `drop` them.
        label_noise: r, for studies of wrong labels: with this probability a training sample's label is
            replaced by one drawn evenly from all that occur; at 1 all labels are random (Ghanooni et al.,
            section 8.1). Each aspect is replaced independently, together with its rating.
        unseen_classes: Classes that are hidden from training and validation, to evaluate them apart from the
            seen ones (`labeltree evaluate --protocols seen-unseen`; Zhang et al., section 4.5). Either
            nodes by path or name, each hiding all below it; or a number or share of classes, which the seed
            draws evenly over their parents, each of which keeps one. Test samples and the taxonomy
            do not change.
        unseen_depth: Depth of the classes that are drawn; None = the finest labels.
        geometry: Where embeddings live; `auto` is what the objective asks for, mostly the sphere.
        curvature: Curvature of the Poincaré ball, below 0.
        encoder: An encoder of --list-encoders, which also says how to name those of other libraries and
            checkpoints in a folder; `auto` = vectors for vectors; minilm for texts; for photographs the
            pretrained encoder that the environment variable LABELTREE_IMAGE_ENCODER names, else
            efficientnet-lite0; for other images small-conv or that one. Two joined by a plus read samples
            that have images and texts: `small-conv+small-text`.
        pretrained: Start from the encoder's published weights; None = only `minilm`, `hf:OWNER/NAME`,
            `text:NAME` and checkpoints in a folder do.
        weights: Start from this file of encoder weights, or from a run folder: from its encoder and, where
            shapes fit, its projection heads; rows of classifiers follow the classes, by `mapping` if it
            leads from that run's taxonomy, else by what is certain. Samples that it knows keep its splits.
        pooling: Of `transformers:FOLDER` and `hf:OWNER/NAME`, how token vectors become a feature:
            `pooler`, `cls` or `mean`; `auto` = as its authors do.
        trainable: The weights that are trained: `all`, `last:K` (the last K stages of the encoder,
            and the head), `head` (no stage) or `lora` (low-rank updates of its linear layers, and the
            head); with `head` and plain `views`, features are computed once. `auto` = `head` for a
            pretrained image encoder whose `views` are not named, else `all`.
        lora: The low-rank updates of the encoder, if these are trained.
        adapter: Width of a trained layer (linear, ReLU) on top of the encoder, whose outputs are then the
            features; None = no such layer.
        image_size: Side of the square images in pixels; None = as the encoder's pretrained weights expect
            them, or else as the data set has them, at most 64.
        channels: 1 or 3; None = as the encoder's pretrained weights expect them, or as the data set has them.
        max_length: Number of tokens of a text that are read; None = as many as the encoder can read.
        views: Augmentation. Of images: `simclr`, `randaugment`, `crop`; of texts: `dropout` (the text
            itself, seen through the encoder's dropout) or `word-deletion`; `identity`: none;
            `auto` = simclr or dropout, or identity for an encoder that is frozen.
        deletion: Probability that `word-deletion` leaves a word out; also of the texts beside images.
        modality_dropout: For samples with an image and a text: the probability that a view shows only one of
            them, each as often, so that either alone suffices.
        dropout: Dropout probability of a text encoder; None = the encoder's own.
        erasing: Probability of random erasing.
        flip: Mirror images at random. Turn off where left and right differ.
        num_views: Augmented views of each sample that the encoder learns from; None = two where the objective
            compares views, else one.
        sampler: `auto` is what the objective asks for.
        batch_size: Samples per step, over all devices of all machines; None = the largest power of
            two up to a quarter of the training samples, from 8 to 256.
        encode_chunk: Number of views that the encoder sees at once, if a batch does not fit into memory.
            Activations are computed again, chunk by chunk, in the backward pass; None = all.
        epochs: Passes over the training samples, by default 10, or as many as give about 300 steps if that is
            more.
        limit: Use at most this many samples for training and validation together, drawn evenly over the
            labels.
        train_limit: Train on at most this many samples, drawn likewise; validation keeps all of its own.
        test_limit: Test on at most this many samples, drawn likewise.
        val: Share of the training samples that is held out for validation. Answers rest on them: 20 samples
            (or groups) suffice for a coverage of 0.9, unknown classes and drift.
        test: Share held out for testing, if the data set has no test split of its own.
        calib: Share of the samples left for training that is set aside for the promises of answers: their
            thresholds come from these samples, which nothing else reads; 0 = from validation samples, which
            have also chosen the classifier and, in a training by steps, the epoch.
        fold: For cross-validation, `2/5`: test on the second of five folds, which never divide a group. The
            seed determines all folds together; samples that the data set holds for the test are left out.
        seed: Seed of weights, splits, batches and views.
        head: The projection head.
        optimizer: The optimizer and its learning-rate schedule.
        queue: Momentum encoder and queue.
        term_weights: Factor of each objective's loss, in the order they are named; empty = each objective's
            own, mostly 1.
        schedules: Settings that change during training: `weights.NAME` (the factor of an objective's loss)
            or `NAME.temperature`, each a list of [epoch, value], interpolated linearly.
        ema: Decay of a moving average of the encoder weights, kept in the checkpoints; 0 = none.
        ema_evaluate: Evaluate the moving average instead of the weights themselves.
        classifier: What the run answers with: its `own` classifier; a linear `probe`, linear discriminant
            analysis (`lda`) or the nearest class mean (`feature-means`) of its features; the nearest class
            mean of its embeddings, `prototypes`; or `auto`, the best of them on validation samples.
            `labeltree evaluate`, `calibrate` and `predict` can ask for another later.
        monitor: Validation metric that chooses the best checkpoint: `map_at_r` (of the features) or another
            column of history.csv without `val_`; `auto` = `embeddings_map_at_r` if the features stay
            fixed, else `map_at_r`. Where training changes neither features nor embeddings (a frozen
            encoder, and no head), it is the hierarchical F1 of the objective's own answers.
        space: What embeddings are: those of the `head` that is trained; or `posterior`: expected classes by
            the probabilities of a ridge head, which is solved on the features when training has ended, as
            `tree-ridge` has them. The objective's own answers do not change by it.
        leave_group_out: Whether validation leaves out results of the query's own group (other samples of its
            patient): `always`, `never`, or `auto`, which leaves them out unless every group is a class
            of its own.
        patience: Stop after this many epochs without a better `monitor`; None = never.
        on_error: `skip` unreadable images and empty texts with a warning that names them, or `raise` an
            error before training.
        pixel_cache: `always` decode all images when training begins, and keep their pixels in the cache
            folder; or `never`: decode each image whenever it is needed, in the `workers`, with nothing
            decoded in advance; `auto` keeps the pixels if there is room. The pixels are the same.
        precision: `32`, `bf16` or `16`: the encoder and the heads compute in float32, or in bfloat16 or
            float16 (a GPU's, with scaled gradients) where that is safe; losses in float32 always.
        accelerator: `auto`, `cpu` or `gpu`.
        devices: Devices per machine; each takes its share of every batch.
        num_nodes: Number of machines; one process for each device is started by `torchrun` or SLURM's
            `srun`.
        workers: Loader processes; 0 = load in the training process, best for small images.
        logger: a logger of Lightning that writes to disk, beside `history.csv`: `tensorboard`, `mlflow`,
            `wandb` (Weights & Biases) or `none`.
        logger_folder: Folder of its logs; None = `logs` in the run folder.
        checkpoint_minutes: Save the training state this often within an epoch; always at its end.
        channels_last: Memory format of images and weights.
        compile: Compile the encoder when training begins, which takes half a minute and more, and makes steps
            faster.
        options: Settings of each objective, by name.
    """

    data: str
    objective: str = "auto"
    data_path: str | None = None
    taxonomy: str | None = None
    mapping: str | None = None
    corrections: list[str] | str | None = None
    table: TableRecipe = field(default_factory=TableRecipe)
    missing_labels: list[str] | str | None = None
    coarsen: int | None = None
    train_taxonomy: str | None = None
    taxonomy_noise: float = 0.0
    projection: Literal["odir", "yolo9000"] = "yolo9000"
    inner_share: float = 0.0
    inner: Literal["keep", "drop"] = "keep"
    label_noise: float = 0.0
    unseen_classes: int | float | list[str] | str | None = None
    unseen_depth: int | None = None
    geometry: Literal["auto", GeometryName] = "auto"
    curvature: float = -1.0
    encoder: str = "auto"
    pretrained: bool | None = None
    weights: str | None = None
    pooling: Literal["auto", "pooler", "cls", "mean"] = "auto"
    trainable: str = "auto"
    lora: LoraRecipe = field(default_factory=LoraRecipe)
    adapter: int | None = None
    image_size: int | None = None
    channels: Literal[1, 3] | None = None
    max_length: int | None = None
    views: Literal["auto", "simclr", "randaugment", "crop", "dropout", "word-deletion", "identity"] = "auto"
    deletion: float = 0.1
    modality_dropout: float = 0.5
    dropout: float | None = None
    erasing: float = 0.0
    flip: bool = True
    num_views: int | None = None
    sampler: Literal["auto", SamplerName] = "auto"
    batch_size: int | None = None
    encode_chunk: int | None = None
    epochs: int | None = None
    limit: int | None = None
    train_limit: int | None = None
    test_limit: int | None = None
    val: float = 0.1
    test: float = 0.2
    calib: float = 0.0
    fold: str | None = None
    seed: int = 0
    head: HeadRecipe = field(default_factory=HeadRecipe)
    optimizer: OptimizerRecipe = field(default_factory=OptimizerRecipe)
    queue: QueueRecipe = field(default_factory=QueueRecipe)
    term_weights: list[float] = field(default_factory=list)
    schedules: dict[str, list[list[float]]] = field(default_factory=dict)
    ema: float = 0.0
    ema_evaluate: bool = False
    classifier: ClassifierChoice = "auto"
    monitor: str = "auto"
    space: Literal["head", "posterior"] = "head"
    leave_group_out: Literal["auto", "always", "never"] = "auto"
    patience: int | None = None
    on_error: Literal["raise", "skip"] = "skip"
    pixel_cache: Literal["auto", "always", "never"] = "auto"
    precision: Literal["32", "bf16", "16"] = "32"
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: int = 1
    num_nodes: int = 1
    workers: int = 0
    logger: Literal["none", "tensorboard", "mlflow", "wandb"] = "none"
    logger_folder: str | None = None
    checkpoint_minutes: float = 2.0
    channels_last: bool = True
    compile: bool = False
    options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kinds(self)
        _check_ranges(self)
        _check_together(self)

    @property
    def world_size(self) -> int:
        """The number of devices of all machines together."""
        return self.devices * self.num_nodes

    @property
    def learning_rates(self) -> tuple[float, float]:
        """The peak learning rates of the encoder and of everything else."""
        trained = bool(self.pretrained) or self.weights is not None
        lr, factor = self.optimizer.lr, self.optimizer.head_lr_factor
        lr = (1e-4 if trained else 3e-3) if lr is None else lr
        return lr, lr * ((10.0 if trained else 1.0) if factor is None else factor)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as nested plain values, objectives' settings under their own names."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        options: dict[str, Any] = plain.pop("options")
        return plain | options

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """Restore a recipe from the output of `to_dict`.

        Settings that are missing have their defaults. Names that are no settings are options of objectives.

        Raises:
            ValueError: If a value has the wrong type or is out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)} - {"options"}
        values = {name: value for name, value in content.items() if name in known}
        options = {name: value for name, value in content.items() if name not in known}
        try:
            for name, group in GROUPS.items():
                values[name] = group(**values.get(name, {}))
            return cls(**values, options=options)
        except TypeError as error:
            raise ValueError(f"these are not settings of a recipe: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write the recipe as YAML, atomically."""
        import yaml

        with atomic_write(path) as temporary:
            temporary.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True), "utf-8")

    def computed_by(self) -> dict[str, Any]:
        """All settings that affect the results of a run, by dotted name."""
        return {key: value for key, value in flatten(self.to_dict()).items() if key not in _CARRYING_OUT}

    def differences(self, other: Recipe, but: Collection[str] = ()) -> list[str]:
        """A sentence such as `epochs is 10, not 20` for each setting that differs.

        Settings that do not affect the results of a run are ignored, and so are those named in `but`.
        """
        mine, theirs = flatten(self.to_dict()), flatten(other.to_dict())
        return [
            f"{key} is {mine.get(key)}, not {theirs.get(key)}"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key) != theirs.get(key) and key not in {*_CARRYING_OUT, *but}
        ]


def what_is_trained(recipe: Recipe) -> str:
    """What of a model was trained by a resolved recipe, in words.

    Example:
        >>> what_is_trained(Recipe("photos", encoder="efficientnet-lite0", pretrained=True, trainable="head"))
        'the head alone, on the features of the pretrained encoder'
    """
    start = "pretrained encoder" if recipe.pretrained or recipe.weights is not None else "encoder"
    if recipe.trainable == "head":
        layer = "the head and the adapter" if recipe.adapter is not None else "the head alone"
        return f"{layer}, on the features of the {start}"
    if recipe.trainable == "lora":
        return f"low-rank updates of the {start}, and the head"
    if recipe.trainable.startswith("last:"):
        return f"the last stages of the {start} ({recipe.trainable.removeprefix('last:')}), and the head"
    return f"the {start} and the head" if start != "encoder" else "the encoder, from scratch, and the head"


_MOST_OF_ALL = 2**32  # a larger number is a typing mistake: no count here is that large
_MOST = {
    "epochs": 1_000_000,
    "batch_size": 2**20,
    "image_size": 4096,
    "num_views": 1000,
    "max_length": 2**20,
    "adapter": 2**16,
    "head.dim": 2**16,
    "head.hidden": 2**16,
    "head.layers": 100,
    "queue.size": 2**24,
    "lora.rank": 2**12,
    "devices": 4096,
    "num_nodes": 4096,
    "workers": 4096,
    "optimizer.lr": 1e6,
}


def _least(least: float) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value >= least, f"{least} or more"


def _hides_some(unseen: int | float | list[str] | str) -> bool:
    if isinstance(unseen, int):
        return unseen >= 1
    return 0 < unseen < 1 if isinstance(unseen, float) else bool(unseen)


_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {  # None, where a setting can be None, is in range
    "epochs devices num_nodes encode_chunk patience coarsen unseen_depth adapter": _least(1),
    "test_limit num_views": _least(1),
    "image_size head.dim head.hidden head.layers queue.size": _least(1),
    "optimizer.cycle_epochs optimizer.cycle_factor lora.rank lora.alpha": _least(1),
    "batch_size limit train_limit": _least(2),
    "max_length": _least(3),
    "workers checkpoint_minutes": _least(0),
    "optimizer.head_lr_factor optimizer.weight_decay optimizer.warmup_epochs": _least(0),
    "curvature": (lambda value: value < 0, "below 0"),
    "head.gain optimizer.lr optimizer.decay optimizer.clip_norm": (lambda value: value > 0, "above 0"),
    "val test": (lambda value: 0 < value < 1, "between 0 and 1"),
    "ema inner_share deletion dropout optimizer.momentum lora.dropout": (
        lambda value: 0 <= value < 1,
        "in [0, 1)",
    ),
    "erasing label_noise modality_dropout": (lambda value: 0 <= value <= 1, "a probability, 0 to 1"),
    "taxonomy_noise": (lambda value: 0 <= value <= 1, "a share, 0 to 1"),
    "queue.momentum": (lambda value: 0 <= value <= 1, "between 0 and 1"),
    "seed": (lambda value: 0 <= value < 2**32, "from 0 to 2^32 - 1"),
    "term_weights": (lambda value: all(weight >= 0 for weight in value), "numbers of 0 or more"),
    "optimizer.milestones": (lambda value: sorted(set(value)) == value, "epochs that ascend"),
    "unseen_classes": (_hides_some, "a whole number of 1 or more, a share between 0 and 1, or nodes"),
}


def _check_ranges(recipe: Recipe) -> None:
    """Check every number by itself, then numbers whose range depends on another setting."""
    for name, number in numbers(recipe):
        if not math.isfinite(number):
            raise ValueError(f"{name} is {number}; it must be finite")
        most = _MOST.get(name, _MOST_OF_ALL)
        if abs(number) > most:
            raise ValueError(f"{name} is {number:g}; {most:,} is the most")
    checks = [
        (name, (value := value_of(recipe, name)) is None or holds(value), expected)
        for names, (holds, expected) in _RANGES.items()
        for name in names.split()
    ]
    r, o, rate = recipe, recipe.optimizer, recipe.learning_rates[0]
    layers = r.head.layers or 2
    small = r.head.hidden is None or r.head.hidden**2 * layers <= 2**30
    checks += [
        ("ema_evaluate", not r.ema_evaluate or r.ema > 0, "false where ema is 0"),
        (
            "batch_size",
            r.batch_size is None or r.world_size < 1 or r.batch_size % r.world_size == 0,
            f"a multiple of the {r.world_size} devices",
        ),
        (
            "head.hidden",
            small,
            f"small enough for {layers} layers: they would have more than 2^30 weights",
        ),
        (
            "optimizer.min_lr",
            o.min_lr >= 0 and (o.schedule != "sgdr" or o.min_lr <= rate),
            f"from 0 to the learning rate, {rate:g}",
        ),
    ]
    for name, holds, expected in checks:
        if not holds:
            raise ValueError(f"{name} is {value_of(recipe, name)}; it must be {expected}")


_LORA = ["lora.rank", "lora.alpha", "lora.dropout", "lora.targets"]


def _check_together(recipe: Recipe) -> None:
    """Check settings that depend on each other, as far as possible without the data and the objective."""
    if recipe.coarsen is not None and recipe.train_taxonomy is not None:
        raise ValueError("coarsen and train_taxonomy each say what to train on; give one of them")
    if recipe.fold is not None:
        from labeltree.data.splits import fold_number

        fold_number(recipe.fold)
    from labeltree.models.build import encoder_pair  # the parser of the command line needs no models

    optimizer = recipe.optimizer
    deletes = recipe.views in ("auto", "word-deletion") or encoder_pair(recipe.encoder) is not None
    single = encoder_pair(recipe.encoder) is None
    drawn = isinstance(recipe.unseen_classes, int | float)
    for names, idle, because in (
        (["logger_folder"], recipe.logger == "none", "while logger is 'none'"),
        (["test"], recipe.fold is not None, "while fold chooses the test samples"),
        (["mapping"], recipe.taxonomy is None, "without taxonomy, to which it leads"),
        (["projection"], recipe.train_taxonomy is None, "without train_taxonomy"),
        (["unseen_depth"], not drawn, "unless unseen_classes is a number or a share"),
        (["inner"], recipe.inner_share == 0, "while inner_share is 0"),
        (["deletion"], not deletes, f"while views is '{recipe.views}', not 'word-deletion'"),
        (_LORA, recipe.trainable != "lora", f"while trainable is '{recipe.trainable}', not 'lora'"),
        (
            ["modality_dropout"],
            single,
            f"for encoder '{recipe.encoder}', which does not read images and texts",
        ),
        (["erasing", "flip", "dropout"], recipe.views == "identity", "while views is 'identity'"),
    ):
        check_idle(recipe, names, idle, because)
    for name, wanted, names in (
        ("name", "sgd", ["momentum", "nesterov"]),
        ("schedule", "step", ["milestones", "decay"]),
        ("schedule", "sgdr", ["cycle_epochs", "cycle_factor", "min_lr"]),
    ):
        given = getattr(optimizer, name)
        dotted = [f"optimizer.{setting}" for setting in names]
        check_idle(recipe, dotted, given != wanted, f"while optimizer.{name} is '{given}', not '{wanted}'")
    if optimizer.schedule == "step" and not optimizer.milestones:
        raise ValueError("optimizer.schedule is 'step', so optimizer.milestones must say at which epochs")
    if optimizer.nesterov and optimizer.momentum == 0:
        raise ValueError("optimizer.nesterov needs optimizer.momentum above 0")
