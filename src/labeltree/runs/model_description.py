"""The description of a run's model: what rebuilds it, beside its weights, without the data of the run."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labeltree.atomic import atomic_write
from labeltree.errors import RunError
from labeltree.preprocessing import Preprocessing
from labeltree.safe_files import Reader, fits, read_json
from labeltree.taxonomy import Taxonomy

__all__ = ["ModelDescription"]

_FORMAT, _VERSION = "labeltree model", 1


def with_settings(
    settings: Mapping[str, Any], others: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Settings with some of other settings; a name is dotted where settings are nested."""
    changed = copy.deepcopy(dict(settings))
    for name in names:
        *outer, last = name.split(".")
        ours, theirs = changed, others
        for part in outer:
            ours, theirs = ours.setdefault(part, {}), theirs[part]
        ours[last] = theirs[last]
    return changed


@dataclass(frozen=True)
class ModelDescription:
    """What rebuilds the model of a run, beside its weights and taxonomies.

    Attributes:
        settings: The resolved recipe, as nested plain values.
        image_shape: `(c, h, w)` of the images that the encoder reads; None for texts.
        columns: For a table: the columns that were read, by purpose.
        aspect_taxonomies: One taxonomy per aspect.
        from_training: For each node of the training taxonomy its node in the data's taxonomy, −1 where it
            has no such node; None if the model was trained on the data's own taxonomy.
        normalisation: Mean and standard deviation per channel that pixels in [0, 1] are normalised with; None
            if they are not.
        preprocessing: How the square that the encoder reads is cut out of an image; None = the largest
            centred one.
        chosen: Settings that the recipe left open, and that were chosen when the run began; None if that is
            not recorded.
        feature_dim: Number of features of the encoder; None if that is not recorded.
    """

    settings: Mapping[str, Any]
    image_shape: tuple[int, int, int] | None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aspect_taxonomies: tuple[Taxonomy, ...] = ()
    from_training: tuple[int, ...] | None = None
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    objectives: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    preprocessing: Preprocessing | None = None
    chosen: tuple[str, ...] | None = None
    feature_dim: int | None = None

    def with_settings(self, settings: Mapping[str, Any], names: Sequence[str]) -> ModelDescription:
        """The description with some of other settings; a name is dotted where settings are nested."""
        return replace(self, settings=with_settings(self.settings, settings, names))

    def save(self, path: Path) -> None:
        """Write the description as JSON, atomically."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "settings": dict(self.settings),
            "image_shape": self.image_shape,
            "normalisation": self.normalisation,
            "columns": {kind: list(names) for kind, names in self.columns.items()},
            "aspect_taxonomies": [taxonomy.to_dict() for taxonomy in self.aspect_taxonomies],
            "from_training": self.from_training,
        }
        if self.objectives:
            content["objectives"] = {name: dict(origin) for name, origin in self.objectives.items()}
        if self.chosen is not None:
            content["chosen"] = list(self.chosen)
        if self.feature_dim is not None:
            content["feature_dim"] = self.feature_dim
        if self.preprocessing is not None:
            content["preprocessing"] = self.preprocessing.to_dict()
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> ModelDescription:
        """Read what `save` wrote, now or in an earlier version.

        Raises:
            RunError: If the file cannot be read, or was written by a later version.
        """
        reader = Reader(
            "the description of a model", "restore it, or train again into another --out", RunError
        )
        content = read_json(path, reader)
        with reader.reading(path, "an entry is missing or damaged"):
            if content["format"] != _FORMAT:
                raise ValueError("another format")
            if int(content["version"]) > _VERSION:
                raise RunError(
                    f"'{path}' was written by a later version of labeltree (format {content['version']}); "
                    "update it"
                )
            for name, kind in _KINDS.items():
                if not fits(content[name], kind):
                    raise ValueError(name)
            objectives = content.get("objectives", {})
            if not fits(objectives, dict[str, dict[str, str]]):
                raise ValueError("objectives")
            shape, mapped = content["image_shape"], content["from_training"]
            normalised, how = content["normalisation"], content.get("preprocessing")
            chosen = content.get("chosen")
            if not fits(chosen, list[str] | None):
                raise ValueError("chosen")
            width = content.get("feature_dim")
            if not fits(width, int | None) or (width is not None and width < 1):
                raise ValueError("feature_dim")
            if normalised is not None and [len(values) for values in normalised] != [shape[0]] * 2:
                raise ValueError("normalisation")
            if shape is not None and (len(shape) != 3 or min(shape) < 1):
                raise ValueError("image_shape")
            return cls(
                settings=content["settings"],
                image_shape=None if shape is None else (shape[0], shape[1], shape[2]),
                normalisation=None if normalised is None else (tuple(normalised[0]), tuple(normalised[1])),
                columns={kind: tuple(names) for kind, names in content["columns"].items()},
                aspect_taxonomies=tuple(map(Taxonomy.from_dict, content["aspect_taxonomies"])),
                from_training=None if mapped is None else tuple(mapped),
                objectives=objectives,
                preprocessing=None if how is None else Preprocessing.from_dict(how),
                chosen=None if chosen is None else tuple(chosen),
                feature_dim=width,
            )


_KINDS: dict[str, Any] = {
    "settings": dict[str, Any],
    "image_shape": list[int] | None,
    "normalisation": list[list[float]] | None,
    "columns": dict[str, list[str]],
    "aspect_taxonomies": list[dict[str, Any]],
    "from_training": list[int] | None,
}
