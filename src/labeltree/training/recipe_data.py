"""The samples that a recipe describes; read without Lightning, which takes seconds to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from labeltree.data import Source, hold_out_fold, ignore_cache, make_splits, open_source
from labeltree.data.copies import keep_copies_together
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.data.names.cleaning import folded
from labeltree.errors import DataError, TaxonomyError, find_unknown, say_how_to_list, typed
from labeltree.file_kinds import is_table_file
from labeltree.models import encoder_modality, usual_images, usually_pretrained
from labeltree.preprocessing import ImageInput
from labeltree.progress import Progress
from labeltree.taxonomy import Taxonomy
from labeltree.training.choosing.choose_encoder import AUTO_ENCODER, chosen_input
from labeltree.training.choosing.earlier_splits import earlier_splits
from labeltree.training.recipe import Recipe

__all__ = ["open_recipe_data", "open_recipe_source", "plain_key_of", "split_by_recipe"]


def open_recipe_source(recipe: Recipe, progress: Progress | None = None) -> Source:
    """The samples of a recipe, with their splits and corrections."""
    data = open_recipe_data(recipe, progress)
    source = split_by_recipe(recipe, data)
    if recipe.corrections is None:
        return source
    return CorrectionRounds.load(recipe.corrections).apply(data, source)[1]


def open_recipe_data(
    recipe: Recipe,
    progress: Progress | None = None,
    *,
    images: ImageInput | None = None,
    texts: Sequence[str] = (),
    verify: bool = False,
) -> Source:
    """The whole data set of a recipe, without the recipe's splits and corrections.

    Args:
        recipe: The recipe.
        progress: Callback that reports progress.
        images: The images that the encoder reads, used where the recipe leaves it open: the data may have
            changed since the run chose them. None = those that its weights were made for; of an encoder that
            is left open, those of the one that a look at the data set chooses.
        texts: The columns of a table that the run reads as texts, used where the recipe leaves them open.
        verify: Read all files again and ignore the cache.
    """
    columns = recipe.table.columns
    if texts and recipe.table.text_column is None:
        columns = {**columns, "text_column": list(texts)}
    known = images or _expected_images(recipe)
    left_open = recipe.encoder == AUTO_ENCODER and images is None
    with ignore_cache(verify), _naming_mapping(recipe):
        source = open_source(
            recipe.data,
            data_path=recipe.data_path,
            image_size=recipe.image_size or known.size,
            taxonomy=recipe.taxonomy,
            mapping=recipe.mapping,
            channels=recipe.channels or known.channels,
            preprocessing=known.preprocessing,
            choose=partial(chosen_input, recipe) if left_open else None,
            missing_labels=recipe.missing_labels,
            on_error="list" if recipe.on_error == "skip" else recipe.on_error,  # its summary says them
            cache={"auto": None, "always": True, "never": False}[recipe.pixel_cache],
            check=recipe.pixel_cache != "never",
            progress=progress,
            either=encoder_modality(recipe.encoder) == "both",
            **columns,
        )
    if recipe.missing_labels and not any(source.missing_labels.values()):
        names = " or ".join(repr(name) for name in source.missing_labels)
        raise DataError(
            f"no label of '{recipe.data}' is called {names}; leave missing_labels out, or correct it"
        )
    return keep_copies_together(source)


def plain_key_of(recipe: Recipe) -> Callable[[str], str] | None:
    """The key by which `--table.names plain` compares the names of a recipe's labels.

    None where that setting does not apply: the data are no table, it is set, or a taxonomy says the names.
    """
    is_read = recipe.taxonomy is None and recipe.table.names in (None, "exact")
    return folded if is_read and is_table_file(Path(recipe.data)) else None


@contextmanager
def _naming_mapping(recipe: Recipe) -> Iterator[None]:
    """Let the error on labels that a revised taxonomy lacks name the setting that reads older labels."""
    try:
        yield
    except TaxonomyError as error:
        if find_unknown(error) is None or recipe.taxonomy is None:
            raise
        told = f"{error}{say_how_to_list(error, recipe.taxonomy, recipe.data)}"
        history = () if recipe.mapping is not None else Taxonomy.from_file(recipe.taxonomy).history
        if not history or not history[-1].changes:
            raise TaxonomyError(told) from error
        raise TaxonomyError(
            f"{told}. {typed(recipe.taxonomy)} was made by changes to an older version: if the labels are "
            "of that one, name the file of the changes with --mapping"
        ) from error


def _expected_images(recipe: Recipe) -> ImageInput:
    """The images that the weights of a recipe's encoder were made for, as far as that is known."""
    usually = usually_pretrained(recipe.encoder)
    starts = recipe.pretrained if recipe.pretrained is not None else usually
    if recipe.encoder == AUTO_ENCODER or not (starts or usually):
        return ImageInput(None, None)
    return usual_images(recipe.encoder) or ImageInput(None, None)


def split_by_recipe(recipe: Recipe, source: Source) -> Source:
    """The samples that a recipe selects from its data set, with their splits.

    Where training starts from the weights of a run, samples that it knows keep the splits that it gave them.
    """
    if recipe.fold is not None:
        source = hold_out_fold(source, recipe.fold, recipe.seed)
    return make_splits(
        source,
        val=recipe.val,
        test=recipe.test,
        seed=recipe.seed,
        limit=recipe.limit,
        train_limit=recipe.train_limit,
        test_limit=recipe.test_limit,
        unseen_classes=recipe.unseen_classes,
        unseen_depth=recipe.unseen_depth,
        calib=recipe.calib,
        earlier=earlier_splits(recipe, source),
    )
