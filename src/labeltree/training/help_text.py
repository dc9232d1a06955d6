"""The help of ``labeltree train`` in plain words: the common settings on a page, or all of them."""

from __future__ import annotations

import re
import textwrap
from argparse import Action
from collections.abc import Iterable

from jsonargparse import DefaultHelpFormatter

__all__ = ["COMMON", "HelpInWords", "first_sentence", "in_words", "short_help"]

COMMON = (
    "data",
    "objective",
    "config",
    "table.label_columns",
    "taxonomy",
    "encoder",
    "pretrained",
    "image_size",
    "epochs",
    "batch_size",
    "optimizer.lr",
    "limit",
    "val",
    "test",
    "seed",
    "monitor",
    "patience",
    "accelerator",
    "devices",
    "precision",
    "workers",
)
"""The settings that the short help shows, in this order."""


class HelpInWords(DefaultHelpFormatter):  # type: ignore[misc, unused-ignore]
    """Formats the help of settings whose texts come from docstrings."""

    def _expand_help(self, action: Action) -> str:
        return in_words(str(super()._expand_help(action)))


def in_words(text: str) -> str:
    """The help of one setting without marks, and without the types that its choices say already.

    Example:
        >>> in_words("``adamw`` or ``sgd``. (type: Literal['adamw', 'sgd'], default: adamw)")
        'adamw or sgd. (default: adamw)'
        >>> in_words("τ; None: 0.1. (type: Union[float, list[float], null], default: null)")
        'τ; null: 0.1. (type: float | list[float] | null, default: null)'
    """
    text = re.sub(r"`+\"?|\"`+", "", text)
    text = re.sub(r"\bNone\b", "null", text)
    text = re.sub(r"type: Literal\[[^\]]*\], ", "", text)
    text = re.sub(r"Optional\[Literal\[([^\]]*)\]\]", lambda found: _either(f"{found[1]}, null"), text)
    text = re.sub(r"Optional\[((?:\w|\[\w+\])+)\]", r"\1 | null", text)
    return re.sub(r"Union\[((?:\w|, |\[\w+\])+)\]", lambda found: _either(found[1]), text)


def _either(choices: str) -> str:
    return choices.replace("'", "").replace(", ", " | ")


def short_help(actions: Iterable[Action], usage: str, width: int = 100) -> str:
    """The common settings, a sentence each, and where the others are.

    Args:
        actions: of the parser of recipes.
        usage: the first line.
        width: of a line, in characters.
    """
    known = {action.dest: action for action in actions}
    shown = {f"--{name}": _short(known[name]) for name in COMMON}
    shown["--out"] = "the run folder (default: runs/NAME-OF-DATA)"
    shown["--quiet"] = "no progress bar"
    column = max(map(len, shown)) + 4
    lines = [
        f"usage: {usage}",
        "",
        "Train an encoder on images or texts with taxonomy labels. The same command",
    ]
    lines += ["continues a run that was interrupted.", "", "the settings that most runs change:"]
    for name, what in shown.items():
        text = f"  {name}".ljust(column) + what
        lines += textwrap.wrap(text, width, subsequent_indent=" " * column, break_on_hyphens=False)
    own = sorted(name for name in known if "." in name and name.split(".")[0] not in _GROUPS)
    if own:
        lines += ["", "of the objective:"]
        lines += textwrap.wrap(
            ", ".join(f"--{name}" for name in own), width, initial_indent="  ", subsequent_indent="  "
        )
    lines += [
        "",
        "--help-all tells every setting; --list-objectives, --list-encoders and --list-recipes what there is",
        "to choose from. Names may be written with - or _.",
    ]
    return "\n".join(lines)


def _short(action: Action) -> str:
    """A setting's first sentence, and its default where that says something."""
    default = action.default
    told = "" if default is None or default == [] or action.required else f" (default: {default})"
    return first_sentence(str(action.help or "")) + told


_GROUPS = ("table", "head", "optimizer", "queue")


def first_sentence(text: str) -> str:
    """The help of a setting up to the first full stop or semicolon, without marks.

    Example:
        >>> first_sentence("samples a step, over all devices together. More is better. (type: int)")
        'samples a step, over all devices together'
    """
    return re.split(r"[.;](?: |$)", in_words(text), maxsplit=1)[0]
