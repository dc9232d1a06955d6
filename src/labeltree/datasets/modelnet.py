"""Renderings of ModelNet40 (Wu et al. 2015; Su et al. 2015): category → CAD model, one sample per view."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from labeltree.data.listed_images import (
    ListedImages,
    archive_root,
    in_archive,
    label_taxonomy,
    register_reader,
)
from labeltree.data.named_data import Needed, Published
from labeltree.data.source import printable
from labeltree.data.stratified import group_ids
from labeltree.errors import DataError
from labeltree.file_kinds import IMAGE_SUFFIXES
from labeltree.system_files import is_system_file

__all__ = ["read_modelnet40"]

_SPLITS = ("train", "test")
# airplane_000000627_001.jpg, airplane_0627.obj.shaded_v001.png: the model, then the number of the view
_VIEW = re.compile(r"(?P<model>.+?)(?:\.obj)?(?:\.shaded)?_v?\d+")


def read_modelnet40(path: Path, *, folder: str = "modelnet40v1") -> ListedImages:
    """List the views of ModelNet40's models.

    The views of a model are one group, and so on one side of the official split; training and test have no
    model in common.

    Args:
        path: The folder with one folder per category, each with `train` and `test`; or its parent.
        folder: Name of the folder in the archive.

    Raises:
        DataError: If there are no views, or a file name does not fit.
    """
    root = archive_root(path, folder)
    files, labels, split = [], [], []
    for category in _names(root, folders=True):
        for part in _SPLITS:
            if not (root / category / part).is_dir():
                continue
            for name in _names(root / category / part, folders=False):
                stem, extension = os.path.splitext(name)
                if extension.lower() not in IMAGE_SUFFIXES:
                    continue
                match = _VIEW.fullmatch(stem)
                file = f"{category}/{part}/{name}"
                if match is None:
                    raise DataError(
                        f"'{root / printable(file)}' is not named like a view, {category}_000000001_001.jpg "
                        f"or {category}_0001.obj.shaded_v001.png; remove it"
                    )
                files.append(file)
                labels.append((category.replace("_", " "), match["model"]))
                split.append(part)
    if not files:
        raise DataError(f"'{root}' has no views in folders like airplane/train")
    parts = dict(zip(labels, split, strict=True))
    for label, part, file in zip(labels, split, files, strict=True):
        if parts[label] != part:
            raise DataError(
                f"the model '{label[1]}' has views in train and test, one of them '{root / file}'"
            )
    taxonomy, nodes = label_taxonomy([tuple(map(printable, label)) for label in labels], "object")
    return ListedImages(root, files, nodes, taxonomy, split=split, groups=group_ids(labels))


def _names(folder: Path, *, folders: bool) -> list[str]:
    """Names of the entries of a folder, sorted, without what systems leave there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.is_dir() == folders and not is_system_file(e.name))
    except OSError as error:
        raise DataError(f"cannot read the folder '{folder}': {error.strerror}") from error


for _name, _folder, _models, _counts, _source in (
    (
        "modelnet40",
        "modelnet40v1",
        3_983,
        {"train": 38_196, "test": 9_600},
        "Zhang et al. 2022, supplement A: training and validation together, and test",
    ),
    (
        "modelnet40-12x",
        "modelnet40_images_new_12x",
        12_311,
        {"train": 118_116, "test": 29_616},
        "Wu et al. 2015: 9,843 and 2,468 models, of 12 views each",
    ),
):
    register_reader(
        _name,
        partial(read_modelnet40, folder=_folder),
        summary=f"12 rendered views of each of {_models:,} CAD models in 40 categories",
        licence="models for academic use (Princeton ModelNet); renderings by UMass Amherst",
        size="0.2 GB" if _models < 4_000 else "2 GB",
        files=tuple(
            Needed(
                in_archive(_folder, f"airplane/{_part}"),
                f"the first category's {_what} views, from {_folder}.tar",
            )
            for _part, _what in (("train", "training"), ("test", "test"))
        ),
        published=Published(_counts, (40, _models), _source),
    )
