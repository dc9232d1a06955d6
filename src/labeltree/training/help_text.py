"""The help of ``labeltree train`` in plain words: docstrings without marks, types that say something."""

from __future__ import annotations

import re
from argparse import Action

from jsonargparse import DefaultHelpFormatter

__all__ = ["HelpInWords", "in_words"]


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
