"""A solved run without some of its samples: which they are, its head without them, its files without them."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.atomic import write_text
from labeltree.data import Source
from labeltree.data.corrections import COLUMNS, CONTENT, Corrections
from labeltree.data.data_summary import summarize
from labeltree.data.former_names import read_place
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.load_run import TrainedRun, seen_by_start
from labeltree.models import VectorEncoder
from labeltree.progress import Progress
from labeltree.ridge.fitting import fit_tree_ridge
from labeltree.ridge.ridge_file import load_ridge, save_ridge
from labeltree.ridge.ridge_loss import TreeRidgeLoss
from labeltree.ridge.tree_ridge import TreeRidge
from labeltree.runs import EmbeddingTable, RunFolder, SampleRecord
from labeltree.safe_files import Reader, read_json
from labeltree.taxonomy.naming import some
from labeltree.training.experiment import standardise
from labeltree.training.features.frozen import encode_rows
from labeltree.training.tokens_and_views import open_inputs
from labeltree.training.training_labels import training_labels
from labeltree.workbooks import spreadsheet_rows

__all__ = [
    "Chosen",
    "check_can_forget",
    "choose_samples",
    "head_without",
    "solver_of",
    "stage_files",
    "standardises",
]

_MANY = 20_000  # names among which near ones are looked for
_DATA = Reader("the summary of the data of a run", "restore it", RunError)
_TABLE = Reader("a table in a run", "restore it, or delete it", RunError)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Chosen:
    """Samples that a run is to forget.

    Attributes:
        record: The samples of the run, before.
        gone: `(n,)` bool, those to forget.
        names: What they are called in tables: their names and ids, and ids that only a table or an index has.
    """

    record: SampleRecord
    gone: Array
    names: frozenset[str]

    @property
    def rest(self) -> SampleRecord:
        """The record without them."""
        left = self.record.rows(np.flatnonzero(~self.gone))
        return replace(left, forgotten=self.record.forgotten + int(self.gone.sum()))

    @property
    def digests(self) -> Array:
        """Digests `(m, 16)` of their contents that no other sample of the run has."""
        known = np.asarray(self.record.digests)
        kept = {row.tobytes() for row in known[~self.gone]}
        own = [row for row in known[self.gone] if row.tobytes() not in kept]
        return np.array(own, np.uint8).reshape(len(own), known.shape[1])

    def in_split(self, name: str) -> int:
        """How many of them are in a split."""
        return int((np.asarray(self.record.split)[self.gone] == name).sum())


def choose_samples(
    folder: RunFolder,
    samples: Iterable[str],
    groups: Iterable[str],
    *,
    elsewhere: Callable[[Sequence[str]], Collection[str]],
    group_names: Callable[[], Array | None],
) -> Chosen:
    """Find the samples of a run that are to be forgotten.

    Args:
        folder: Of the run.
        samples: Their ids.
        groups: Groups, all samples of which are meant.
        elsewhere: Which of some ids are in an index from which they are to be deleted.
        group_names: Gives the name of each sample's group `(n,)`; None = there are no names.

    Raises:
        DataError: If a sample or a group is not known, or a sample shares its name with one that stays.
    """
    record = folder.load_samples()
    ids, names = record.ids, list(record.names or ())
    rows_of: dict[str, list[int]] = {}
    for row, known in enumerate(zip(ids, names, strict=True)):
        for name in set(known):
            rows_of.setdefault(name, []).append(row)
    asked = list(dict.fromkeys(samples))
    unknown = [name for name in asked if name not in rows_of]
    if unknown:
        there = {*elsewhere(unknown), *_corrected(folder)}
        if missing := [name for name in unknown if name not in there]:
            raise DataError(f"{_unknown('sample', missing, folder)}{_near(missing[0], rows_of)}")
    gone = np.zeros(len(record), dtype=bool)
    for name in asked:
        gone[rows_of.get(name, [])] = True
    if wanted := list(dict.fromkeys(groups)):
        of_each = group_names()
        if of_each is None:
            raise DataError(f"the samples of '{folder.path}' are in no groups; name samples")
        known_groups = dict.fromkeys(name for name in of_each.tolist() if name)
        if missing := [name for name in wanted if name not in known_groups]:
            raise DataError(f"{_unknown('group', missing, folder)}{_near(missing[0], known_groups)}")
        gone |= np.isin(of_each, wanted)
    left = Counter(name for name, out in zip(names, gone.tolist(), strict=True) if not out)
    for name, out in zip(names, gone.tolist(), strict=True):
        if out and left[name]:
            raise DataError(
                f"'{name}' is the name of several samples, which are told apart by their order alone; forget "
                f"all of them ('--sample {typed(name)}'), or none"
            )
    own = [name for pair in (ids, names) for name, out in zip(pair, gone.tolist(), strict=True) if out]
    return Chosen(record, gone, frozenset([*own, *unknown]))


def _corrected(folder: RunFolder) -> set[str]:
    return {entry.sample for file in folder.correction_files for entry in Corrections.load(file).entries}


def _unknown(what: str, names: Sequence[str], folder: RunFolder) -> str:
    if len(names) == 1:
        return f"'{names[0]}' is not a {what} of the run in '{folder.path}'"
    return f"{some(names, 3)} are not {what}s of the run in '{folder.path}'"


def _near(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 3) if len(known) <= _MANY else []
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def group_names_of(folder: RunFolder, open_source: Callable[[], Source]) -> Array | None:
    """The name of each sample's group `(n,)`: from the embeddings in the folder, else from the data."""
    record, file = folder.load_samples(), folder.embeddings()
    if file.is_file():
        table = EmbeddingTable.load(file, folder.load_taxonomy())
        if table.group_names is not None and table.instances is not None:
            names = dict(zip(table.instances.tolist(), table.group_names.tolist(), strict=True))
            return np.array([names.get(number, "") for number in record.instances.tolist()], dtype=str)
    if record.groups is None:
        return None
    source = open_source()
    if source.group_names is not None or source.groups is None:
        return source.group_names
    return np.array(["" if group < 0 else str(group) for group in source.groups.tolist()], dtype=str)


def solver_of(run: TrainedRun) -> TreeRidgeLoss:
    """The head of a run that was solved at once.

    Raises:
        RunError: If the run was trained by steps.
    """
    objective = run.network.objective
    if not objective.is_solved:  # the posterior space alone is solved, too, on what steps have trained
        raise RunError(
            f"the run in '{run.folder.path}' was trained by steps, with objective '{run.recipe.objective}': "
            "what its weights hold of a sample cannot be taken out; a run with --objective tree-ridge keeps "
            "sums, from which it can, and 'labeltree train' without the sample makes another run"
        )
    solver = objective.solver
    assert solver is not None
    return solver


def check_can_forget(run: TrainedRun, chosen: Chosen) -> None:
    """Check that the samples are in nothing but the sums of a run, and what is made anew.

    Raises:
        RunError: If they are in its weights, or the run is not a solved one.
    """
    solver_of(run)
    folder, recipe = run.folder, run.recipe
    anew = "'labeltree train' without them, into another --out, is the way"
    if folder.home.extensions:
        raise RunError(
            f"the run in '{folder.home.path}' was extended, and samples may be in its extension; 'labeltree "
            f"extend {typed(folder.home.path)} --undo' removes that, then forget, and extend the run again"
        )
    if recipe.label_noise or recipe.taxonomy_noise or recipe.inner_share:
        raise RunError(
            f"the labels of the run in '{folder.path}' were changed at random (label_noise, taxonomy_noise "
            f"or inner_share), and which ones depends on all samples; {anew}"
        )
    if recipe.weights is not None:
        _check_start(run, chosen, anew)


def _check_start(run: TrainedRun, chosen: Chosen, anew: str) -> None:
    """Raise a `RunError` if the weights that a run started from have seen the samples, or may have."""
    digests, start = chosen.record.copy_digests, run.recipe.weights
    shared = seen_by_start(run.recipe, None if digests is None else digests[chosen.gone])
    if shared is None:
        raise RunError(
            f"the encoder of '{run.folder.path}' is that of '{start}', and nothing there says "
            "which samples it was trained on, so that they may be in its weights, too"
        )
    if shared:
        raise RunError(
            f"the encoder of '{run.folder.path}' was trained by the run in '{start}' (weights), on "
            f"{shared} of these samples, and they cannot be taken out of its weights; train an encoder "
            f"without them first: {anew}"
        )


def standardises(run: TrainedRun) -> bool:
    """Whether a run standardises its vectors by column, by means and scales of all training samples."""
    encoder = run.network.encoder
    if not isinstance(encoder, VectorEncoder):
        return False
    return bool((encoder.scale != 1).any() or (encoder.centre != 0).any())


def head_without(
    run: TrainedRun, source: Source, progress: Progress | None = None
) -> tuple[TreeRidge, dict[str, torch.Tensor]]:
    """The head of a solved run of its remaining samples at the same settings, and the weights with it.

    Slopes, offsets and the scale are fitted anew to what folds of the remaining samples say of each; where
    vectors are standardised by column, so are the means and scales.

    Args:
        run: The run.
        source: Its remaining samples.
        progress: Called while features are computed.

    Raises:
        DataError: If the remaining samples do not suffice.
        RunError: If the taxonomy of training depends on the samples.
    """
    solver, network, recipe = solver_of(run), run.network, run.recipe
    before = load_ridge(run.folder.ridge, solver.taxonomy)
    training = source.of_split("train")
    labels = training_labels(recipe, source.taxonomy, training.nodes)
    if labels.taxonomy != solver.taxonomy or not torch.equal(labels.from_training, network.from_training):
        raise RunError(
            f"the taxonomy of training of '{run.folder.path}' is another one without these samples; train "
            "anew"
        )
    if standardises(run):
        standardise(network.encoder, training)
    training = labels.source(training, recipe)
    features = encode_rows(
        network, source, open_inputs(source, network.encoder, recipe), training.rows, progress
    )
    try:
        head, _ = fit_tree_ridge(
            features,
            training.nodes if training.label_sets is None else training.label_sets,
            solver.taxonomy,
            groups=training.groups,
            tree=before.tree,
            instance=before.instance,
            similarity=before.similarity,
            penalty=before.penalty,
            nonlinear=before.num_fourier_features,
            folds=solver.folds,
            seed=recipe.seed,
        )
    except DataError as error:
        raise DataError(f"the run cannot do without these samples: {error}") from error
    return head, weights_with(run, head)


def weights_with(run: TrainedRun, head: TreeRidge) -> dict[str, torch.Tensor]:
    """The weights of a solved run with another head."""
    solver_of(run).take(head)
    kept = {k: v for k, v in run.folder.load_weights().items() if not k.startswith("objective.")}
    if isinstance(run.network.encoder, VectorEncoder):
        kept = {f"encoder.{k}": v for k, v in run.network.encoder.state_dict().items()}
    return kept | {f"objective.{k}": v for k, v in run.network.objective.state_dict().items()}


def stage_files(
    run: TrainedRun,
    chosen: Chosen,
    source: Source | None,
    solved: tuple[TreeRidge, dict[str, torch.Tensor]] | None,
) -> Callable[[Path], None]:
    """Writes the files of a run that name its samples, or were computed from them, without some samples.

    Args:
        run: The run.
        chosen: The samples to leave out.
        source: The remaining ones; None = no sample of the run is left out, only rows of tables.
        solved: Its new head and weights; None = they stay.
    """
    folder = run.folder

    def write(fresh: Path) -> None:
        new = RunFolder(fresh)
        if solved is not None:
            save_ridge(solved[0], new.ridge)
            new.save_weights(solved[1], 0)
        if source is not None:
            chosen.rest.save(new.samples)
            new.write_json(new.data, _summary(folder, source, chosen))
        for number, file in enumerate(folder.correction_files, 1):
            table = Corrections.load(file)
            kept = tuple(entry for entry in table.entries if entry.sample not in chosen.names)
            replace(table, entries=kept).save(new.correction_file(number))
        rows = _row_numbers(chosen)
        _copy_table(
            folder.unused_rows,
            new.unused_rows,
            lambda cells: cells["row"] not in rows and cells.get("id") not in chosen.names,
        )
        _copy_table(folder.unreadable, new.unreadable, lambda cells: not chosen.names & set(cells.values()))
        _copy_table(
            folder.suspects,
            new.suspects,
            lambda cells: cells["sample"] not in chosen.names,
            columns=(*COLUMNS, CONTENT),  # others may name it as a neighbour
        )

    return write


def _row_numbers(chosen: Chosen) -> set[str]:
    """The numbers of a table's rows that are those samples: those of their names, or else counted from 1."""
    named = {name: number for name in chosen.names if (number := read_place(name)) is not None}
    gone = chosen.record.rows(np.flatnonzero(chosen.gone))
    names = gone.names or [""] * len(gone)
    counted = zip(gone.instances.tolist(), names, strict=True)
    return {*named.values(), *(str(number + 1) for number, name in counted if name not in named)}


def _summary(folder: RunFolder, source: Source, chosen: Chosen) -> dict[str, Any]:
    """The summary of the data, counted anew, without notes that name a sample."""
    fresh, known = summarize(source).to_dict(), read_json(folder.data, _DATA)
    told = [note for note in known.get("notes", []) if not any(_names(note, name) for name in chosen.names)]
    return {**known, **{name: fresh[name] for name in ("splits", "warnings", "closing")}, "notes": told}


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _copy_table(
    file: Path, target: Path, keeps: Callable[[dict[str, str]], bool], columns: Collection[str] | None = None
) -> None:
    """Write the rows of a CSV file that are kept, if there is one, and of them some columns."""
    if not file.is_file():
        return
    (_, header), *lines = spreadsheet_rows(file, _TABLE) or [(1, [])]
    names = [name for name in header if columns is None or name in columns]
    with _TABLE.reading(file, "a column is missing"):
        tables = [dict.fromkeys(header, "") | dict(zip(header, line, strict=False)) for _, line in lines]
        rows = [row for line, row in zip(lines, tables, strict=True) if any(line[1]) and keeps(row)]
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write_text(target, out.getvalue())
