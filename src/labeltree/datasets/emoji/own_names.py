"""Icons whose names say too little, or something else: each was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

__all__ = ["own_names"]

_WINDOW_OF_A_SCREEN: Mapping[str, str | None] = {"window": None}


def own_names(style: str) -> Mapping[str, str | None]:
    """Label → icon of some emoji of a style; None = the icon of this name shows something else.

    Of ``fxemoji.txt``, a line an icon and a label: Firefox OS has Unicode's oldest names, shortened and
    sometimes misspelt. An icon that is listed belongs to no other emoji, whatever it is called.

    Example:
        >>> own_names("fxemoji")["OK hand"], own_names("emojione-v1"), own_names("noto")
        ('aok', {'window': None}, {})
    """
    if style == "emojione-v1":
        return _WINDOW_OF_A_SCREEN
    if style != "fxemoji":
        return {}
    text = files("labeltree.datasets.emoji").joinpath("fxemoji.txt").read_text("utf-8")
    pairs = (line.split("\t") for line in text.splitlines())
    return {**{label: icon for icon, label in pairs}, **_WINDOW_OF_A_SCREEN}
