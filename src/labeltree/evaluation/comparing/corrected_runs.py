"""Runs of which some learned from corrections: the commands that measure all on the same labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.errors import LabeltreeError, typed
from labeltree.runs import RunFolder
from labeltree.runs.model_description import ModelDescription
from labeltree.taxonomy import Taxonomy

__all__ = ["commands_on_corrected"]

_Labels = dict[str, str | None]


def commands_on_corrected(methods: Mapping[str, Sequence[str | Path]]) -> str | None:
    """What to type if the labels of runs differ because some learned from corrections, as a sentence.

    The labels of every run must become those of the one with the most tables of corrections by the tables
    that it lacks. Its folder for these labels is then measured by `evaluate RUN --corrections FILE`.

    Args:
        methods: Method → folders of its runs.

    Returns:
        The commands; None where corrections do not explain the difference, or samples are not recorded.
    """
    try:
        runs = {str(path): RunFolder(path) for paths in methods.values() for path in paths}
        rounds = {path: CorrectionRounds.load(run.correction_files) for path, run in runs.items()}
        most = max(rounds, key=lambda path: len(rounds[path].tables))
        behind = [path for path, known in rounds.items() if not known.same_as(rounds[most])]
        after = _labels_after(runs[most], CorrectionRounds(()))
        if not behind or not all(
            _agree(_labels_after(runs[path], rounds[most].without(rounds[path])), after) for path in behind
        ):
            return None
        files = _named_files(runs[most], rounds[most])
    except LabeltreeError:
        return None
    tables = " ".join(map(typed, files))
    evaluations = [f"'labeltree evaluate {typed(path)} --corrections {tables}'" for path in behind]
    places = {path: str(runs[path].corrected(files)) if path in behind else path for path in runs}
    compared = [(name, [places[str(path)] for path in paths]) for name, paths in methods.items()]
    return (
        f"'{most}' learned from corrected labels; to measure all on these, {', '.join(evaluations)}, then "
        f"'labeltree compare {' '.join(_say_method(*method) for method in compared)}'"
    )


def _say_method(name: str, places: Sequence[str]) -> str:
    """A method as arguments of `compare`: the folder of its run, or its name with several."""
    if len(places) == 1:
        return typed(places[0])
    return f"--name {typed(f'{name}=' + ','.join(places))}"


def _labels_after(run: RunFolder, rounds: CorrectionRounds) -> _Labels:
    """The label of each sample of a run, by its id, after further tables of corrections; see `_agree`."""
    record, taxonomy = run.load_samples(), run.load_taxonomy()
    nodes, ids = torch.from_numpy(record.nodes), record.ids
    done = rounds.resolve(ids, nodes, taxonomy)
    labels = zip(ids, done.nodes.tolist(), done.keep.tolist(), strict=True)
    return {name: _path(node, taxonomy) for name, node, stays in labels if stays}


def _path(node: int, taxonomy: Taxonomy) -> str | None:
    return taxonomy.path_name(node) if node > 0 else None


def _agree(first: _Labels, second: _Labels) -> bool:
    """Whether the samples that both have, and there are some, have the same labels."""
    both = first.keys() & second.keys()
    return bool(both) and all(first[name] == second[name] for name in both)


def _named_files(run: RunFolder, own: CorrectionRounds) -> list[Path]:
    """The tables that a run learned from as its recipe names them, or its own copies if these changed."""
    named = ModelDescription.load(run.description).settings.get("corrections") or []
    files = [Path(file) for file in ([named] if isinstance(named, str) else named)]
    try:
        if not CorrectionRounds.load(files).same_as(own):
            return run.correction_files
    except LabeltreeError:
        return run.correction_files
    here = Path.cwd()
    return [file.relative_to(here) if file.is_relative_to(here) else file for file in files]
