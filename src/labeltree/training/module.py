"""The Lightning module: training step, validation epoch, and compilation of the encoders."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import cached_property
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from labeltree.data import TextViews, TokenStore, counter_rng
from labeltree.geometry import Geometry, Sphere
from labeltree.metrics.functional import (
    class_prototypes,
    hierarchical_f1,
    pair_violations,
    parent_violations,
    retrieval_metrics,
)
from labeltree.models import Encoder, KeyQueue, MomentumEncoder, PairedEncoder, encode_in_chunks
from labeltree.taxonomy import Taxonomy
from labeltree.training.batches import Batch
from labeltree.training.objective import Objective, OneModality
from labeltree.training.objective_schedules import Schedules
from labeltree.training.optimizer_and_learning_rate import build_optimizer, learning_rate_factor
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_settings import check_idle
from labeltree.training.tokens_and_views import Inputs, ViewPair, in_memory_format, stack
from labeltree.training.training_length import epochs_and_batch_size

__all__ = [
    "IMAGE_TEXT_METRIC",
    "OWN_METRIC",
    "VALIDATION_METRICS",
    "RepresentationModule",
    "compile_encoders",
    "violations",
]

_MAX_PAIRS = 2**15
_MODALITIES = 1 << 24  # stream of what a view shows, far from those of the views themselves
COMPILER = "inductor"


def violations(embeddings: Tensor, nodes: Tensor, taxonomy: Taxonomy, geometry: Geometry) -> dict[str, float]:
    """Compute `pair_violations` and `parent_violations`, NaN where undefined.

    Prototypes of parents are means of these samples, the only ones embedded after an epoch. Evaluation uses
    means of training samples instead and finds somewhat more violations.

    Args:
        embeddings: `(n, d)` points of the geometry.
        nodes: Labels `(n,)`, −1 where missing.
        taxonomy: Taxonomy of the nodes.
        geometry: Geometry of the embeddings.
    """
    known = nodes >= 0
    points, labels = embeddings[known], nodes[known]
    pairs = pair_violations(points, labels, taxonomy, geometry, max_pairs=_MAX_PAIRS)
    prototypes = class_prototypes(points, labels, taxonomy, geometry)
    parents = parent_violations(points, labels, taxonomy, prototypes, geometry=geometry)
    return {"pair_violations": float(pairs), "parent_violations": float(parents)}


IMAGE_TEXT_METRIC = "image_text_recall_at_1"  # of runs on images and texts
# Names of the metrics in the history, and in `retrieval_metrics`.
OWN_METRIC = "own_hierarchical_f1"  # of answers, where training changes neither features nor embeddings
VALIDATION_METRICS = {"recall_at_1": "recall@1", "map_at_r": "map@r", "ahp": "ahp@250"}


class RepresentationModule(L.LightningModule):
    """Trains an encoder with an objective.

    Every random number of a step comes from `(seed, step)` or, for views, from `(seed, epoch, sample,
    view)`, so a step is the same whether or not training was interrupted before it.

    Args:
        recipe: The recipe.
        taxonomy: Taxonomy of the validation labels.
        encoder: Maps images or texts to features.
        objective: Maps features and labels to a loss.
        views: Make training views and plain views, on the device of the batch.
        steps_per_epoch: Optimizer steps per epoch, for the learning-rate schedule.
        num_queries: Number of queries, the first of the validation samples; the rest are the gallery. None,
            or the number of all samples = each is searched for among the others.
        validation_groups: Group of each validation sample `(n,)`, if results from the query's own group are
            left out; None if they count.
        answer_nodes: Node of `taxonomy` of each node that the objective answers with; None = the same ones.

    Attributes:
        reads_features: Whether batches hold precomputed features of a frozen encoder instead of samples.
    """

    def __init__(
        self,
        recipe: Recipe,
        taxonomy: Taxonomy,
        encoder: Encoder,
        objective: Objective,
        views: ViewPair,
        steps_per_epoch: int,
        num_queries: int | None = None,
        validation_groups: Tensor | None = None,
        answer_nodes: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.recipe = recipe
        self.taxonomy = taxonomy
        self.encoder = encoder
        self.objective = objective
        self.views = views
        self.reads_features = False
        self.steps_per_epoch = steps_per_epoch
        self.num_queries = num_queries
        self.validation_groups = validation_groups
        self.answer_nodes = torch.arange(taxonomy.num_nodes) if answer_nodes is None else answer_nodes
        self.averaged: AveragedModel | None = None
        if recipe.ema > 0:
            average = get_ema_multi_avg_fn(recipe.ema)  # type: ignore[no-untyped-call]
            self.averaged = AveragedModel(encoder, multi_avg_fn=average, use_buffers=True)
            self.averaged.requires_grad_(False)  # without a gradient, distributed training would wait for one
        self.momentum: MomentumEncoder | None = None
        self.queue: KeyQueue | None = None
        if objective.needs_keys:
            self.momentum = MomentumEncoder(encoder, objective.head)
            self.queue = KeyQueue(recipe.queue.size, objective.dim)
        self._schedules = Schedules(recipe.schedules, objective)
        self.step_losses: dict[str, Tensor] = {}
        self._validation: list[tuple[Tensor, Tensor, Tensor]] = []
        self._validated_alone: list[tuple[Tensor, Tensor, Tensor]] = []
        self._answered: list[Tensor] = []
        self._of_fixed_features: dict[str, Tensor] | None = None

    @property
    def evaluated_encoder(self) -> Encoder:
        """The encoder whose features are validated, saved and evaluated."""
        if self.averaged is not None and self.recipe.ema_evaluate:
            average: Encoder = self.averaged.module  # type: ignore[assignment]
            return average
        return self.encoder

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed everything random in this step, such as dropout, by the step alone; apply the schedules."""
        seed = hash((self.recipe.seed, self.global_step, self.global_rank)) % 2**32
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self._schedules(self.global_step / self.steps_per_epoch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch, its views stacked view by view."""
        views = self.objective.num_views
        # The second view gives the keys, whether or not the encoder also learns from it.
        made = [self._view(batch, view) for view in range(views if self.momentum is None else max(views, 2))]
        samples = stack(made[:views])
        nodes, instances = batch["nodes"], batch["instances"]
        extra: dict[str, Any] = {
            name: batch[name].repeat(views, 1)
            for name in ("aspects", "ratings", "label_sets")
            if name in batch
        }
        if self.momentum is not None:
            keys = self._keys(made[1])
            extra |= {"keys": keys, "queue": self.queue, "num_queries": len(instances)}
        below = self._run_below_adapter(self.encoder, samples)
        if isinstance(self.encoder, PairedEncoder):
            features, extra["alone"] = self._features_of_both(self.encoder, below, batch, views)
        else:
            features = self.encoder.adapt(below)
        losses: dict[str, Tensor] = self.objective(
            features,
            nodes.repeat(views),
            instances.repeat(views),
            **extra,
        )
        if self.queue is not None:
            self.queue.enqueue(keys, nodes, instances)
        self.step_losses = {name: value.detach() for name, value in losses.items()}
        self.log("loss", self.step_losses["loss"], prog_bar=True, batch_size=len(instances))
        return losses["loss"]

    def _features_of_both(
        self, encoder: PairedEncoder, below: Tensor, batch: Batch, views: int
    ) -> tuple[Tensor, OneModality]:
        """Features of samples, each of a view's image, its text or both; and of every image and text alone.

        Which a view shows depends only on (seed, epoch, sample, view).
        """
        images, texts, present = encoder.each(below)
        instances = self._instances_of_views(batch)
        kept = []
        for view in range(views):
            keys = counter_rng.sample_keys(self.recipe.seed, batch["epoch"], view, instances)
            drawn = counter_rng.uniform(keys, 2, _MODALITIES)
            drop = drawn[:, :1] < self.recipe.modality_dropout
            first = drawn[:, 1:] < 0.5
            kept.append(~(drop & torch.cat([first, ~first], 1)))
        dropped = torch.cat(kept)
        seen = present & (dropped | ~present.all(1, keepdim=True))
        columns = (batch["nodes"].repeat(views), batch["instances"].repeat(views))
        shown, told = (side.nonzero()[:, 0] for side in present.unbind(1))
        alone = OneModality(
            images[shown], texts[told], *(column[rows] for rows in (shown, told) for column in columns)
        )
        if self.objective.reads_names:
            alone = self._name_path(encoder, alone)
        return encoder.mean_of(images, texts, seen), alone

    def _name_path(self, encoder: PairedEncoder, alone: OneModality) -> OneModality:
        """The names of all nodes on the paths of the images' labels, in place of the samples' texts."""
        labels = alone.image_nodes[alone.image_nodes > 0].cpu()
        nodes = self.taxonomy.ancestors[labels, 1:].unique()  # type: ignore[no-untyped-call]
        nodes = nodes[nodes > 0]
        texts = alone.texts[:0]
        if len(nodes):
            tokens = self._name_tokens.load(nodes).to(texts.device)
            plain = TextViews("identity", self.recipe.seed)(tokens, nodes.to(texts.device))
            encoded = encode_in_chunks(encoder.base.text, plain, self.recipe.encode_chunk)
            texts = encoder.text_features(encoded)
        nodes = nodes.to(texts.device)
        return alone._replace(texts=texts, text_nodes=nodes, text_instances=-1 - nodes)  # of no sample

    @cached_property
    def _name_tokens(self) -> TokenStore:
        """The tokens of each node's name, with those above it where another of its depth is called so."""
        assert isinstance(self.encoder, PairedEncoder)
        tree = self.taxonomy
        called = list(zip(tree.depth.tolist(), tree.names, strict=True))
        alike = Counter(called)
        names = [
            name if alike[depth, name] == 1 else " ".join(tree.path(node))
            for node, (depth, name) in enumerate(called)
        ]
        texts = [name.replace("_", " ") for name in names]
        return TokenStore(*self.encoder.base.text.tokenize(texts, self.recipe.max_length))

    def _instances_of_views(self, batch: Batch) -> Tensor:
        """Ids of the samples, other ones for each repetition in an epoch: it gets views of its own."""
        instances: Tensor = batch["instances"] + (batch["turns"] << 40 if "turns" in batch else 0)
        return instances

    def _view(self, batch: Batch, view: int) -> Inputs:
        with torch.autocast(self.device.type, enabled=False):  # views are exact whatever the precision
            instances = self._instances_of_views(batch)
            if self.reads_features:
                features: Tensor = batch["samples"]
                return features
            samples = self.views.training(batch["samples"], instances, batch["epoch"], view)
        return in_memory_format(samples, self.recipe)

    def _features(self, encoder: Encoder, samples: Inputs) -> Tensor:
        """Features of samples, or of precomputed features of a frozen encoder."""
        return encoder.adapt(self._run_below_adapter(encoder, samples))

    def _run_below_adapter(self, encoder: Encoder, samples: Inputs) -> Tensor:
        if self.reads_features:
            assert isinstance(samples, Tensor)
            return samples
        return encode_in_chunks(encoder.without_adapter, samples, self.recipe.encode_chunk)

    def plain(self, samples: Inputs, instances: Tensor) -> Inputs:
        """The plain view of samples, unaugmented, as the encoder reads them."""
        with torch.autocast(self.device.type, enabled=False):
            return in_memory_format(self.views.plain(samples, instances), self.recipe)

    def _keys(self, samples: Inputs) -> Tensor:
        """Embeddings by the momentum encoder, which first follows the encoder (MoCo's order)."""
        assert self.momentum is not None
        self.momentum.update(self.encoder, self.objective.head, self.recipe.queue.momentum)
        seed = hash((self.recipe.seed, self.global_step)) % 2**32
        vectors = self.momentum(samples, seed=seed, chunk=self.recipe.encode_chunk)
        with torch.no_grad():
            keys: Tensor = self.objective.geometry.embed(vectors)
        return keys

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, then update the average of the weights before anything can be saved."""
        super().optimizer_step(*args, **kwargs)
        if self.averaged is not None:
            self.averaged.update_parameters(self.encoder)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Features and embeddings of unaugmented validation samples."""
        samples = batch["samples"]
        if not self.reads_features:
            samples = self.plain(samples, batch["instances"])
        encoder = self.evaluated_encoder
        below = self._run_below_adapter(encoder, samples)
        if isinstance(encoder, PairedEncoder):
            images, texts, present = encoder.each(below)
            shown, told = (self.objective.embed(points.float()).float().cpu() for points in (images, texts))
            self._validated_alone.append((shown, told, present.cpu()))
        features = encoder.adapt(below).float()
        embeddings = self.objective.embed(features).float()
        if self.recipe.monitor == OWN_METRIC and (answers := self.objective.predict(features)) is not None:
            self._answered.append(answers.cpu())
        self._validation.append((features.cpu(), embeddings.cpu(), batch["nodes"].cpu()))

    def validation_is_finite(self) -> bool:
        """Whether all features and embeddings of the validation samples so far are finite."""
        return all(bool(column.isfinite().all()) for batch in self._validation for column in batch[:2])

    def on_validation_epoch_end(self) -> None:
        """Log violations and retrieval metrics, by features and by embeddings, of the validation samples."""
        features, embeddings, nodes = (torch.cat(column) for column in zip(*self._validation, strict=True))
        self._validation.clear()
        q = len(nodes) if self.num_queries is None else self.num_queries
        groups = self.validation_groups
        for prefix, points, geometry in (
            ("val_", features, Sphere()),
            ("val_embeddings_", embeddings, self.objective.geometry),
        ):
            fixed = prefix == "val_" and self.reads_features and self.recipe.adapter is None
            values = self._of_fixed_features if fixed else None
            if values is None:
                among = (points[q:], nodes[q:]) if q < len(points) else ()
                values = retrieval_metrics(
                    points[:q],
                    nodes[:q],
                    self.taxonomy,
                    *among,
                    geometry=geometry,
                    query_groups=None if groups is None else groups[:q],
                    key_groups=groups[q:] if groups is not None and among else None,
                )
            if fixed:
                self._of_fixed_features = values
            for name, key in VALIDATION_METRICS.items():
                monitored = prefix + name == f"val_{self.recipe.monitor}"
                self.log(prefix + name, float(values[key]), prog_bar=monitored, batch_size=1)
        if self._validated_alone:
            self._log_image_text(nodes[:q], q)
        if self._answered:
            answers = self.answer_nodes[torch.cat(self._answered)]
            self._answered.clear()
            right = hierarchical_f1(answers[:q], nodes[:q], self.taxonomy)
            self.log(f"val_{OWN_METRIC}", float(right), prog_bar=True, batch_size=1)
        shares = violations(embeddings[:q], nodes[:q], self.taxonomy, self.objective.geometry)
        for name, value in shares.items():
            if not math.isnan(value):
                self.log(f"val_embeddings_{name}", value, batch_size=1)

    def _log_image_text(self, nodes: Tensor, q: int) -> None:
        """Log the recall@1 between images alone and texts alone of the queries, the mean of both ways."""
        images, texts, present = (
            torch.cat(column)[:q] for column in zip(*self._validated_alone, strict=True)
        )
        self._validated_alone.clear()
        there = present.all(1) & (nodes >= 0)
        images, texts, nodes = images[there], texts[there], nodes[there]
        if not len(nodes):
            return
        similarity = self.objective.geometry.pairwise_similarity(images, texts)
        hits = [nodes[side.argmax(1)] == nodes for side in (similarity, similarity.T)]
        recall = float(torch.cat(hits).double().mean())
        shown = self.recipe.monitor == IMAGE_TEXT_METRIC
        self.log(f"val_{IMAGE_TEXT_METRIC}", recall, prog_bar=shown, batch_size=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Leave out the weights of a frozen encoder if batches hold its precomputed features."""
        for key in self._constant_keys():
            del checkpoint["state_dict"][key]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Put back the weights that `on_save_checkpoint` left out: they have not changed since the start.

        The learning rate is the recipe's, which may have changed after training diverged.
        """
        own = self.state_dict()
        checkpoint["state_dict"] |= {key: own[key] for key in self._constant_keys()}
        if "optimizer_states" in checkpoint:
            self._take_own_rates(checkpoint["optimizer_states"][0], checkpoint["lr_schedulers"][0])

    def _take_own_rates(self, optimizer: dict[str, Any], schedule: dict[str, Any]) -> None:
        fresh = self.configure_optimizers()["lr_scheduler"]["scheduler"]
        if len(fresh.base_lrs) != len(schedule["base_lrs"]) or fresh.base_lrs == schedule["base_lrs"]:
            return
        schedule["base_lrs"] = list(fresh.base_lrs)
        done = schedule["last_epoch"]
        rates = [rate * at(done) for rate, at in zip(fresh.base_lrs, fresh.lr_lambdas, strict=True)]
        schedule["_last_lr"] = rates
        for group, peak, rate in zip(optimizer["param_groups"], fresh.base_lrs, rates, strict=True):
            group["initial_lr"], group["lr"] = peak, rate

    def _constant_keys(self) -> list[str]:
        if not self.reads_features:
            return []
        constant = {id(value) for value in self.encoder.without_adapter.state_dict(keep_vars=True).values()}
        return [key for key, value in self.state_dict(keep_vars=True).items() if id(value) in constant]

    def configure_optimizers(self) -> Any:
        """The optimizer, with a separate learning rate for the head, and a schedule by step."""
        optimizer = build_optimizer(
            self.recipe.optimizer, self.encoder, self.objective, self.recipe.learning_rates
        )
        epochs, _ = epochs_and_batch_size(self.recipe)
        factor = learning_rate_factor(
            self.recipe.optimizer, epochs, self.steps_per_epoch, self.recipe.learning_rates[0]
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def compile_encoders(module: RepresentationModule, device: torch.device) -> None:
    """Compile the encoder and the momentum encoder with `torch.compile`.

    Compilation happens at the first call. Names and values of parameters do not change, so checkpoints of
    compiled and uncompiled runs are interchangeable.

    Args:
        module: The module, changed in place.
        device: The training device.

    Raises:
        ValueError: If nothing can be compiled here, or training does not call the encoder.
    """
    check_idle(module.recipe, ["compile"], module.reads_features, "where features are computed once")
    try:
        torch.compile(_probe, backend=COMPILER)(torch.zeros(8, device=device))
    except RuntimeError as error:
        inner = getattr(error, "inner_exception", error)  # the error that stopped the compiler
        reason = next((line for line in str(inner).splitlines() if line.strip()), type(inner).__name__)
        raise ValueError(
            f"compile is True, but nothing can be compiled here: {reason}. It needs a C++ compiler and "
            "the headers of Python (on Debian: g++ and python3-dev); install them, or leave compile out"
        ) from error
    encoders: list[nn.Module] = [module.encoder.without_adapter]
    if module.momentum is not None:
        encoders.append(module.momentum.encoder)
    for encoder in encoders:
        encoder.compile(backend=COMPILER)


def _probe(x: Tensor) -> Tensor:
    return (x + 1).sin()
