"""A run as a notebook shows it: what was trained on what, how the training ended, and what may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.notebooks import html_sentences, html_table
from labeltree.runs.model_description import ModelDescription
from labeltree.runs.run_files import RunFiles
from labeltree.runs.sample_record import SampleRecord
from labeltree.safe_files import Reader, read_text

__all__ = ["run_html"]

_SETTINGS = ("data", "encoder", "objective", "epochs")
_NUMBERS = {
    "train_loss": "loss",
    "val_embeddings_map_at_r": "validation MAP@R",
    "val_embeddings_recall_at_1": "validation recall@1",
}
_RECIPE = Reader("a recipe", "train again")


def run_html(
    run: RunFiles,
    read_history: Callable[[], Sequence[Mapping[str, float]]],
    load_samples: Callable[[], SampleRecord],
) -> str:
    """The settings of a run, its samples by split, its last epoch, and what may be called next."""
    name = f"run {run.path}"
    if not run.recipe.is_file():
        there = "an exported model" if run.description.is_file() else "no run yet"
        return str(html_sentences([f"{name}: {there}"]))
    try:
        recipe = _settings(run)
    except LabeltreeError as error:
        return str(html_sentences([name, str(error)]))
    rows = [[key, str(recipe[key])] for key in _SETTINGS if recipe.get(key) is not None]
    try:
        split = load_samples().split.tolist() if run.samples.is_file() else []
        history = read_history()
    except LabeltreeError as error:
        return str(html_sentences([name, str(error)]))
    counts = [f"{split.count(one):,} {one}" for one in dict.fromkeys(filter(None, split))]
    rows += [["samples", ", ".join(counts)]] if counts else []
    last = history[-1] if history else {}
    rows += [[said, f"{last[key]:.4f}"] for key, said in _NUMBERS.items() if key in last]
    finished = run.encoder.is_file()
    follows = "labeltree.evaluate(run) measures it" if not run.report.is_file() else f"report: {run.report}"
    says = follows if finished else "the training has not finished; the same call of train continues it"
    return str(html_sentences([name]) + html_table(["", ""], rows) + html_sentences([says]))


def _settings(run: RunFiles) -> Mapping[str, Any]:
    """The settings that training has decided, or those of the recipe of a run that is not finished."""
    import yaml

    if run.description.is_file():
        return ModelDescription.load(run.description).settings

    with _RECIPE.reading(run.recipe, "it is not YAML"):
        given = yaml.safe_load(read_text(run.recipe, _RECIPE))
    return given if isinstance(given, dict) else {}
