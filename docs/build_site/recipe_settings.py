"""The page of every setting of a recipe, made from the dataclasses of recipes and the losses' docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from docstrings import entries, first_sentence, markdown, sections

from labeltree.training.recipe import GROUPS, Recipe
from labeltree.training.registry import GIVEN, default_options, list_objectives, list_sums

__all__ = ["recipe_page", "setting_names"]

_PARTS = {
    "data": "Data and labels",
    "coarsen": "What training sees of the labels",
    "geometry": "The model",
    "image_size": "Samples and views",
    "sampler": "Batches and epochs",
    "limit": "Splits",
    "head": "Groups, and sums of objectives",
    "ema": "Choosing and stopping",
    "on_error": "How it is carried out",
}
"""Headings, by the first setting below each, in the order of the recipe."""


def setting_names() -> list[str]:
    """Dotted names of all settings but those of objectives."""
    found: list[str] = []
    for setting in dataclasses.fields(Recipe):
        if setting.name in GROUPS:
            found += [f"{setting.name}.{inner.name}" for inner in dataclasses.fields(GROUPS[setting.name])]
        elif setting.name != "options":
            found.append(setting.name)
    return found


def recipe_page() -> str:
    """What the page says after its introduction."""
    parts: list[str] = []
    said = _attributes(Recipe)
    for setting in dataclasses.fields(Recipe):
        if setting.name in _PARTS:
            parts.append(f"## {_PARTS[setting.name]}")
        if setting.name in GROUPS or setting.name == "options":
            continue
        parts.append(_setting(setting.name, setting, said[setting.name]))
    for group, kind in GROUPS.items():
        inner = _attributes(kind)
        parts += [f"## {group}: {first_sentence(kind.__doc__)[:1].lower()}{first_sentence(kind.__doc__)[1:]}"]
        parts += [_setting(f"{group}.{s.name}", s, inner[s.name]) for s in dataclasses.fields(kind)]
    parts += ["## Settings of objectives", _OBJECTIVES]
    for entry in list_objectives():
        parts += [f"### {entry.name}", f"{entry.summary}: [its page](../objectives/{entry.name}.md)."]
        if options := _options(entry.loss):
            parts.append("\n".join(["| option | default | what it does |", "|---|---|---|", *options]))
    sums = [_sum(chosen.name) for chosen in list_sums()]
    return "\n\n".join([*parts, "### Sums with settings of their own", *sums]) + "\n"


_WORD = re.compile(r"[\w-]+")
_OBJECTIVES = (
    "The options of an objective stand under its name: `hwc.gamma` in the objectives `hwc` and `hwc+lam`. On "
    "the command line they are flags such as `--hwc.gamma`."
)


def _attributes(kind: type[Any]) -> dict[str, str]:
    return next(entries(text) for name, text in sections(kind.__doc__) if name == "Attributes")


def _setting(name: str, setting: dataclasses.Field[Any], said: str) -> str:
    if setting.default is not dataclasses.MISSING:
        default = _plain(setting.default)
    elif setting.default_factory is not dataclasses.MISSING:
        default = _plain(setting.default_factory())
    else:
        default = "none; it must be given"
    kind = re.sub(r"Literal\[(.*?)\]", lambda found: " | ".join(_WORD.findall(found[1])), str(setting.type))
    kind = kind.replace("None", "null")
    return f"````{{confval}} {name}\n:type: `{kind}`\n:default: `{default}`\n\n{_text(said)}\n````"


def _plain(value: Any) -> str:
    """A value as YAML writes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(said: str) -> str:
    return re.sub(r"(?<![`\w])None\b", "null", markdown(said, lambda text: text))


def _options(loss: Any) -> list[str]:
    signature = inspect.signature(loss)
    documented: dict[str, str] = {}
    bases = loss.__mro__ if inspect.isclass(loss) else (loss,)
    for base in bases:
        for name, text in sections(base.__doc__):
            if name == "Args":
                for names, words in entries(text).items():
                    for one in names.split(", "):
                        documented.setdefault(one, words)
    rows = []
    for name, parameter in signature.parameters.items():
        if name in GIVEN or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = "" if parameter.default is parameter.empty else f"`{_plain(parameter.default)}`"
        words = " ".join(_text(documented.get(name, "")).split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {default} | {words} |")
    return rows


def _sum(name: str) -> str:
    settings = [
        f"`{term}.{option}: {_plain(value)}`"
        for term, options in default_options(name).items()
        for option, value in options.items()
    ]
    return f"- [`{name}`](../objectives/{name}.md): {', '.join(settings) or 'the defaults of its terms'}"
