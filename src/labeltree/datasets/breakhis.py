"""BreakHis (Spanhol et al. 2016): breast tumours under the microscope, eight benign or malignant subtypes."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.data.source import printable
from labeltree.data.stratified import group_ids
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["breakhis_taxonomy", "read_breakhis"]

NAME = "breakhis"
# The folder of each subtype, and the code in the names of its files.
SUBTYPES = {
    ("benign", "adenosis"): "A",
    ("benign", "fibroadenoma"): "F",
    ("benign", "phyllodes_tumor"): "PT",
    ("benign", "tubular_adenoma"): "TA",
    ("malignant", "ductal_carcinoma"): "DC",
    ("malignant", "lobular_carcinoma"): "LC",
    ("malignant", "mucinous_carcinoma"): "MC",
    ("malignant", "papillary_carcinoma"): "PC",
}
_IMAGES = {None: 7_909, 40: 1_995, 100: 2_081, 200: 2_013, 400: 1_820}
_ARCHIVE = "BreaKHis_v1.tar.gz"
_FOLDERS = ("BreaKHis_v1/histology_slides/breast", "histology_slides/breast")
_FILE = re.compile(r"SOB_[BM]_(?P<code>[A-Z]+)-(?P<patient>\d+-\d+)[A-Z]*-(?P<magnification>\d+)-\d+\.png")


def breakhis_taxonomy() -> Taxonomy:
    """Benign and malignant, with four subtypes each (Climbing the Label Tree, Figure 1).

    Example:
        >>> breakhis_taxonomy()
        Taxonomy(11 nodes, 8 leaves, depth 2)
    """
    return Taxonomy.from_paths([_label(*folder) for folder in SUBTYPES], "breast tumour")


def _label(kind: str, subtype: str) -> tuple[str, str]:
    return kind, subtype.replace("_", " ")


def read_breakhis(path: Path, *, magnification: int | None = None) -> ListedImages:
    """List the images of BreakHis; samples of a patient are a group, across magnifications.

    There is no split: the papers draw splits by patient and do not publish them. labeltree takes the slide id
    without its letters as the patient, 14-22549 for 14-22549AB, which gives 70 groups. The data set counts
    its 82 slides as 82 patients, but some differ only in such a letter, or lie under two subtypes.

    Args:
        path: The folder with `benign` and `malignant`, or one of its parent folders in the archive.
        magnification: 40, 100, 200 or 400; None = all.

    Raises:
        DataError: If the folder of a subtype is missing, or a file name does not fit its folder.
    """
    root = next((path / folder for folder in _FOLDERS if (path / folder).is_dir()), path)
    taxonomy = breakhis_taxonomy()
    files, nodes, patients, instances = [], [], [], []
    number = 0
    for (kind, subtype), code in SUBTYPES.items():
        node = taxonomy.find(_label(kind, subtype))
        folder = root / kind / "SOB" / subtype
        if not folder.is_dir():
            raise DataError(f"there is no folder '{folder}'; {_ARCHIVE} is not unpacked completely")
        for file in sorted(folder.glob("[!.]*/*X/[!.]*.png")):
            name = _FILE.fullmatch(file.name)
            if name is None or name["code"] != code or file.parent.name != f"{name['magnification']}X":
                raise DataError(
                    f"the image '{printable(str(file))}' is not called as those in its folder are, "
                    f"SOB_{kind[0].upper()}_{code}-14-22549AB-{file.parent.name[:-1]}-001.png for example; "
                    f"remove it, or unpack {_ARCHIVE} anew"
                )
            if magnification in (None, int(name["magnification"])):
                files.append(os.path.relpath(file, root))
                nodes.append(node)
                patients.append(name["patient"])
                instances.append(number)
            number += 1
    return ListedImages(
        root,
        files,
        torch.tensor(nodes, dtype=torch.int64),
        taxonomy,
        groups=group_ids(patients),
        instances=torch.tensor(instances, dtype=torch.int64),
    )


for _magnification, _count in _IMAGES.items():
    register_reader(
        NAME if _magnification is None else f"{NAME}-{_magnification}x",
        partial(read_breakhis, magnification=_magnification),
        summary=f"{_count:,} images of breast tumours"
        + (" at four magnifications" if _magnification is None else f", magnified {_magnification} times")
        + "; benign or malignant, subtype; grouped by patient",
        licence="CC BY 4.0",
        size="4.3 GB",
        files=tuple(
            Needed((*(f"{folder}/{kind}" for folder in _FOLDERS), kind), f"{kind} tumours, from {_ARCHIVE}")
            for kind in ("benign", "malignant")
        ),
        published=Published({"all": _count}, (2, 8), "Spanhol et al. 2016"),
        home=NAME,
    )
