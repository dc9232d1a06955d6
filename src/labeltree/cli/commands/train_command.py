"""`labeltree train`: train a recipe, given by flags or a file, into a run folder."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

from labeltree.counted_nouns import say_count
from labeltree.offline import OFFLINE

if TYPE_CHECKING:
    from labeltree.data import DataSummary
    from labeltree.training.recipe import Recipe

SUMMARY = "train an encoder whose embeddings respect a taxonomy"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""

USAGE = "labeltree train --data DATA [--objective NAME] [--out FOLDER] [--config FILE] [settings]"


def run(arguments: list[str]) -> None:
    """Train or continue the run described by the arguments."""
    if _list_names(arguments):
        return
    from labeltree.training.parser_text import short_help
    from labeltree.training.read_recipes import (
        RecipeParser,
        default_folder,
        objective_of,
        with_absolute_paths,
    )

    arguments = _join_lists([_underscored(argument) for argument in arguments], "--corrections")
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--out")
    own.add_argument("--folds", type=int)
    own.add_argument("--quiet", action="store_true")
    own.add_argument("--verify", action="store_true")
    own.add_argument("--offline", action="store_true")
    options, settings = own.parse_known_args(arguments)
    if options.offline:
        os.environ[OFFLINE] = "1"

    parser = RecipeParser(
        objective_of(settings),
        prog="labeltree train",
        usage=USAGE,
        description="Train an encoder on images or texts with taxonomy labels. The same command continues a "
        "run that was interrupted. Besides the settings below: --out FOLDER (default runs/NAME-OF-DATA), "
        "--folds N (a cross-validation: a run for each of N parts of the samples, which tests it), "
        "--quiet (no progress; notes and warnings about the data stay), --verify (to read all files again, "
        "also those whose size and time of change are as they were), --offline (to fetch no "
        "weights), --list-objectives, --list-encoders and --list-recipes. "
        "Names may be written with - or _.",
    )
    if "--help_all" in settings:
        print(parser.format_help())
        return
    if {"-h", "--help"} & set(settings):
        print(short_help(parser._actions, USAGE))
        return
    if settings and not settings[0].startswith("-"):
        raise ValueError(f"'{settings[0]}' stands alone; samples are named by --data {settings[0]}")
    recipe = with_absolute_paths(parser.recipe(settings))

    from labeltree.inference.finish import finish_run
    from labeltree.runs import ModelDescription, RunFolder
    from labeltree.training.choosing.earlier_splits import say_new_split
    from labeltree.training.fit import train
    from labeltree.training.records.record import is_first_rank

    if options.folds is not None:
        _train_folds(recipe, options)
        return
    place = options.out or default_folder(recipe)
    again = RunFolder(place).encoder.is_file()
    folder = train(
        recipe,
        place,
        progress_bar=not options.quiet,
        on_data=_tell_remarks if options.quiet else _tell,
        verify=options.verify,
    )
    if not is_first_rank():
        return
    finish_run(folder, progress_bar=not options.quiet)
    if again:
        print("the run was complete: nothing was trained anew")
    history = folder.read_history()
    chosen, summary = ModelDescription.load(folder.description).settings, folder.read_summary()
    print(
        f"{_ending(history, chosen['objective'], chosen['monitor'], recipe.data, summary.get('searched'))}\n"
        f"run folder: {folder.path}\nnext: labeltree evaluate {shlex.quote(str(folder.path))}"
    )
    if closing := summary.get("closing"):
        print(f"warning: {closing}", file=sys.stderr)
    if said := say_new_split(recipe, folder):
        print(f"note: {said}", file=sys.stderr)


def _ending(
    history: list[dict[str, float]], objective: str, monitor: str, data: str, searched: str | None = None
) -> str:
    """What was trained, and how good the best epoch is on validation, searched for among `searched`."""
    from labeltree.metrics.catalogue import metric_name
    from labeltree.training.callbacks.checkpoints import best_row
    from labeltree.training.module import VALIDATION_METRICS
    from labeltree.training.registry import is_solved

    best = best_row(history, f"val_{monitor}")
    value = best.get(f"val_{monitor}", math.nan)
    epochs = say_count(len(history), "epoch")
    of_embeddings = monitor.startswith("embeddings_")
    name = metric_name(monitor.removeprefix("embeddings_")) + " of the embeddings" * of_embeddings
    measured = f"validation {name} {value:.4f}"
    if searched and monitor.removeprefix("embeddings_") in VALIDATION_METRICS:
        measured += f" (searched among {searched})"
    undefined = f"validation {name} is undefined on these samples"
    if is_solved(objective):
        return f"solved {objective} on {data}: {measured if math.isfinite(value) else undefined}"
    if math.isfinite(value):
        return f"trained {objective} on {data}: {epochs}, best after {best['epoch'] + 1:.0f} with {measured}"
    return f"trained {objective} on {data}: {epochs}, the last is kept, as {undefined}"


def _list_names(arguments: list[str]) -> bool:
    """Print names to choose from, if asked to; before Lightning, which takes seconds to load, is imported."""
    if "--list-objectives" in arguments:
        from labeltree.training.registry import ObjectiveEntry, ObjectiveSum, list_objectives, list_sums

        listed: list[ObjectiveSum | ObjectiveEntry] = [*list_sums(), *list_objectives()]
        width = max(len(entry.name) for entry in listed)
        for entry in listed:
            print(f"{entry.name:<{width}} {entry.summary} ({entry.source})")
    elif "--list-encoders" in arguments:
        from labeltree.models import encoder_summaries

        described = encoder_summaries()
        width = max(map(len, described))
        print("\n".join(f"{name:<{width}} {summary}" for name, summary in described.items()))
    elif "--list-recipes" in arguments:
        from labeltree.training.read_recipes import list_recipes

        print("\n".join(list_recipes()))
    else:
        return False
    return True


def _train_folds(recipe: Recipe, options: argparse.Namespace) -> None:
    from labeltree.report.cross_validation import train_folds
    from labeltree.training.records.record import is_first_rank

    folder = train_folds(
        recipe,
        options.folds,
        options.out,
        progress_bar=not options.quiet,
        on_data=_tell_remarks if options.quiet else _tell,
        verify=options.verify,
    )
    if is_first_rank():
        print(f"trained {options.folds} folds: {folder.path}")
        print(f"next: labeltree evaluate {shlex.quote(str(folder.path))}")


def _tell(summary: DataSummary) -> None:
    print(f"{summary}\n", flush=True)


def _tell_remarks(summary: DataSummary) -> None:
    for note in summary.notes:
        print(f"note: {note}", file=sys.stderr)
    for warning in summary.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _underscored(argument: str) -> str:
    """Turn `--batch-size=3` into `--batch_size=3`; values are unchanged."""
    name, equals, value = argument.partition("=")
    return (
        name.replace("-", "_").replace("__", "--", 1) + equals + value
        if re.match(r"--\w", name)
        else argument
    )


def _join_lists(arguments: list[str], flag: str) -> list[str]:
    """Several values after a flag, or after the flag given again, as one list, as recipes are parsed."""
    values: list[str] = []
    others: list[str] = []
    taking = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name == flag:
            taking = not equals
            values += [value] if equals else []
        elif taking and not argument.startswith("--"):
            values.append(argument)
        else:
            taking = False
            others.append(argument)
    if len(values) < 2:
        return arguments
    return [*others, f"{flag}={json.dumps(values)}"]
