"""Loading a finished run: its network with the weights of its best epoch, and, if asked, its own samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from labeltree.data import Source
from labeltree.data.source import digest_set, have_digest
from labeltree.errors import RunError, typed
from labeltree.models import misfits
from labeltree.progress import Progress
from labeltree.runs import ModelDescription, RunFolder, SampleRecord
from labeltree.runs.run_digests import weights_digest
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import trust_labels
from labeltree.taxonomy.versions.between_versions import VersionChange
from labeltree.training.absent_objective import AbsentEntry, absent_objectives, where_to_find
from labeltree.training.choosing.earlier_splits import start_records
from labeltree.training.network import Network, build_network, usual_device
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import ObjectiveEntry, get_objective

__all__ = ["TrainedRun", "keep_description", "load_run", "own_samples", "seen_by_start"]


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        folder: The run folder.
        network: The network with the weights of the best epoch.
        description: What rebuilt the network, beside its weights and taxonomies.
        training_taxonomy: Taxonomy of the training labels; None = that of the data.
        own_samples: The run's own samples, if they were opened.
        base: The run as it is in the folder, if this is it seen on another version of its taxonomy.
        change: The step from the taxonomy of `base` to that version.
    """

    folder: RunFolder
    network: Network
    description: ModelDescription
    training_taxonomy: Taxonomy | None = None
    own_samples: Source | None = None
    base: TrainedRun | None = None
    change: VersionChange | None = None

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """For a run on a table: the columns that were read, by purpose."""
        return self.description.columns

    @property
    def aspect_taxonomies(self) -> tuple[Taxonomy, ...]:
        """One taxonomy per aspect of the samples."""
        return self.description.aspect_taxonomies

    @property
    def taxonomy(self) -> Taxonomy:
        """Taxonomy of the labels and answers."""
        return self.network.taxonomy

    @property
    def recipe(self) -> Recipe:
        """All settings of the run, resolved."""
        return self.network.recipe

    @property
    def source(self) -> Source:
        """The run's own samples; only if the run was loaded with them."""
        assert self.own_samples is not None
        return self.own_samples

    @cached_property
    def weights_digest(self) -> str:
        """A fingerprint of the weights."""
        return weights_digest(self.folder)


def load_run(
    path: str | Path,
    progress: Progress | None = None,
    *,
    own_data: bool = True,
    verify: bool = False,
    device: str | torch.device | None = None,
    encoder: Literal["now", "later"] = "now",
) -> TrainedRun:
    """Load a finished run with the weights of its best epoch.

    Args:
        path: The run folder.
        progress: Called while the data are read.
        own_data: Open the run's own samples, which must not have changed since training. False: the run
            folder alone is needed, and of a run that was extended by classes the newest extension is loaded;
            only runs of versions before 0.1.0 open their samples in any case.
        verify: Read all files of the run's samples again instead of trusting the cache.
        device: Device of the network; None = a GPU if there is one, unless the recipe says otherwise.
        encoder: When the encoder is built: `later` is when it is first used, if the run has recorded how
            many features it gives. What is wrong with it is said then.

    Raises:
        RunError: If the folder is not a run, its training has not finished, its samples have changed, or its
            objective is not registered here and is needed: to open the own samples, or to answer.
    """
    folder = RunFolder(path).require()
    if not own_data:
        folder = folder.answering()
    _require_objectives(folder, needed=own_data)
    weights = folder.load_weights()
    source = own_samples(folder, progress, verify=verify) if own_data else None
    if folder.description.is_file():
        description, training = _described(folder)
    else:
        description, training, source = _described_by_samples(folder, source, progress)
        description = replace(
            description, normalisation=_earlier_normalisation(folder, description, training, weights)
        )
    recipe = _recipe_of(folder, description)
    place = usual_device(recipe) if device is None else torch.device(device)
    left = tuple(f"terms.{name}." for name in absent_objectives(recipe.objective))

    def load(module: nn.Module, prefix: str) -> None:
        own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        own = {key: value for key, value in own.items() if not key.startswith(left)} if left else own
        if isinstance(module, Objective):
            module.make_room(own)
        if problems := misfits(module.state_dict(), own):
            raise RunError(
                f"the weights of '{folder.encoder}' are not those of its recipe: {problems}; restore it, or "
                "train again into another --out"
            )
        module.load_state_dict(own)
        module.to(place)

    network = _build(
        folder,
        description,
        training,
        weights,
        feature_dim=description.feature_dim if encoder == "later" else None,
        finish=partial(load, prefix="encoder."),
    )
    load(network.objective, "objective.")
    network = network.to(place)
    if own_data:
        network.recipe = _resolve_paths(network.recipe, folder)
    return TrainedRun(folder, network, description, training, source if own_data else None)


def keep_description(run: TrainedRun) -> None:
    """Write the description of a run of an earlier version, which has none, to its folder."""
    folder = run.folder
    if folder.description.is_file():
        return
    if run.training_taxonomy is not None:
        run.training_taxonomy.save(folder.training_taxonomy)
    run.description.save(folder.description)


_WITHOUT_LOSS = (
    "without it, info, embed --data, predict, export and serve work, and evaluate --embeddings and index "
    "--embeddings with what embed --data has written"
)


def _require_objectives(folder: RunFolder, *, needed: bool) -> None:
    """Check that a run can be opened if its objective is not registered here.

    Args:
        folder: The run folder.
        needed: Whether the objective is needed in any case. Otherwise it is only if the run answers by it.
    """
    if not folder.description.is_file():
        return
    description = ModelDescription.load(folder.description)
    for name in absent_objectives(str(description.settings.get("objective", ""))):
        origin = description.objectives.get(name, {})
        if needed or origin.get("answers") != "no":
            still = f"; {_WITHOUT_LOSS}" if origin.get("answers") == "no" else ""
            raise RunError(
                f"the run in '{folder.path}' was trained with an objective that is not labeltree's; "
                f"{where_to_find(name, origin)}{still}"
            )


def _entries(
    recipe: Recipe, description: ModelDescription, weights: Mapping[str, torch.Tensor]
) -> list[ObjectiveEntry] | None:
    """The objectives of a run, with stand-ins for those that are not registered; None if all are."""
    absent = absent_objectives(recipe.objective)
    if not absent:
        return None
    own = {k.removeprefix("objective."): v for k, v in weights.items() if k.startswith("objective.")}
    return [
        AbsentEntry.of_run(name, own, description.objectives.get(name, {}).get("geometry"))
        if name in absent
        else get_objective(name)
        for name in map(str.strip, recipe.objective.split("+"))
    ]


def _build(
    folder: RunFolder,
    description: ModelDescription,
    training: Taxonomy | None,
    weights: Mapping[str, torch.Tensor],
    **later: Any,
) -> Network:
    taxonomy = folder.load_taxonomy()
    trust_labels(taxonomy)
    mapped = description.from_training
    nodes = None if mapped is None else torch.tensor(mapped, dtype=torch.int64)
    size = (training or taxonomy).num_nodes
    if nodes is not None and (
        len(nodes) != size or int(nodes.min()) < -1 or int(nodes.max()) >= taxonomy.num_nodes
    ):
        raise RunError(
            f"'{folder.description}' and the taxonomies of the run do not go together; restore them, or "
            "train again into another --out"
        )
    recipe = _recipe_of(folder, description)
    built = recipe
    if folder.word_vectors.is_file():  # where the vectors came from may be gone
        devise = {**recipe.options.get("devise", {}), "vectors": str(folder.word_vectors)}
        built = replace(recipe, options={**recipe.options, "devise": devise})
    network = build_network(
        built,
        taxonomy,
        image_shape=description.image_shape,
        training_taxonomy=training,
        from_training=nodes,
        aspects=description.aspect_taxonomies,
        encoder_config=folder.encoder_config,
        normalisation=description.normalisation,
        preprocessing=description.preprocessing,
        entries=_entries(recipe, description, weights),
        **later,
    )
    network.recipe = recipe
    return network


def _recipe_of(folder: RunFolder, description: ModelDescription) -> Recipe:
    try:
        return Recipe.from_dict(description.settings)
    except ValueError as error:
        raise RunError(f"the settings in '{folder.description}' are damaged: {error}; restore it") from error


def _described(folder: RunFolder) -> tuple[ModelDescription, Taxonomy | None]:
    description = ModelDescription.load(folder.description)
    if description.from_training is None:
        return description, None
    if not folder.training_taxonomy.is_file():
        raise RunError(
            f"run '{folder.path}' has no {folder.training_taxonomy.name}; restore it, or train it again"
        )
    return description, Taxonomy.from_file(folder.training_taxonomy)


def _described_by_samples(
    folder: RunFolder, source: Source | None, progress: Progress | None
) -> tuple[ModelDescription, Taxonomy | None, Source | None]:
    """The description of a run that began before runs had one: made again from the record of its samples."""
    from labeltree.data.source import Modality
    from labeltree.models import encoder_modality
    from labeltree.training.read_recipes import read_recipe
    from labeltree.training.records.same_samples import check_labels
    from labeltree.training.resolution import resolve_modality
    from labeltree.training.training_labels import training_labels

    record, taxonomy = folder.load_samples(), folder.load_taxonomy()
    recipe = read_recipe(folder.recipe)
    if source is None and not record.has_contents:
        source = own_samples(folder, progress, verify=False)
    modalities: tuple[Modality, ...] = source.modalities if source is not None else record.modalities  # type: ignore[assignment]
    recipe = resolve_modality(recipe, modalities)
    nodes = torch.from_numpy(record.nodes)[torch.from_numpy(record.split == "train")]
    labels = training_labels(recipe, taxonomy, nodes)
    check_labels(folder, recipe, labels)
    shape = record.image_shape if source is None or source.store is None else source.image_shape
    same = labels.taxonomy == taxonomy
    description = ModelDescription(
        settings=recipe.to_dict(),
        image_shape=None if encoder_modality(recipe.encoder) == "text" else shape,
        columns=record.columns,
        aspect_taxonomies=record.aspect_taxonomies if source is None else source.aspect_taxonomies,
        from_training=None if same else tuple(labels.from_training.tolist()),
    )
    return description, None if same else labels.taxonomy, source


def _earlier_normalisation(
    folder: RunFolder,
    description: ModelDescription,
    training: Taxonomy | None,
    weights: Mapping[str, torch.Tensor],
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The normalisation of pixels in a run that did not record it.

    Grey images were then normalised by a third of the mean and standard deviation of an encoder that says its
    own for one channel.
    """
    network = _build(folder, description, training, weights)
    mean, std = network.normalisation
    if mean is None or std is None or not network.recipe.pretrained:
        return None
    share = 1 / 3 if len(mean) == 1 == len(network.encoder.without_adapter.mean or ()) else 1.0
    return tuple((share * mean).tolist()), tuple((share * std).tolist())


def own_samples(
    folder: RunFolder,
    progress: Progress | None,
    *,
    verify: bool = False,
    record: SampleRecord | None = None,
) -> Source:
    """The run's own samples, which must not have changed since training.

    Args:
        folder: Of the run.
        progress: Called while the data are read.
        verify: Read all files again instead of trusting the cache.
        record: The samples to open, with contents; None = those that the run has recorded.

    Raises:
        RunError: If the data are gone, or a sample is missing or has changed.
    """
    from labeltree.data import data_exist
    from labeltree.training.read_recipes import read_recipe
    from labeltree.training.records.record import open_recorded

    if not folder.recipe.is_file():
        raise RunError(
            f"'{folder.path}' holds a model without its recipe and samples: it answers for other samples only"
        )
    recipe, record = read_recipe(folder.recipe), record or folder.load_samples()
    if not data_exist(recipe.data):
        raise RunError(
            f"the data of the run in '{folder.path}' are no longer at '{recipe.data}'; put them back, or, if "
            f"they were moved, say where: 'labeltree train --config {typed(folder.recipe)} --data PLACE "
            f"--out {typed(folder.path)}' trains nothing anew"
        )
    return open_recorded(folder, recipe, record, progress, verify=verify)


def _resolve_paths(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with the place where the data lie now: they may have moved since the run began."""
    from labeltree.training.read_recipes import read_recipe

    now = read_recipe(folder.recipe)
    return replace(recipe, data=now.data, data_path=now.data_path)


def seen_by_start(recipe: Recipe, digests: np.ndarray[Any, Any] | None) -> int | None:
    """How many samples the runs have trained on whose weights a run started from; None if that is not known.

    Args:
        recipe: Of the run; 0 if it did not start from weights of a file or a run.
        digests: `(n, k, 16)` of the contents of the samples, see `Source.copy_digests`.
    """
    if recipe.weights is None:
        return 0
    if digests is None:
        return None
    started, known = list(start_records(recipe)), set[bytes]()
    for _, record in started:
        copies = record.copy_digests
        if copies is not None:
            known |= digest_set(copies[np.asarray(record.split) != "test"])
    first = started[-1][0] if started else recipe
    seen = int(have_digest(digests, known).sum())
    return seen or (None if first.weights is not None else 0)
