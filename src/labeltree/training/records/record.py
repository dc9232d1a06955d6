"""The record of a run's settings and samples; a run continues only with the same ones."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.data import DataSummary, Source
from labeltree.data.correction_rounds import CorrectionRounds, table_names
from labeltree.data.corrections import Corrections
from labeltree.data.images.image_files import save_unreadable
from labeltree.errors import OtherSettingsError, RunError
from labeltree.models import as_pinned
from labeltree.preprocessing import ImageInput
from labeltree.progress import Progress
from labeltree.runs import ModelDescription, RunFolder, SampleRecord
from labeltree.training.callbacks.divergence import RECOVERY_SETTINGS, change_recipe, has_diverged
from labeltree.training.choosing.choose_encoder import AUTO_ENCODER
from labeltree.training.choosing.choose_objective import with_defaults
from labeltree.training.objective import Term
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_data, split_by_recipe
from labeltree.training.records.same_samples import (
    ContentChangedError,
    check_labels,
    check_samples,
    record_samples,
    recorded_samples,
)
from labeltree.training.registry import AUTO_OBJECTIVE, list_objectives
from labeltree.training.resolution import resolve_recipe
from labeltree.training.training_labels import TrainingLabels

if TYPE_CHECKING:
    from labeltree.training.module import RepresentationModule

__all__ = [
    "abandon_run",
    "as_begun",
    "begin_run",
    "changed_sources",
    "check_settings",
    "description_of",
    "is_first_rank",
    "open_recorded",
    "open_samples",
    "recorded_images",
    "run_corrections",
]

_CHOSEN = ("encoder", "pretrained", "trainable", "views", "monitor")
_EARLIER = {"trainable": "all", "monitor": "map_at_r"}
_PLACES = ("data", "data_path")  # location of the samples; their identity is checked by name and content


def check_settings(folder: RunFolder, known: Recipe, recipe: Recipe, but: Collection[str] = ()) -> None:
    """Check that a recipe is that of the run in the folder.

    The data may have moved, and a run that has diverged may continue with other `RECOVERY_SETTINGS`.

    Args:
        folder: The run folder.
        known: The run's own recipe.
        recipe: The new recipe.
        but: Further settings that may differ.

    Raises:
        OtherSettingsError: If another setting differs.
    """
    calming = RECOVERY_SETTINGS if has_diverged(folder) else ()
    differences = known.differences(recipe, but=(*_PLACES, *calming, *but))
    if differences:
        raise _other_settings(folder, differences)


def as_begun(folder: RunFolder, known: Recipe, recipe: Recipe) -> Recipe:
    """A recipe with what was chosen when the run began, where it leaves that open.

    That is the encoder with its images and its commit on the Hugging Face hub, what of it is trained, the
    views and the monitor; and, if the run left them open, too, the objective, the epochs and the batch size.

    Args:
        folder: The run folder.
        known: The run's own recipe.
        recipe: The new recipe, or the run's own.
    """
    encoder = as_pinned(recipe.encoder, known.encoder, pretrained=recipe.pretrained)
    recipe = dataclasses.replace(recipe, encoder=encoder)
    lengths = [
        name for name in ("epochs", "batch_size") if getattr(known, name) is getattr(recipe, name) is None
    ]
    auto = known.objective == recipe.objective == AUTO_OBJECTIVE
    if not folder.description.is_file():
        return recipe
    description = ModelDescription.load(folder.description)
    begun = Recipe.from_dict(description.settings)
    chosen = description.chosen
    if chosen is None:  # earlier versions recorded their defaults as if they had been given
        chosen = tuple(name for name, value in _EARLIER.items() if getattr(known, name) == value)
    opened = [name for name in _left_to_choose(recipe) if name in (*_left_to_choose(known), *chosen)]
    recipe = dataclasses.replace(recipe, **{name: getattr(begun, name) for name in [*lengths, *opened]})
    if (images := recorded_images(folder)) is not None:
        recipe = dataclasses.replace(
            recipe,
            image_size=recipe.image_size or images.size,
            channels=recipe.channels or images.channels,  # type: ignore[arg-type]
        )
    if not auto:
        return recipe
    named = with_defaults(recipe, begun.objective)
    options = {name: {**given, **begun.options.get(name, {})} for name, given in named.options.items()}
    head = dataclasses.replace(recipe.head, dim=recipe.head.dim or begun.head.dim)
    return dataclasses.replace(named, options=options, head=head)


def _other_settings(folder: RunFolder, differences: list[str]) -> OtherSettingsError:
    advice = "give another --out"
    if not folder.encoder.is_file():  # a complete run is not to be lost
        advice += ", or delete that folder"
    return OtherSettingsError(
        f"'{folder.path}' holds a run with other settings ({'; '.join(differences[:3])}); {advice}"
    )


def open_samples(
    folder: RunFolder,
    known: Recipe,
    recipe: Recipe,
    progress: Progress | None = None,
    *,
    verify: bool = False,
) -> tuple[Source, Source]:
    """Open the whole data set and the samples that the recipe selects, and check that they are the run's.

    Args:
        folder: The run folder; the run may not have begun.
        known: The run's own recipe.
        recipe: The new recipe.
        progress: Callback that reports progress.
        verify: Read all files again and ignore the cache. This is always done before an error reports changed
            samples, since the cache may be wrong.

    Raises:
        RunError: If settings or samples are not the run's.
    """
    known_texts = _text_columns(folder.load_samples()) if folder.samples.is_file() else ()
    data = open_recipe_data(
        recipe, progress, images=recorded_images(folder), texts=known_texts, verify=verify
    )
    source = split_by_recipe(recipe, data)
    if (corrections := run_corrections(folder, recipe)) is not None:
        data, source = corrections.apply(data, source)
    # A setting that one recipe leaves open may be given in the other.
    check_settings(folder, resolve_recipe(known, source), resolve_recipe(recipe, source))
    if folder.recipe.is_file():
        try:
            _check_data(folder, known, recipe, data, source)
        except ContentChangedError:
            if verify:
                raise
            return open_samples(folder, known, recipe, progress, verify=True)
    return data, source


def open_recorded(
    folder: RunFolder,
    recipe: Recipe,
    record: SampleRecord,
    progress: Progress | None = None,
    *,
    verify: bool = False,
) -> Source:
    """Open the samples of a run that has ended, as they are recorded; what was added since is left out.

    Args:
        folder: The run folder.
        recipe: The recipe of the run.
        record: The samples to open.
        progress: Callback that reports progress.
        verify: Read all files again and ignore the cache. This is always done before an error reports changed
            samples, since the cache may be wrong.

    Raises:
        RunError: If a sample is missing or has changed.
    """
    images = recorded_images(folder)
    if images is None and record.image_shape is not None:  # of a run before runs described their model
        images = ImageInput(record.image_shape[0], record.image_shape[1])
    data = open_recipe_data(recipe, progress, images=images, texts=_text_columns(record), verify=verify)
    corrections = run_corrections(folder, recipe)
    if record.has_contents:
        if corrections is not None:
            (data,) = corrections.apply(data)
        try:
            return recorded_samples(folder, recipe, record, data)
        except ContentChangedError:
            if verify:
                raise
        return open_recorded(folder, recipe, record, progress, verify=True)
    source = split_by_recipe(recipe, data)
    if corrections is not None:
        data, source = corrections.apply(data, source)
    check_samples(folder, recipe, data, source)
    return source


def _text_columns(record: SampleRecord) -> tuple[str, ...]:
    """The columns of a table that a run on texts alone reads; an earlier version took others by default."""
    return () if record.columns.get("images") else record.columns.get("texts", ())


def recorded_images(folder: RunFolder) -> ImageInput | None:
    """The images that the encoder of a run reads; None if that is not recorded, or it reads no images."""
    if not folder.description.is_file():
        return None
    description = ModelDescription.load(folder.description)
    if description.image_shape is None:
        return None
    channels, height, _ = description.image_shape
    return ImageInput(channels, height, description.preprocessing)


def run_corrections(folder: RunFolder, recipe: Recipe) -> CorrectionRounds | None:
    """The corrections of a run: those that it began with, else those of the recipe; None without any.

    Raises:
        OtherSettingsError: If a file of the recipe has other accepted rows than the run began with.
        RunError: If a table of the run's own is gone.
    """
    if recipe.corrections is None:
        return None
    if not folder.recipe.is_file():
        return CorrectionRounds.load(recipe.corrections)
    files = [recipe.corrections] if isinstance(recipe.corrections, str) else recipe.corrections
    tables = []
    for number, (file, name) in enumerate(zip(map(Path, files), table_names(files), strict=True), 1):
        own = folder.correction_file(number)
        if not own.is_file():
            raise RunError(
                f"run '{folder.path}' has no {own.name}; restore it, or train again into another --out"
            )
        known = dataclasses.replace(Corrections.load(own), name=name)
        if file.is_file() and not _same_rows(Corrections.load(file), known, folder):
            raise OtherSettingsError(
                f"the accepted rows of '{file}' have changed since the run in '{folder.path}' began; give "
                f"another --out to train with them, or restore them: they are in '{own}'"
            )
        tables.append(known)
    return CorrectionRounds(tuple(tables))


def _same_rows(given: Corrections, known: Corrections, folder: RunFolder) -> bool:
    """Whether a table has the rows that a run began with, but those of samples that it has forgotten."""
    if given.same_as(known):
        return True
    record = folder.load_samples()
    further = {entry.sample for entry in set(given.entries) - set(known.entries)}
    gone = bool(record.forgotten) and not further & set(record.ids)
    return gone and set(known.entries) <= set(given.entries)


def _check_data(folder: RunFolder, known: Recipe, recipe: Recipe, data: Source, source: Source) -> None:
    """Check that the samples are the run's; if they have moved, record their new location."""
    moved = dataclasses.replace(known, data=recipe.data, data_path=recipe.data_path)
    elsewhere = known.differences(moved)
    if elsewhere and not folder.load_samples().has_contents:
        raise _other_settings(folder, elsewhere)
    try:
        check_samples(folder, recipe, data, source)
    except RunError as error:
        if not elsewhere:
            raise
        raise OtherSettingsError(
            f"'{folder.path}' holds a run on other data ({'; '.join(elsewhere)}; {error})"
        ) from error
    if elsewhere and is_first_rank():
        with folder.locked() if folder.encoder.is_file() else nullcontext():  # else training holds the lock
            change_recipe(folder, moved, _PLACES)


def is_first_rank() -> bool:
    """Whether this is the process that writes files; also valid before the trainer has started."""
    from lightning.pytorch.utilities import rank_zero_only  # reading a record needs no Lightning

    return getattr(rank_zero_only, "rank", 0) == 0


def begin_run(
    folder: RunFolder,
    recipe: Recipe,
    data: Source,
    source: Source,
    labels: TrainingLabels,
    summary: DataSummary,
    module: RepresentationModule,
) -> bool:
    """Write the files of a new run: taxonomies, descriptions of data and model, sample record, recipe.

    The recipe comes last and completes the run.

    If the run has already begun, only its training taxonomy is checked.

    Args:
        folder: The run folder.
        recipe: The recipe.
        data: The whole data set.
        source: The samples that the recipe selects from it, with their splits.
        labels: The training labels.
        summary: Summary of the data.
        module: The module to train, with the resolved recipe.

    Returns:
        Whether the run is new.
    """
    if folder.recipe.is_file():
        check_labels(folder, recipe, labels)
        return False
    folder.path.mkdir(parents=True, exist_ok=True)
    source.taxonomy.save(folder.taxonomy)
    if labels.taxonomy != source.taxonomy:
        labels.taxonomy.save(folder.training_taxonomy)
    folder.write_json(folder.data, summary.to_dict())
    for left in folder.correction_files:  # of a run that was begun here and has no recipe
        left.unlink()
    if recipe.corrections is not None:
        for number, table in enumerate(CorrectionRounds.load(recipe.corrections).tables, 1):
            table.save(folder.correction_file(number))
    if data.unused is not None and len(data.unused):
        data.unused.save(folder.unused_rows)
    if data.unread:
        save_unreadable(folder.unreadable, (data.unread[row] for row in sorted(data.unread)))
    described = description_of(module, source, labels)
    dataclasses.replace(described, chosen=_left_to_choose(recipe)).save(folder.description)
    module.objective.save_word_vectors(folder.word_vectors)
    folder.keep_encoder_config(module.encoder.save_config)
    record_samples(data, source).save(folder.samples)
    with_choices(recipe, module.recipe).save(folder.recipe)
    return True


def _left_to_choose(recipe: Recipe) -> tuple[str, ...]:
    """The settings of an encoder that a recipe leaves open."""
    return tuple(name for name in _CHOSEN if getattr(recipe, name) in (None, "auto"))


def with_choices(recipe: Recipe, resolved: Recipe) -> Recipe:
    """A recipe as a run keeps it: an encoder that it leaves open is the one that was chosen."""
    if recipe.encoder != AUTO_ENCODER:
        return recipe
    sizes = [name for name in ("image_size", "channels") if getattr(recipe, name) is None]
    names = [*_left_to_choose(recipe), *sizes]
    return dataclasses.replace(recipe, **{name: getattr(resolved, name) for name in names})


def description_of(module: RepresentationModule, source: Source, labels: TrainingLabels) -> ModelDescription:
    """The description of the model that is trained on these samples and training labels."""
    same = labels.taxonomy == source.taxonomy
    plain = module.views.plain
    mean, std = getattr(plain, "mean", None), getattr(plain, "std", None)
    reads_images = module.encoder.modality in ("image", "both")
    return ModelDescription(
        settings=module.recipe.to_dict(),
        image_shape=source.image_shape if reads_images else None,
        normalisation=None if mean is None or std is None else (tuple(mean.tolist()), tuple(std.tolist())),
        preprocessing=source.preprocessing if reads_images else None,
        feature_dim=module.encoder.feature_dim,
        columns=source.columns,
        aspect_taxonomies=source.aspect_taxonomies,
        from_training=None if same else tuple(labels.from_training.tolist()),
        objectives={
            term.name: _origin(term) for term in module.objective.every_term if not term.entry.origin.is_ours
        },
    )


def _origin(term: Term) -> dict[str, str]:
    """What is recorded of an objective that is not ours: its origin, and what its absence would take."""
    geometry = term.entry.geometry
    record = {**term.entry.origin.to_dict(), "answers": "yes" if term.answers else "no"}
    return record if geometry is None else {**record, "geometry": geometry}


def changed_sources(folder: RunFolder) -> list[str]:
    """The objectives, other than labeltree's, whose source has changed since the run began.

    An objective whose source was or is not known counts as unchanged.
    """
    if not folder.description.is_file():
        return []
    now = {entry.name: entry.origin.digest for entry in list_objectives()}
    then = ModelDescription.load(folder.description).objectives
    return [
        name
        for name, origin in then.items()
        if now.get(name) is not None and origin.get("source") not in (None, now[name])
    ]


def abandon_run(folder: RunFolder) -> None:
    """Delete the files written by `begin_run`."""
    for file in (
        folder.recipe,
        folder.samples,
        folder.data,
        folder.unused_rows,
        folder.unreadable,
        *folder.correction_files,
        folder.description,
        folder.word_vectors,
        folder.training_taxonomy,
        folder.taxonomy,
        folder.versions,
    ):
        file.unlink(missing_ok=True)
    shutil.rmtree(folder.encoder_config, ignore_errors=True)
