"""New samples for a trained run, in the shape that its encoder takes: files, texts, vectors, other data."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.counted_nouns import say_count, say_list
from labeltree.data import (
    ArrayStore,
    ImageStore,
    Source,
    get_dataset,
    list_datasets,
    open_source,
    table_header,
)
from labeltree.data.column_roles import NO_COLUMN
from labeltree.data.given_columns import GivenColumns
from labeltree.data.image_rules import ImageRule
from labeltree.data.images.decode import decode
from labeltree.data.images.image_files import OnError
from labeltree.data.images.image_files import open_images as open_image_files
from labeltree.data.images.stores import SomeImages, in_threads
from labeltree.data.object_stores import local_copy
from labeltree.data.source import have_digest, printable
from labeltree.data.table_columns import settings_of_another
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.errors import DataError, LabeltreeError, TaxonomyError, find_unknown, say_how_to_list
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.reference import kept_digests
from labeltree.preprocessing import Preprocessing
from labeltree.runs import RunFolder
from labeltree.runs.sample_record import SampleRecord
from labeltree.split_names import CALIB
from labeltree.system_files import is_system_file
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.naming import near_names, some
from labeltree.taxonomy.placeholders import plain_name
from labeltree.taxonomy.versions.between_versions import CONTESTED
from labeltree.text_form import GUESSED
from labeltree.training.choosing.earlier_splits import start_records
from labeltree.training.recipe import Recipe, TableRecipe

__all__ = [
    "NamedSamples",
    "has_folders",
    "label_settings",
    "lacks_groups",
    "list_names",
    "name_samples",
    "name_unit",
    "open_images",
    "open_other",
    "open_texts",
    "open_vectors",
    "seen_in_calibrations",
    "seen_in_extensions",
    "seen_in_training",
    "seen_since_training",
    "table_settings",
    "text_settings",
    "with_texts",
]

_log = logging.getLogger("labeltree.inference")

_OTHER_LABELS = (
    "'labeltree embed' takes them without labels (--unlabelled) or with a taxonomy of their own "
    "(--own-labels), 'labeltree predict' without --labelled"
)
_SHOWN = 5  # labels that the taxonomy lacks
_LABELS = ("label_columns", "evidence")
_WITH_LABELS = "leave it out, or ask for labels: --labelled of 'labeltree predict', not --unlabelled"


_IN_MEMORY = 1 << 29  # bytes of pixels that are kept; more images than that are decoded twice


@dataclass(frozen=True)
class NamedSamples:
    """Samples that were given one by one; some may be unreadable.

    Attributes:
        names: Names of all samples, in the given order.
        source: The readable samples in that order, with their positions in `names` as instances; None if
            there are none.
        skipped: Maps positions in `names` to the reason why that sample cannot be read.
        given: The columns of the table that they come from, a row for each of `names`; None without one.
        one_each: Whether no row of that table has several samples.
        skipped_units: For positions in `skipped`, the name of the group, empty without one, and attributes.
    """

    names: list[str]
    source: Source | None
    skipped: dict[int, str]
    given: GivenColumns | None = None
    one_each: bool = True
    skipped_units: Mapping[int, tuple[str, Mapping[str, str]]] = field(default_factory=dict)

    def skipped_names(self) -> list[tuple[str, str]]:
        """Name and reason of each unreadable sample, in order."""
        return [(self.names[place], reason) for place, reason in sorted(self.skipped.items())]

    def skipped_by_unit(self, per: str) -> dict[str, list[int]]:
        """The positions of unreadable samples by the name of their unit, which is '' for those in none.

        Args:
            per: `group`, or the name of an attribute.
        """
        units: dict[str, list[int]] = {}
        for place in sorted(self.skipped):
            group, attributes = self.skipped_units.get(place, ("", {}))
            units.setdefault(
                name_unit(group, None if per == "group" else attributes.get(per, "")), []
            ).append(place)
        return units


def name_unit(group: str, value: str | None) -> str:
    """The name of a group, or of what lies within it; empty for what is in none.

    Args:
        group: The name of the group, empty without one.
        value: The attribute that tells apart what lies within the group; None = the group itself.
    """
    if value is None or not group:
        return group if value is None else value
    return f"{group}/{value}" if value else ""


def lacks_groups(source: Source, run: TrainedRun, consequence: str) -> str:
    """A sentence if the run's samples have groups and these have none; else empty.

    Args:
        source: The samples.
        run: The run.
        consequence: What is then wrong, as the end of a sentence.
    """
    column = next(iter(run.columns.get("groups", ())), None)
    told = source.columns.get("groups") or (source.groups is not None and source.group_names is None)
    if column is None or told:  # groups without names are those of copies
        return ""
    return (
        f"The samples have no column '{column}', by which the run's are grouped: each counts as one by "
        f"itself. If several belong together, {consequence}."
    )


def name_samples(
    source: Source, spec: str | Path | None = None, encoding: str | None = None, sheet: str | None = None
) -> NamedSamples:
    """The samples of other data by name, each that could not be read where it would have been.

    Args:
        source: The samples.
        spec: The data; of a table its columns are read, without those of vectors.
        encoding: Encoding of that table, if it is text; None = found.
        sheet: The sheet of that table; None = the first that is not empty.
    """
    names: list[str] = []
    ids: list[int] = []
    skipped: dict[int, str] = {}
    left = sorted(source.unread.items(), reverse=True)
    units: dict[int, tuple[str, Mapping[str, str]]] = {}
    readable = zip(source.instances.tolist(), list_names(source), strict=True)

    def skip(before: float) -> None:
        while left and left[-1][0] < before:
            unread, (name, skipped[len(names)]) = left.pop()
            if unread in source.unread_units:
                units[len(names)] = source.unread_units[unread]
            names.append(name)
            ids.append(unread)

    for instance, name in readable:
        skip(instance)
        names.append(name)
        ids.append(instance)
    skip(math.inf)
    named = NamedSamples(names, source, skipped, skipped_units=units)
    if spec is None or source.table_rows is None:
        return named
    path = Path(local_copy(spec)).expanduser()
    table = GivenColumns.read(path, encoding, sheet, source.columns.get("vectors", ()))
    rows = source.table_rows.find(np.array(ids, np.int64))
    return dataclasses.replace(named, given=table.take(rows), one_each=source.table_rows.per_row == 1)


def list_names(source: Source) -> list[str]:
    """Names of the samples: their files, their texts, or their positions in the data set."""
    every = torch.arange(len(source))
    return (
        source.paths(every)
        or (source.sample_names() if source.vectors is not None else [])
        or (source.read(every) if source.texts is not None else [])
        or [f"{source.name} {instance}" for instance in source.instances.tolist()]
    )


def open_images(run: TrainedRun, files: Sequence[str]) -> NamedSamples:
    """Open image files as unlabelled samples; unreadable ones are skipped.

    Raises:
        DataError: If the run reads texts.
    """
    _check_modality(run, "image", "files")
    assert run.network.image_shape is not None
    channels, size, _ = run.network.image_shape
    how = run.network.preprocessing
    paths = [str(file) for file in files]
    names = [printable(path) for path in paths]
    if len(paths) * channels * size * size <= _IN_MEMORY:
        store, reasons = _decoded(paths, size, channels, how)
    else:
        opened = open_image_files(
            paths,
            paths,
            image_size=size,
            channels=channels,
            preprocessing=how,
            on_error="return",
            cache=False,
        )
        store, reasons = opened.store, dict(sorted(opened.failures.items()))
    reasons = {
        row: "it is a folder; name it by --data" if Path(paths[row]).is_dir() else reason
        for row, reason in reasons.items()
    }
    rows = torch.tensor([row for row in range(len(paths)) if row not in reasons], dtype=torch.int64)
    if not len(rows):
        return NamedSamples(names, None, reasons)
    both = run.network.encoder.modality == "both"
    source = Source(
        name="images",
        taxonomy=run.taxonomy,
        nodes=torch.full((len(rows),), -1),
        instances=rows,
        store=store,
        rows=rows,
        files=paths,
        texts=[""] * len(paths) if both else None,
    )
    return NamedSamples(names, source, reasons)


def _decoded(
    paths: Sequence[str], size: int, channels: int, how: Preprocessing | None
) -> tuple[ImageStore, dict[int, str]]:
    """The pixels of image files in memory, black where one cannot be read, and the reasons for these."""
    pixels = np.zeros((len(paths), channels, size, size), np.uint8)
    reasons: dict[int, str] = {}

    def attempt(path: str) -> np.ndarray[Any, Any] | str:
        try:
            return decode(Path(path), size, channels, preprocessing=how)
        except DataError as error:
            return str(error)

    for row, outcome in enumerate((in_threads if len(paths) > 1 else map)(attempt, paths)):
        if isinstance(outcome, str):
            reasons[row] = outcome
        else:
            pixels[row] = outcome
    return ArrayStore(pixels, how), reasons


def open_texts(run: TrainedRun, texts: Sequence[str]) -> NamedSamples:
    """Open texts as unlabelled samples; empty ones are skipped.

    Raises:
        DataError: If the run reads images.
    """
    _check_modality(run, "text", "texts")
    rows = torch.tensor([row for row, text in enumerate(texts) if text.strip()], dtype=torch.int64)
    empty = {row: "the text is empty" for row, text in enumerate(texts) if not text.strip()}
    if not len(rows):
        return NamedSamples(list(texts), None, empty)
    source = Source(
        name="texts",
        taxonomy=run.taxonomy,
        nodes=torch.full((len(rows),), -1),
        instances=rows,
        store=_no_images(run, len(texts)),
        rows=rows,
        texts=list(texts),
    )
    return NamedSamples(list(texts), source, empty)


def open_vectors(run: TrainedRun, vectors: np.ndarray[Any, Any]) -> NamedSamples:
    """Open vectors `(n, d)` as unlabelled samples; those with a number that is not finite are skipped.

    Raises:
        DataError: If the run reads no vectors, or vectors of another length.
    """
    _check_modality(run, "vector", "vectors")
    store = VectorStore(vectors, "the array of vectors")
    check_width(run, store)
    bad, _, told = store.bad_rows()
    names = [f"vector {row}" for row in range(len(store))]
    reasons = dict.fromkeys(bad.tolist(), "a number is missing or not finite")
    if len(bad) == 1:
        reasons = {int(bad[0]): told.partition(" has ")[2]}
    rows = torch.from_numpy(np.setdiff1d(np.arange(len(store)), bad))
    if not len(rows):
        return NamedSamples(names, None, reasons)
    nodes = torch.full((len(rows),), -1)
    source = Source("vectors", run.taxonomy, nodes, rows, None, rows, vectors=store, names=names)
    return NamedSamples(names, source, reasons)


def check_width(run: TrainedRun, store: VectorStore) -> None:
    """Raise a `DataError` if vectors do not have the length of those that a run was trained on."""
    width = run.network.encoder.without_adapter.feature_dim
    if store.width != width:
        place = run.folder.home.path
        raise DataError(
            f"{store.what} holds vectors of {store.width:,} numbers, but the run in '{place}' was "
            f"trained on {width:,}; take those of the same model, or train another run on these"
        )


def with_texts(
    run: TrainedRun, images: NamedSamples, given: Sequence[bool], texts: Sequence[str]
) -> NamedSamples:
    """Put texts beside images, for a run that reads both.

    Args:
        run: The run.
        images: The images that are given, in order.
        given: For each sample, whether it has an image.
        texts: Text of each sample; empty where it has none.

    Returns:
        The samples, one for each text. One is skipped if its image cannot be read, or it has neither.
    """
    shown = np.flatnonzero(given)
    reasons = {int(shown[place]): reason for place, reason in images.skipped.items()}
    places = torch.full((len(texts),), -1)
    store = _no_images(run, 0)
    if images.source is not None:
        assert images.source.store is not None
        store = images.source.store
        places[torch.from_numpy(shown)[images.source.instances]] = images.source.rows
    names = list(texts)
    for row, name in zip(shown.tolist(), images.names, strict=True):
        names[row] = name
    for row, text in enumerate(texts):
        if not given[row] and not text.strip():
            reasons[row] = "it has neither an image nor a text"
    rows = torch.tensor([row for row in range(len(texts)) if row not in reasons], dtype=torch.int64)
    if not len(rows):
        return NamedSamples(names, None, reasons)
    assert store is not None
    source = Source(
        name="images and texts",
        taxonomy=run.taxonomy,
        nodes=torch.full((len(rows),), -1),
        instances=rows,
        store=SomeImages(store, places),
        rows=rows,
        texts=list(texts),
    )
    return NamedSamples(names, source, reasons)


def _no_images(run: TrainedRun, count: int) -> ImageStore | None:
    """A store of rows without an image, for a run that reads images and texts; None for another."""
    shape = run.network.image_shape
    if run.network.encoder.modality != "both" or shape is None:
        return None
    return SomeImages(ArrayStore(np.zeros((0, *shape), np.uint8)), torch.full((count,), -1))


def _check_modality(run: TrainedRun, wanted: str, given: str) -> None:
    reads = run.network.encoder.modality
    if reads not in (wanted, "both") or (reads == "both" and wanted == "vector"):
        how = {
            "text": "texts, or a table of them as data",
            "vector": "a file of vectors as data, such as features.npz",
        }.get(reads, "image files, or a folder of them as data")
        raise DataError(
            f"the run's encoder '{run.recipe.encoder}' reads {reads}s: instead of {given}, give {how}"
        )


def table_settings(table: Mapping[str, Any] | None) -> TableRecipe:
    """The settings of a table, as a recipe has them; their parser is imported where some are given."""
    if not table:
        return TableRecipe()
    from labeltree.training.read_recipes import read_table_settings

    return read_table_settings(table)


def open_other(
    run: TrainedRun,
    spec: str | Path,
    *,
    data_path: str | Path | None = None,
    unlabelled: bool = False,
    own_labels: bool = False,
    as_trained: bool = False,
    judged: bool = False,
    mapping: str | Path | None = None,
    kept: Sequence[str] = (),
    on_error: OnError = "skip",
    table: Mapping[str, Any] | None = None,
) -> Source:
    """Open other samples in the shape that a trained run's encoder takes, labelled in the run's taxonomy.

    A run on images and texts also takes samples with only one of them. Samples keep their aspects if the run
    has the same ones. Unreadable images are left out.

    Args:
        run: The run.
        spec: a folder, a table or a data set.
        data_path: Folder of a data set that is given by name; None = the folder of the run's data set if both
            are parts of the same files, else the folder in the cache.
        unlabelled: Ignore labels, if there are any; all labels are missing in the result.
        own_labels: Keep the labels of the samples, in their own taxonomy, without aspects.
        as_trained: With `own_labels`, read the columns of a table as training did, its groups among them.
        judged: Answers are compared with the labels: those few that the taxonomy lacks are missing, with a
            warning. Else they are an error.
        mapping: What became of the nodes of the taxonomy of their labels in the run's; None = labels are of
            the run's. A run that is seen on another version of its taxonomy reads labels of both.
        kept: Columns of a table that must be there, and are kept with the samples, beside those of the run.
        on_error: Whether a warning names what is left out (`skip`), or the caller does (`list`).
        table: Settings of the table that differ from those of training, by name.

    Raises:
        RecipeError: If a setting of the table is unknown or not allowed.
        ValueError: If both `unlabelled` and `own_labels` are given.
        DataError: If the samples contain nothing that the encoder can read.
        TaxonomyError: If a label is not in the run's taxonomy.
    """
    if unlabelled and own_labels:
        raise ValueError("unlabelled and own_labels exclude each other; name one")
    spec = local_copy(spec)
    recipe, taxonomy = run.recipe, run.taxonomy
    modality, bare = run.network.encoder.modality, own_labels and not as_trained
    shape: dict[str, Any] = {}
    if modality in ("image", "both"):
        assert run.network.image_shape is not None
        channels, height, _ = run.network.image_shape
        shape = {"image_size": height, "channels": channels, "preprocessing": run.network.preprocessing}
    named = spec in list_datasets()
    change: TaxonomyMapping | str | Path | None = None
    if not unlabelled and not own_labels:
        change = mapping if run.change is None else run.change.mapping
    given = table_settings(table).columns
    if unlabelled and (label := next((name for name in _LABELS if name in given), None)):
        name = next(iter(given[label].given)) if label == "evidence" else label
        raise DataError(f"table.{name} says what the labels are, which are not read here; {_WITH_LABELS}")
    plain = (named and change is None) or own_labels or (unlabelled and has_folders(spec))
    no_labels = None if bare or unlabelled else recipe.missing_labels
    opened = partial(
        open_source,
        spec,
        **shape,
        data_path=_folder_of(recipe, spec) if data_path is None else str(data_path),
        taxonomy=None if plain else taxonomy,
        mapping=change,
        on_error=on_error,
        either=modality == "both",
        **(
            given
            if named or Path(spec).is_dir()
            else _columns(run, Path(spec), given, kept, unlabelled=unlabelled, bare=bare)
        ),
    )
    try:
        source = opened(missing_labels=no_labels)
    except TaxonomyError as error:
        if unlabelled or own_labels:
            raise
        listed = say_how_to_list(error, run.folder.home.path, spec)
        if not judged:
            raise TaxonomyError(f"{error}{listed}; {_OTHER_LABELS}") from error
        source = _without_unknown_labels(opened, no_labels, taxonomy, error, listed)
    for note in source.notes:
        if note.endswith(CONTESTED):
            _log.warning("%s: %s", spec, note)
    if modality == "both":
        source = _keep_paired(run, source)
    if modality != "both" and modality not in source.modalities:
        raise DataError(
            f"the run's encoder '{recipe.encoder}' reads {modality}s, but the samples of '{spec}' are "
            f"{source.modalities[0]}s"
        )
    if source.vectors is not None:
        check_width(run, source.vectors)
    if unlabelled:
        missing = torch.full_like(source.nodes, -1)
        return _without_aspects(dataclasses.replace(source, taxonomy=taxonomy, nodes=missing))
    if own_labels:
        return _without_aspects(source)
    if source.taxonomy != taxonomy:
        raise TaxonomyError(f"'{spec}' has another taxonomy than the run; {_OTHER_LABELS}")
    alike = source.aspect_taxonomies == run.aspect_taxonomies
    return source if alike else _without_aspects(source)


def _without_unknown_labels(
    opened: Callable[..., Source],
    missing: Sequence[str] | str | None,
    taxonomy: Taxonomy,
    error: TaxonomyError,
    listed: str = "",
) -> Source:
    """The samples, where names that the taxonomy lacks are missing labels; the error if most are.

    The end of a sentence, `listed`, says how to list all of them.
    """
    refusal = TaxonomyError(f"{error}{listed}; {_OTHER_LABELS}")
    cause = find_unknown(error)
    if cause is None:
        raise refusal from error
    lacks = list(dict.fromkeys(_first_unknown(path, taxonomy) for path in cause.paths))
    known = {plain_name(name) for name in taxonomy.names}
    there = [name for name in lacks if plain_name(name) in known]  # in other case, or at another place
    lacks = [name for name in lacks if name not in there]
    given = [missing] if isinstance(missing, str) else list(missing or ())
    try:
        source = opened(missing_labels=[*given, *lacks], **({"names": "plain"} if there else {}))
    except LabeltreeError:
        raise refusal from error
    if there:
        _log.warning("labels are read without regard to case and blanks, such as %s", some(there, 3))
    counts = {name: source.missing_labels[name] for name in lacks}
    lost = sum(counts.values())
    if not lost:
        return source
    if lost > int((source.nodes >= 0).sum()):
        raise refusal from error
    shown = []
    for name, count in counts.items():
        near = near_names(name, taxonomy.names[1:])
        many = f" of {count:,}" if count > 1 else ""
        shown.append(f"'{name}'{many}" + (f" (did you mean '{near[0]}'?)" if near else ""))
    more = [f"{len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    _log.warning(
        "the taxonomy lacks the label of %s: %s. %s with the class above, if it is given, or as unlabelled%s",
        say_count(lost, "sample", "samples"),
        say_list([*shown[:_SHOWN], *more]),
        "It counts" if lost == 1 else "They count",
        listed if more else "",
    )
    return source


def _first_unknown(path: tuple[str, ...], taxonomy: Taxonomy) -> str:
    """The first name of a path that is no child of those before it."""
    known = next(depth for depth in range(len(path) - 1, -1, -1) if taxonomy.follow(path[:depth]) is not None)
    return path[known]


def seen_in_training(run: TrainedRun, source: Source) -> np.ndarray[Any, Any]:
    """Which samples `(n,)` bool are training or validation samples of the run: by content, or by their ids.

    Also of the runs from whose weights it started, one from another. An id tells a sample whose content has
    changed, see `SampleRecord.splits_in`; the place in a file, such as `line 7`, tells none. All False if the
    folder keeps no record of these, as an exported model.
    """
    home, seen = run.folder.home, np.zeros(len(source), dtype=bool)
    records = [SampleRecord.load(home.samples)] if home.samples.is_file() else []
    if home.recipe.is_file():
        records += [record for _, record in start_records(run.recipe)]
    records = [record for record in records if record.digests is not None]
    if not records:
        return seen
    names, digests = source.sample_names(), source.copy_digests()
    for record in records:
        known = names if record.given_names() is not None else [""] * len(names)
        seen |= np.isin(record.splits_in(known, digests), ("train", "val", CALIB))
    return seen


def seen_since_training(run: TrainedRun, source: Source) -> np.ndarray[Any, Any]:
    """Which samples `(n,)` bool have the content of one that the run was extended or calibrated with.

    These are labelled samples that are not its own; all False if the folder has no digests of them.
    """
    seen: np.ndarray[Any, Any] = seen_in_extensions(run, source) | seen_in_calibrations(run, source)
    return seen


def seen_in_extensions(run: TrainedRun, source: Source) -> np.ndarray[Any, Any]:
    """Which samples `(n,)` bool an extension learned from or held out, up to the one that answers."""
    return _have_contents(source, [each.reference for each in _extensions_until(run)])


def seen_in_calibrations(run: TrainedRun, source: Source) -> np.ndarray[Any, Any]:
    """Which samples `(n,)` bool the run was calibrated on, or what it was extended from."""
    folders = [run.folder.home, *_extensions_until(run), run.folder]
    return _have_contents(source, [each.calibration_samples for each in folders])


def _extensions_until(run: TrainedRun) -> list[RunFolder]:
    """The extensions of a run up to the one that answers, which keeps the samples of those before."""
    number = int(run.folder.path.name) if run.folder.extension.is_file() else 0
    return [each for each in run.folder.home.extensions if int(each.path.name) <= number]


def _have_contents(source: Source, files: Sequence[Path]) -> np.ndarray[Any, Any]:
    """Which samples `(n,)` bool have the content of one whose digest is in a file, see `save_reference`."""
    known = {digest for file in files for digest in kept_digests(file)}
    if not known:
        return np.zeros(len(source), dtype=bool)
    return have_digest(source.copy_digests(), known)


def _keep_paired(run: TrainedRun, source: Source) -> Source:
    """Samples of images alone, or of texts alone, as samples that lack the other."""
    if source.texts is None:
        assert source.store is not None
        return dataclasses.replace(source, texts=[""] * len(source.store))
    if source.store is None:
        return dataclasses.replace(source, store=_no_images(run, len(source.texts)))
    return source


def text_settings(run: TrainedRun, path: Path, given: Mapping[str, Any]) -> dict[str, str | None]:
    """The encoding and the sheet of another table: those given, or those of training where it needs them."""
    known = run.recipe.table
    told = {name: given[name] for name in ("encoding", "sheet") if name in given}
    return settings_of_another(path, known.encoding, known.sheet) | told


def _columns(
    run: TrainedRun,
    path: Path,
    given: Mapping[str, Any],
    kept: Sequence[str],
    *,
    unlabelled: bool,
    bare: bool,
) -> dict[str, Any]:
    """The settings of a table to be embedded: those given, and those of training as far as they fit.

    Columns that only training reads may be absent; of `bare` data those of vectors alone are read likewise.
    """
    text = text_settings(run, path, given)
    header = table_header(path, **text)
    told = run.folder.home.read_summary().get("notes") or ()
    for note in () if header is None else header.notes:
        if note != GUESSED or GUESSED not in told:  # the run was trained on text that was read alike
            _log.warning("%s", note)
    there = [] if header is None else header.columns
    chosen = (
        _vector_columns(run, there) | text if bare else _trained_columns(run, there, kept, unlabelled) | text
    )
    if kept and "keep_columns" in given:
        given = {**given, "keep_columns": list(dict.fromkeys([*given["keep_columns"], *kept]))}
    return {**chosen, **given}


def _trained_columns(
    run: TrainedRun, there: Sequence[str], kept: Sequence[str], unlabelled: bool
) -> dict[str, Any]:
    """The columns of training in a table that has the columns `there`."""
    known = run.columns.get("groups", ())
    groups = run.recipe.table.group_column or (known[0] if known else None)
    groups = _role_of(run, groups, "group", there)  # patients stay patients where there are some
    split = _role_of(run, run.recipe.table.split_column, "split", there)
    columns = label_settings(run.recipe.table, run.columns, there) | {
        "aspect_columns": None,
        "group_column": groups,
        "split_column": split,
    }
    columns |= _sample_columns(run, there) | _vector_columns(run, there)
    present = [name for name in columns.get("keep_columns", ()) if name in there]
    columns["keep_columns"] = list(dict.fromkeys([*present, *kept])) or None
    rule = columns.get("image_name")
    if rule is not None and not set(ImageRule(rule).columns) <= set(there):
        columns |= {"image_name": None, "image_folder": None}  # of the table that the run was trained on
    if unlabelled:
        return columns | {"label_columns": [], "evidence": None}
    return columns


def label_settings(
    settings: TableRecipe, columns: Mapping[str, Sequence[str]], there: Sequence[str]
) -> dict[str, Any]:
    """The settings of the table of training for another one that has the columns `there`.

    Args:
        settings: Those of the recipe.
        columns: The columns that training read, by purpose.
        there: The columns of the other table.
    """
    chosen = settings.columns
    if (filled := chosen.get("fill_down")) is not None:
        chosen["fill_down"] = [name for name in filled if name in there] or None
    evidence = chosen.get("evidence")
    if evidence is not None and not evidence.named <= set(there):
        evidence = chosen["evidence"] = None  # other samples may have one label each
    depths = () if evidence is not None and evidence.votes else columns.get("labels", ())
    if "label_columns" not in chosen and len(depths) > 1 and set(depths) <= set(there):
        chosen["label_columns"] = list(depths)  # the nested columns that training found
    return chosen


def _role_of(run: TrainedRun, named: str | None, usual: str, there: Sequence[str]) -> str | None:
    """The column of groups, splits or ids in another table: the named one if the table has it.

    A column of the usual name that was a label or a text of the run, say, is not taken for groups here.
    """
    if named == NO_COLUMN or named in there:
        return named
    others = {
        name for kind, names in run.columns.items() if kind not in ("groups", "split") for name in names
    }
    return NO_COLUMN if usual in others else None


def _sample_columns(run: TrainedRun, there: Sequence[str]) -> dict[str, Any]:
    """The column of texts or images that training took by its name, if another table has it."""
    settings, modality = run.recipe.table, run.network.modality
    known = {kind: run.columns.get(kind, ()) for kind in ("texts", "images")}
    if settings.image_name is not None or settings.image_column or settings.text_column or modality == "both":
        return {}
    if modality == "text" and known["texts"] and set(known["texts"]) <= set(there):
        return {"text_column": list(known["texts"])}
    if modality == "image" and len(known["images"]) == 1 and known["images"][0] in there:
        return {"image_column": known["images"][0]}
    return {}


def _vector_columns(run: TrainedRun, there: Sequence[str]) -> dict[str, Any]:
    """The columns of the vectors in another file: those of training, unless it has none of them.

    The labels of training are those of other samples.
    """
    known, ids = run.columns.get("vectors", ()), run.recipe.table.id_column
    if run.network.modality != "vector":
        return {}
    chosen: dict[str, Any] = {"label_file": None, "vector_column": None}
    if set(known) & set(there):
        chosen["vector_column"] = list(known)
    return chosen | {"id_column": _role_of(run, ids, "id", there)}


def _without_aspects(source: Source) -> Source:
    return dataclasses.replace(source, aspects=None, aspect_taxonomies=(), ratings=None)


def _folder_of(recipe: Recipe, spec: str) -> str | None:
    """Folder of the run's data set, if `spec` is a part of the same files."""
    known = list_datasets()
    alike = (
        spec in known and recipe.data in known and get_dataset(spec).folder == get_dataset(recipe.data).folder
    )
    return recipe.data_path if alike else None


def has_folders(spec: str) -> bool:
    """Whether it is a folder that has folders in it, which may be labels."""
    return Path(spec).is_dir() and any(
        entry.is_dir() and not is_system_file(entry.name) for entry in Path(spec).iterdir()
    )
