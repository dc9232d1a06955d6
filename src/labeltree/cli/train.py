"""``labeltree train``: a recipe, given by flags or a file, becomes a run folder."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

USAGE = "labeltree train --data DATA [--objective NAME] [--out FOLDER] [--config FILE] [settings]"


def run(arguments: list[str]) -> None:
    """Train, or continue, the run that the arguments describe."""
    from labeltree.training.fit import train
    from labeltree.training.reading import RecipeParser, objective_of
    from labeltree.training.registry import list_objectives

    if "--list-objectives" in arguments:
        for entry in list_objectives():
            print(f"{entry.name:<12} {entry.summary} ({entry.source})")
        return
    if "--list-encoders" in arguments:
        from labeltree.models import list_encoders

        print("\n".join(list_encoders()))
        return
    arguments = [_underscored(argument) for argument in arguments]
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--out")
    own.add_argument("--quiet", action="store_true")
    options, settings = own.parse_known_args(arguments)

    parser = RecipeParser(
        objective_of(settings),
        prog="labeltree train",
        usage=USAGE,
        description="Train an encoder on images with taxonomy labels. The same command continues a run that "
        "was interrupted. Besides the settings below: --out FOLDER (default runs/NAME-OF-DATA), --quiet, "
        "--list-objectives and --list-encoders. Names may be written with - or _.",
    )
    recipe = parser.recipe(settings)
    out = Path(options.out) if options.out else Path("runs") / (Path(recipe.data).stem or "run")
    folder = train(recipe, out, progress_bar=not options.quiet)
    history = folder.read_history()
    best = max(history, key=lambda row: row.get(f"val_{recipe.monitor}", float("-inf")))
    print(
        f"trained {recipe.objective} on {recipe.data}: {len(history)} epochs, best at epoch "
        f"{best['epoch']:.0f} with validation {recipe.monitor} {best[f'val_{recipe.monitor}']:.4f}\n"
        f"run folder: {folder.path}\nnext: labeltree evaluate {folder.path}"
    )


def _underscored(argument: str) -> str:
    """``--batch-size=3`` as ``--batch_size=3``; values stay as they are."""
    name, equals, value = argument.partition("=")
    return (
        name.replace("-", "_").replace("__", "--", 1) + equals + value
        if re.match(r"--\w", name)
        else argument
    )
