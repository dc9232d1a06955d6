"""``labeltree train``: a recipe, given by flags or a file, becomes a run folder."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.data import DataSummary
    from labeltree.training.recipe import Recipe

USAGE = "labeltree train --data DATA [--objective NAME] [--out FOLDER] [--config FILE] [settings]"


def run(arguments: list[str]) -> None:
    """Train, or continue, the run that the arguments describe."""
    from labeltree.training.checkpoints import best_row
    from labeltree.training.fit import is_first_rank, train
    from labeltree.training.parser_text import short_help
    from labeltree.training.reading import RecipeParser, list_recipes, objective_of
    from labeltree.training.registry import list_objectives

    if "--list-objectives" in arguments:
        width = max(len(entry.name) for entry in list_objectives())
        for entry in list_objectives():
            print(f"{entry.name:<{width}} {entry.summary} ({entry.source})")
        return
    if "--list-encoders" in arguments:
        from labeltree.models import list_encoders

        print("\n".join(list_encoders()))
        return
    if "--list-recipes" in arguments:
        print("\n".join(list_recipes()))
        return
    arguments = [_underscored(argument) for argument in arguments]
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--out")
    own.add_argument("--quiet", action="store_true")
    own.add_argument("--verify", action="store_true")
    options, settings = own.parse_known_args(arguments)

    parser = RecipeParser(
        objective_of(settings),
        prog="labeltree train",
        usage=USAGE,
        description="Train an encoder on images or texts with taxonomy labels. The same command continues a "
        "run that was interrupted. Besides the settings below: --out FOLDER (default runs/NAME-OF-DATA), "
        "--quiet, --verify (to read all files again, also those whose size and time of change are as they "
        "were), --list-objectives, --list-encoders and --list-recipes. Names may be written with - or _.",
    )
    if "--help_all" in settings:
        print(parser.format_help())
        return
    if {"-h", "--help"} & set(settings):
        print(short_help(parser._actions, USAGE))
        return
    if settings and not settings[0].startswith("-"):
        raise ValueError(f"'{settings[0]}' stands alone; samples are named by --data {settings[0]}")
    recipe = _with_whole_paths(parser.recipe(settings))
    path = Path(recipe.data)
    out = Path(options.out) if options.out else Path("runs") / (path.name if path.is_dir() else path.stem)
    folder = train(
        recipe,
        out,
        progress_bar=not options.quiet,
        on_data=_tell_warnings if options.quiet else _tell,
        verify=options.verify,
    )
    if not is_first_rank():
        return
    history = folder.read_history()
    best = best_row(history, f"val_{recipe.monitor}")
    print(
        f"trained {recipe.objective} on {recipe.data}: {len(history)} epoch{'s' * (len(history) > 1)}, "
        f"best after {best['epoch'] + 1:.0f} with validation {recipe.monitor} "
        f"{best[f'val_{recipe.monitor}']:.4f}\n"
        f"run folder: {folder.path}\nnext: labeltree evaluate {folder.path}"
    )


def _tell(summary: DataSummary) -> None:
    print(f"{summary}\n", flush=True)


def _tell_warnings(summary: DataSummary) -> None:
    for warning in summary.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with its files named from the root, so that the run is found from any folder."""
    from labeltree.data import list_datasets

    def whole(value: str | None) -> str | None:
        if value is None or value in list_datasets() or not Path(value).expanduser().exists():
            return value
        return str(Path(value).expanduser().resolve())

    def is_file(value: object) -> bool:  # a word such as "all" is a choice, also beside a file of that name
        return isinstance(value, str) and bool(Path(value).suffix) and Path(value).expanduser().is_file()

    kind, _, model = recipe.encoder.partition(":")
    options = {
        name: {key: whole(value) if is_file(value) else value for key, value in chosen.items()}
        for name, chosen in recipe.options.items()
    }
    return dataclasses.replace(
        recipe,
        options=options,
        data=whole(recipe.data) or recipe.data,
        data_path=whole(recipe.data_path),
        encoder=f"text:{whole(model)}" if kind == "text" else recipe.encoder,
        taxonomy=whole(recipe.taxonomy),
        train_taxonomy=whole(recipe.train_taxonomy),
        weights=whole(recipe.weights),
        logger_folder=None
        if recipe.logger_folder is None
        else str(Path(recipe.logger_folder).expanduser().resolve()),
    )


def _underscored(argument: str) -> str:
    """``--batch-size=3`` as ``--batch_size=3``; values stay as they are."""
    name, equals, value = argument.partition("=")
    return (
        name.replace("-", "_").replace("__", "--", 1) + equals + value
        if re.match(r"--\w", name)
        else argument
    )
