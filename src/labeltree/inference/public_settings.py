"""What of a run's settings leaves with an export: what rebuilds the model, not where it was trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeltree.data import list_datasets
from labeltree.runs import ModelDescription

__all__ = ["EXPORTED", "public_data", "public_description", "public_encoder", "public_json"]

EXPORTED = "exported"
"""What stands for the data of an exported model."""

_PLACES = (
    "data_path",
    "taxonomy",
    "mapping",
    "train_taxonomy",
    "weights",
    "logger_folder",
    "image_folder",
    "synonyms",
    "label_file",
)
_OF_TRAINING = ("unseen_classes", "group_column", "split_column", "keep_columns", "aspect_columns")
_FOLDERS = ("transformers", "open_clip")
_NAMES_OF_PLACES = ("_name_or_path", "name_or_path", "tokenizer_file", "vocab_file", "merges_file")


def public_description(description: ModelDescription) -> ModelDescription:
    """The description of a model without places, and without columns that only training reads.

    Settings that hold a place are emptied, and so is every text among the objectives' settings that looks
    like one. The names of the columns with images, texts, labels and groups stay, since tables to predict
    have them; a name of groups that looks like a place does not.
    """
    settings: dict[str, Any] = _without_places(description.settings)
    settings["data"] = public_data(str(description.settings.get("data", "")))
    settings["encoder"] = public_encoder(str(description.settings["encoder"]))
    known = ("labels", "texts", "images", "vectors", "groups")
    columns = {kind: names for kind, names in description.columns.items() if kind in known}
    if any(map(_is_place, columns.get("groups", ()))):
        del columns["groups"]
    return replace(description, settings=settings, columns=columns)


def public_data(name: str) -> str:
    """The name of a data set that has one; `exported` for the user's own files."""
    return name if name in list_datasets() else EXPORTED


def public_encoder(name: str) -> str:
    """The name of an encoder as a run keeps it; a checkpoint in a folder or file loses its place."""
    family, colon, place = name.partition(":")
    if not colon:
        return name
    here = family in _FOLDERS or place.startswith((".", "~")) or Path(place).is_absolute()
    return f"{family}:./encoder" if here else name


def _without_places(settings: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _PLACES or name in _OF_TRAINING or name == "vectors":
            kept[name] = None
        elif isinstance(value, Mapping):
            kept[name] = _without_places(value)
        elif name not in ("data", "encoder") and _is_place(value):
            kept[name] = None
        else:
            kept[name] = value
    return kept


def _is_place(value: object) -> bool:
    return isinstance(value, str) and _looks_like_a_place(value)


def _looks_like_a_place(text: str) -> bool:
    return any(mark in text for mark in ("/", "\\", "~"))


def public_json(text: str) -> str:
    """A configuration of a library as JSON without the entries that name a place; other text unchanged."""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_without_names(content), indent=2, ensure_ascii=False) + "\n"


def _without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_names(v) for k, v in value.items() if k not in _NAMES_OF_PLACES}
    return [_without_names(item) for item in value] if isinstance(value, list) else value
