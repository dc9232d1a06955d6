"""An objective: losses, heads and sampler; everything in training except the encoder."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from labeltree.geometry import get_geometry
from labeltree.losses import DeViSELoss
from labeltree.models import ProjectionHead, encoder_pair
from labeltree.ridge import TreeRidgeLoss
from labeltree.sampling import BatchSampler
from labeltree.sampling.named_samplers import NAMED_SAMPLERS
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import trust_labels
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_settings import check_idle
from labeltree.training.registry import ObjectiveEntry, default_options, get_sum, head_layers, objective_terms
from labeltree.training.resolution import check_terms, chosen_geometry

__all__ = ["Objective", "OneModality", "Term"]

Builder = Callable[[dict[str, Any]], nn.Module]

_DIM = 128


# The parameter names that a loss or its `predict` may have; `Objective` describes each.
_BY_ROW = ("features", "embeddings", "nodes", "instances", "aspects", "ratings")
_OF_ONE = ("images", "texts", "image_nodes", "image_instances", "text_nodes", "text_instances")
_OFFERED = (*_BY_ROW, *_OF_ONE, "logits", "heads", "queries", "keys", "queue")


class OneModality(NamedTuple):
    """The images of a batch and its texts, each alone: N views of samples that have one.

    Attributes:
        images: Features `(m, f)` of the images.
        texts: Features `(k, f)` of the texts.
        image_nodes: Labels `(m,)`.
        image_instances: Sample ids `(m,)`.
        text_nodes: Labels `(k,)`.
        text_instances: Sample ids `(k,)`.
    """

    images: Tensor
    texts: Tensor
    image_nodes: Tensor
    image_instances: Tensor
    text_nodes: Tensor
    text_instances: Tensor


class Term(nn.Module):
    """A loss with its weight.

    Args:
        entry: Entry of the registry.
        loss: The loss built by the entry.
        weight: Factor in the sum.
        widths: Widths of features and of embeddings.
        make_head: Function that builds a projection head.
        of_aspects: Whether the loss is computed from the samples' aspects instead of their labels.

    Attributes:
        asks: Names of the inputs that the loss reads. A loss with `reads = "features"` is called with these
            as its `embeddings`.
        classifier: Linear classifier from features or embeddings to `loss.classes`; None unless the loss
            asks for `logits`.
        of_aspects: Whether the loss is computed from aspects.
        heads: `loss.num_heads` projection heads; empty unless the loss asks for `heads`.

    Raises:
        ValueError: If the loss asks for an unknown input, or does not declare its number of classes or heads.
    """

    def __init__(
        self,
        entry: ObjectiveEntry,
        loss: nn.Module,
        weight: float,
        widths: Mapping[str, int],
        make_head: Callable[[], nn.Module],
        of_aspects: bool = False,
    ) -> None:
        super().__init__()
        self.name = entry.name
        self.entry = entry
        self.loss = loss
        self.weight = weight
        self._embeddings = str(getattr(loss, "reads", "embeddings"))
        self._inputs = self._asked_inputs(loss.forward)
        self.asks = frozenset(self._source(key) for key in self._inputs)
        parameters = inspect.signature(loss.forward).parameters
        self._needs = frozenset(
            key for key in self._inputs if parameters[key].default is inspect.Parameter.empty
        )
        self._reads = entry.classifier
        self.of_aspects = of_aspects
        if of_aspects:
            self._needs |= {"aspects"}
        if getattr(loss, "needs_ratings", False):
            self._needs |= {"ratings"}
        self.classifier: nn.Linear | None = None
        if "logits" in self.asks:
            self.classifier = nn.Linear(widths[entry.classifier], len(self._wish("logits", "classes")))
        count = int(self._wish("heads", "num_heads")) if "heads" in self.asks else 0
        self.heads = nn.ModuleList(make_head() for _ in range(count))

    def check_samples(self, *, aspects: bool, ratings: bool) -> None:
        """Check before training that the samples have what the loss needs.

        Raises:
            ValueError: If something is missing.
        """
        for key, there in (("aspects", aspects), ("ratings", ratings)):
            if key in self._needs and not there:
                raise ValueError(
                    f"objective '{self.name}' needs {key}, which the samples do not have; in a table, "
                    "columns of whole numbers named in table.aspect_columns are both; or leave out what "
                    "needs them, such as mlcl.global_head"
                )

    @property
    def label_sets(self) -> Literal["relation", "rows"] | None:
        """How the loss takes samples with several labels, see `Loss`; None: with their common ancestor."""
        declared: Literal["relation", "rows"] | None = getattr(self.loss, "label_sets", None)
        return None if self.of_aspects or "queries" in self.asks else declared

    @property
    def reads_embeddings(self) -> bool:
        """Whether this term reads the embeddings of the shared head."""
        classifies_them = "logits" in self.asks and self._reads == "embeddings"
        return classifies_them or bool(self.asks & {"embeddings", "queries", "images"})

    @property
    def contrasts_modalities(self) -> bool:
        """Whether the loss compares images with texts."""
        return bool(self.asks & {"images", "texts"})

    def forward(self, offered: Mapping[str, Any], num_queries: int | None = None) -> Tensor:
        """Compute the loss of a batch from the inputs by name."""
        if "queries" in self.asks:
            rows = {key: offered[key][:num_queries] for key in _BY_ROW if offered.get(key) is not None}
            offered = {**offered, **rows, "queries": rows["embeddings"]}
        for key in ("keys", "queue", "aspects", "ratings"):
            if key in self._needs and offered.get(key) is None:
                raise ValueError(f"objective '{self.name}' needs {key}, which this batch does not have")
        if self.of_aspects:
            offered = {**offered, "nodes": offered["aspects"]}
        elif offered.get("label_sets") is not None and self.label_sets == "relation":
            offered = {**offered, "nodes": offered["label_sets"]}
        elif offered.get("label_sets") is not None and self.label_sets == "rows":
            offered = one_label_a_row(offered)
        elif offered.get("label_sets") is not None:  # labels with nothing in common say nothing
            given = [name for name in ("nodes", "image_nodes", "text_nodes") if name in offered]
            below = {name: torch.where(offered[name] > 0, offered[name], -1) for name in given}
            offered = {**offered, **below}
        loss: Tensor = self.loss(**self._feed(self._inputs, offered))
        if loss.ndim:
            raise ValueError(
                f"the loss of objective '{self.name}' has shape {tuple(loss.shape)}; expected one number"
            )
        return loss

    def answer(self, method: str, offered: Mapping[str, Any]) -> Tensor | None:
        """The nodes predicted by the loss itself; None if it does not predict.

        Args:
            method: `predict` for labels, nodes `(n,)`; `predict_depths` for those of each depth, `(n, l)`;
                `predict_aspects` for aspects, `(n, A)`.
            offered: Features and embeddings, by name.
        """
        answer = getattr(self.loss, method, None)
        if answer is None or self.of_aspects != (method == "predict_aspects"):
            return None
        nodes: Tensor = answer(**self._feed(self._asked_inputs(answer), offered))
        return nodes

    @property
    def answers(self) -> bool:
        """Whether the loss itself predicts the samples' labels."""
        return not self.of_aspects and getattr(self.loss, "predict", None) is not None

    def class_scores(self, offered: Mapping[str, Any]) -> tuple[Tensor, Tensor] | None:
        """The loss's classes `(C,)` and their logits `(n, C)`; None if it predicts without a softmax."""
        classes, logits = getattr(self.loss, "classes", None), getattr(self.loss, "logits", None)
        if not self.answers or not isinstance(classes, Tensor):
            return None
        if self.classifier is not None:
            return classes, self.classifier(offered[self._reads])
        if not callable(logits):
            return None
        return classes, logits(**self._feed(self._asked_inputs(logits), offered))

    def _feed(self, asked: frozenset[str], offered: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if "logits" in asked and self.classifier is not None:
            made["logits"] = self.classifier(offered[self._reads])
        if "heads" in asked:
            made["heads"] = [head(offered["features"]) for head in self.heads]
        return {key: made[key] if key in made else offered[self._source(key)] for key in asked}

    def _source(self, asked: str) -> str:
        """The name under which what a loss asks for is offered."""
        return self._embeddings if asked == "embeddings" else asked

    def _wish(self, asked: str, attribute: str) -> Any:
        if not hasattr(self.loss, attribute):
            raise ValueError(
                f"objective '{self.name}' asks for {asked}, so its loss {type(self.loss).__name__} must have "
                f"an attribute '{attribute}' that says how many"
            )
        return getattr(self.loss, attribute)

    def _asked_inputs(self, function: Callable[..., Any]) -> frozenset[str]:
        """The names of the inputs that the function asks for."""
        parameters = inspect.signature(function).parameters
        unknown = [key for key, p in parameters.items() if key not in _OFFERED and p.default is p.empty]
        if unknown:
            raise ValueError(
                f"objective '{self.name}' asks for '{unknown[0]}'; what losses can ask for is "
                f"{', '.join(_OFFERED)}"
            )
        return frozenset(parameters) & frozenset(_OFFERED)


def one_label_a_row(offered: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a loss with a row for each label of each sample; one without a label keeps its row.

    Args:
        offered: The inputs by name, with `label_sets (n, k)`.
    """
    sets: Tensor = offered["label_sets"]
    given = sets >= 0
    given[:, 0] |= ~given.any(1)
    rows = given.nonzero()[:, 0]
    columns = {key: offered[key] for key in _BY_ROW if offered.get(key) is not None}
    return {**offered, **{key: column[rows] for key, column in columns.items()}, "nodes": sets[given]}


class Objective(nn.Module):
    """The weighted sum of the losses named by `recipe.objective`, with their heads.

    The parameter names of a loss's `forward` determine its inputs:

    - `embeddings (n, d)`: of one projection head that all losses share, in the run's geometry; all views;
    - `features (n, f)`: outputs of the encoder; a loss with `reads = "features"` has them as its
      `embeddings`;
    - `logits (n, C)`: of the loss's own linear classifier, whose columns are the nodes `loss.classes`;
    - `heads`: a list of `loss.num_heads` raw outputs `(n, d)` of the loss's own projection heads;
    - `queries (b, d)`, `keys (b, d)`, `queue`: embeddings of the first view, the momentum encoder's
      embeddings of the second view, and the keys of earlier batches. For a loss that asks for `queries`,
      all other inputs also have only the rows of the first view;
    - `images (m, d)`, `texts (k, d)`: where samples have both, embeddings of every view's image alone and
      of its text alone, with `image_nodes`, `image_instances`, `text_nodes` and `text_instances`;
    - `nodes (n,)`, `instances (n,)`, `ratings (n, R)`: labels, the sample of each row, ordinal ratings;
      a loss that requires ratings sets `needs_ratings = True`.

    Where samples have several labels, `nodes` are those that a loss asks for by its attribute
    `label_sets` (see `labeltree.losses.loss_base.Loss`); without one, their common ancestors.

    If samples have aspects, a loss with `takes_aspects = True` gets the aspects: their taxonomies as its
    `taxonomy`, and `nodes (n, A)`. All other losses get the labels.

    Args:
        recipe: The recipe.
        taxonomy: Taxonomy of the training labels.
        feature_dim: Width of the encoder's features.
        aspects: Taxonomies of the samples' aspects, if they have any.
        entries: The objectives of the terms; None = those that are registered under the recipe's names.

    Raises:
        ValueError: For unknown objectives or options, a number of weights other than one per term, or a loss
            that asks for an unknown input.
    """

    def __init__(
        self,
        recipe: Recipe,
        taxonomy: Taxonomy,
        feature_dim: int,
        aspects: Sequence[Taxonomy] = (),
        entries: list[ObjectiveEntry] | None = None,
    ) -> None:
        super().__init__()
        is_whole = entries is None
        entries = objective_terms(recipe.objective) if entries is None else entries
        if not entries:
            raise ValueError(
                f"objective '{recipe.objective}' stands for one that is chosen by the samples; name it, or "
                "let 'prepare' or 'train' choose"
            )
        check_terms(recipe, entries)
        named = get_sum(recipe.objective)
        if named is not None:
            usual = default_options(named.name)
            options = {name: {**usual[name], **recipe.options.get(name, {})} for name in usual}
            recipe = dataclasses.replace(recipe, options=options)
        self.geometry = get_geometry(chosen_geometry(recipe, entries), recipe.curvature)
        if recipe.space == "posterior" and self.geometry.name != "sphere":
            raise ValueError(
                f"space is 'posterior', which is on the sphere, but the geometry is '{self.geometry.name}'; "
                "leave one of the two out"
            )
        self.sampler_name = entries[0].sampler if recipe.sampler == "auto" else recipe.sampler
        self._taxonomy = taxonomy
        self._options = recipe.options

        given = {"taxonomy": taxonomy, "geometry": self.geometry, "feature_dim": feature_dim}
        dim, losses, self._builders = _build(entries, recipe, given, aspects)
        make_head = partial(_projection, recipe, feature_dim, dim)
        widths = {"features": feature_dim, "embeddings": dim}
        usual_weights = [entry.weight for entry in entries] if named is None else named.weights
        weights = recipe.term_weights or usual_weights
        self.terms = nn.ModuleDict(
            {
                entry.name: Term(entry, loss, weight, widths, make_head, _is_of_aspects(entry, aspects))
                for entry, loss, weight in zip(entries, losses, weights, strict=True)
            }
        )
        self.head = make_head() if any(term.reads_embeddings for term in self._terms) else None
        self.posterior: TreeRidgeLoss | None = None
        self._dim = feature_dim if self.head is None else dim
        self._feature_dim = feature_dim
        self._check_modalities(recipe)
        compares = any("instances" in term.asks and "queries" not in term.asks for term in self._terms)
        self.num_views = recipe.num_views or (2 if compares else 1)
        if is_whole:
            self._check_use(recipe, aspects=bool(aspects))

    @property
    def every_term(self) -> list[Term]:
        """The terms, in order."""
        return self._terms

    def _check_use(self, recipe: Recipe, *, aspects: bool) -> None:
        """Refuse settings that no loss reads."""
        asked = frozenset[str]().union(*(term.asks for term in self._terms))
        first_view = all("queries" in term.asks for term in self._terms) and self.num_views > 1
        no_aspects = aspects and not any(t.of_aspects or t.asks & {"aspects", "ratings"} for t in self._terms)
        no_head = self.head is None and "heads" not in asked
        head = ["head.dim", "head.hidden", "head.gain"]
        if recipe.head.layers != 2:  # what is recorded for every run without a head
            head.append("head.layers")
        for settings, idle, because in (
            (["queue.size", "queue.momentum"], not self.needs_keys, "which has no queue"),
            (head, no_head, "which reads features and has no projection head"),
            (["num_views"], first_view, "which learns from the first view"),
            (["table.aspect_columns"], no_aspects, "which reads no aspects"),
        ):
            check_idle(recipe, settings, idle, f"for objective '{recipe.objective}', {because}")

    def _check_modalities(self, recipe: Recipe) -> None:
        for term in self._terms:
            if term.contrasts_modalities and encoder_pair(recipe.encoder) is None:
                raise ValueError(
                    f"objective '{term.name}' compares images with texts, but encoder '{recipe.encoder}' "
                    "reads one of them; name an encoder for each, such as 'small-conv+small-text'"
                )

    @property
    def _terms(self) -> list[Term]:
        return list(self.terms.values())  # type: ignore[arg-type]

    @property
    def needs_keys(self) -> bool:
        """Whether a loss asks for keys of a momentum encoder."""
        return any(term.asks & {"keys", "queue"} for term in self._terms)

    @property
    def reads_names(self) -> bool:
        """Whether texts are the names of nodes, not the samples' own; see `labeltree.losses.loss_base`."""
        return any(getattr(term.loss, "reads_names", False) for term in self._terms)

    @property
    def is_solved(self) -> bool:
        """Whether nothing is trained by steps."""
        return self._terms[0].entry.solved

    @property
    def solver(self) -> TreeRidgeLoss | None:
        """What is solved at once, from all training features: a loss, or the posterior space; else None."""
        return self._terms[0].loss if self.is_solved else self.posterior  # type: ignore[return-value]

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return self._dim if self.solver is None else self.solver.dim

    @property
    def gives_answers(self) -> bool:
        """Whether a loss itself predicts labels."""
        return any(term.answers for term in self._terms)

    def add_posterior_space(self) -> TreeRidgeLoss:
        """Let embeddings be those of a ridge head on the features, still to be solved; answers stay."""
        self.posterior = TreeRidgeLoss(self._taxonomy, self._feature_dim)
        return self.posterior

    def make_room(self, state: Mapping[str, Tensor]) -> None:
        """Shape what is solved for a state dict: the number of its classes is not known before."""
        start = "posterior."
        if any(key.startswith(start) for key in state):
            self.add_posterior_space()
        elif self.solver is not None:
            start = f"terms.{self._terms[0].name}.loss."
        if self.solver is not None:
            self.solver.make_room({k.removeprefix(start): v for k, v in state.items() if k.startswith(start)})

    def embed(self, features: Tensor) -> Tensor:
        """Map features `(n, f)` to embeddings `(n, d)` in the objective's geometry.

        They are those of what is solved, if there is something, else those of the head; if no loss reads
        these, there is no head, and the features are mapped into the geometry.
        """
        if self.solver is None:
            return self._embed_by_head(features)
        embeddings: Tensor = self.geometry.embed(self.solver.embed(features))
        return embeddings

    def _embed_by_head(self, features: Tensor) -> Tensor:
        """The embeddings `(n, d)` that losses read."""
        embeddings: Tensor = self.geometry.embed(features if self.head is None else self.head(features))
        return embeddings

    def forward(
        self,
        features: Tensor,
        nodes: Tensor,
        instances: Tensor,
        *,
        keys: Tensor | None = None,
        queue: Any = None,
        aspects: Tensor | None = None,
        ratings: Tensor | None = None,
        label_sets: Tensor | None = None,
        num_queries: int | None = None,
        alone: OneModality | None = None,
    ) -> dict[str, Tensor]:
        """Compute the losses of a batch: each term under its name, and `loss`, their weighted sum.

        Args:
            features: Features `(n, f)` of all views of the batch, view by view.
            nodes: Labels `(n,)`, −1 where missing.
            instances: Sample ids `(n,)`; views of one sample share an id.
            keys: Embeddings `(b, d)` of the momentum encoder.
            queue: Keys of earlier batches.
            aspects: Labels of the aspects `(n, A)`, −1 where missing.
            ratings: Ordinal ratings `(n, R)`.
            label_sets: All labels `(n, k)` where rows have several, −1 where there is no further one; then
                `nodes` are their common ancestors.
            num_queries: Number of rows of the first view, b; None = n.
            alone: Features of images and of texts, where samples have both.
        """
        offered: dict[str, Any] = {"features": features, "nodes": nodes, "instances": instances}
        offered |= {"aspects": aspects, "ratings": ratings, "keys": keys, "queue": queue}
        offered["label_sets"] = label_sets
        if alone is not None and any(term.contrasts_modalities for term in self._terms):
            # The head normalises by its batch: it sees all of them at once, as samples are in use.
            sizes = [len(features), len(alone.images), len(alone.texts)]
            rows = self._embed_by_head(torch.cat([features, alone.images, alone.texts])).split_with_sizes(
                sizes
            )
            offered |= {**alone._asdict(), "embeddings": rows[0], "images": rows[1], "texts": rows[2]}
        elif self.head is not None:
            offered["embeddings"] = self._embed_by_head(features)
        losses = {term.name: term(offered, num_queries) for term in self._terms}
        total = sum((term.weight * losses[term.name] for term in self._terms), start=features.new_zeros(()))
        return {"loss": total, **losses}

    def predict(self, features: Tensor) -> Tensor | None:
        """Predict nodes `(n,)` of the training taxonomy from features `(n, f)`.

        If several losses can predict, the last one does, so corr+cls predicts by its classifier as in the
        paper; None if no loss can.
        """
        return self._last_answer(features, "predict")

    def predict_depths(self, features: Tensor) -> Tensor | None:
        """Predict nodes `(n, l)`, separately at each depth, coarse → fine, from features `(n, f)`.

        None if the loss whose prediction `predict` returns has no answers of each depth.
        """
        terms = [term for term in self._terms if term.answers]
        return terms[-1].answer("predict_depths", self._offered_for_answers(features)) if terms else None

    def predict_aspects(self, features: Tensor) -> Tensor | None:
        """Predict nodes `(n, A)` of the aspects' taxonomies from features `(n, f)`.

        As in `predict`, the last loss that can predict does; None if no loss can or there are no aspects.
        """
        return self._last_answer(features, "predict_aspects")

    def class_scores(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        """Classes `(C,)` and logits `(n, C)` of the loss whose prediction `predict` returns.

        None if no loss predicts, or if that loss predicts without a softmax.
        """
        terms = [term for term in self._terms if term.answers]
        return terms[-1].class_scores(self._offered_for_answers(features)) if terms else None

    def _last_answer(self, features: Tensor, method: str) -> Tensor | None:
        offered = self._offered_for_answers(features)
        answers = (term.answer(method, offered) for term in reversed(self._terms))
        return next((nodes for nodes in answers if nodes is not None), None)

    def _offered_for_answers(self, features: Tensor) -> dict[str, Tensor]:
        return {"features": features} | (
            {} if self.head is None else {"embeddings": self._embed_by_head(features)}
        )

    def check_option(self, name: str, option: str, value: float | list[float]) -> None:
        """Check a value for an option of the named loss; an invalid value raises `ValueError`."""
        with torch.random.fork_rng(devices=[]):
            self._builders[name]({**self._options.get(name, {}), option: value})

    def check_samples(self, *, aspects: bool, ratings: bool) -> None:
        """Check that the samples have what every loss needs; raises `ValueError` if not."""
        for term in self._terms:
            term.check_samples(aspects=aspects, ratings=ratings)

    def use_of_several_labels(self) -> str:
        """A sentence on how the losses take samples with several labels."""
        said = {
            "relation": "relates two samples as the closest two of their labels",
            "rows": "has each label of a sample as a target",
            None: "reads the common ancestor of the labels of a sample",
        }
        reading = [
            term for term in self._terms if term.asks & {"nodes", "image_nodes"} and not term.of_aspects
        ]
        return "several labels: " + "; ".join(f"{term.name} {said[term.label_sets]}" for term in reading)

    def observe_labels(self, nodes: Tensor) -> None:
        """Pass all training labels to the losses that need them, before training begins."""
        for term in self._terms:
            observe = getattr(term.loss, "observe_labels", None)
            if observe is not None:
                observe(nodes)

    def save_word_vectors(self, path: Path) -> None:
        """Write the word vectors that a loss reads from a file, so that it can be built without that file."""
        for term in self._terms:
            if isinstance(term.loss, DeViSELoss):
                term.loss.save_vectors(path)

    def sampler(
        self, nodes: Tensor, batch_size: int, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> BatchSampler:
        """The batch sampler for training samples with labels `(n,)`."""
        trust_labels(self._taxonomy)  # the labels were read from names
        labels = nodes.numpy()
        # Fewer samples than a batch: one short batch per epoch rather than none.
        drop_last = len(labels) >= batch_size * world_size
        make = NAMED_SAMPLERS[self.sampler_name]
        return make(
            self._taxonomy,
            labels,
            batch_size,
            seed=seed,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
        )


def _build(
    entries: list[ObjectiveEntry], recipe: Recipe, given: dict[str, Any], aspects: Sequence[Taxonomy]
) -> tuple[int, list[nn.Module], dict[str, Builder]]:
    """The embedding width, on which all terms agree; the losses, and a function that rebuilds each."""
    losses: dict[str, nn.Module] = {}
    builders: dict[str, Builder] = {}
    dim, chosen_by = recipe.head.dim, "head.dim"
    free = {e.name for e in entries if _leaves_dim_open(e)}
    for entry in sorted(entries, key=lambda e: e.name not in free):
        width = dim if entry.name in free else (dim or _DIM)
        taxonomy = aspects if _is_of_aspects(entry, aspects) else given["taxonomy"]
        builders[entry.name] = partial(entry.build, given | {"dim": width, "taxonomy": taxonomy})
        loss = losses[entry.name] = builders[entry.name](recipe.options.get(entry.name, {}))
        wish = getattr(loss, "dim", None) if entry.name in free else None
        if wish is not None and dim is not None and wish != dim:
            raise ValueError(
                f"objective '{entry.name}' has embeddings of {wish} dimensions, but {chosen_by} says {dim}"
            )
        if wish is not None:
            dim, chosen_by = wish, f"'{entry.name}'"
    return dim or _DIM, [losses[entry.name] for entry in entries], builders


def _is_of_aspects(entry: ObjectiveEntry, aspects: Sequence[Taxonomy]) -> bool:
    return bool(aspects) and getattr(entry.loss, "takes_aspects", False)


def _leaves_dim_open(entry: ObjectiveEntry) -> bool:
    parameter = inspect.signature(entry.loss).parameters.get("dim")
    return parameter is not None and parameter.default is None


def _projection(recipe: Recipe, feature_dim: int, dim: int) -> ProjectionHead:
    head = recipe.head
    projection = ProjectionHead(feature_dim, dim, hidden_dim=head.hidden, num_layers=head_layers(recipe))
    with torch.no_grad():
        for parameter in projection.layers[-1].parameters():
            parameter.mul_(head.gain)
    return projection
