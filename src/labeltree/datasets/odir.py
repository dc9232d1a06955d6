"""ODIR-5K (Li et al. 2021): fundus photographs, eight diagnoses; a patient may have several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.data.stratified import group_ids
from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

__all__ = ["odir_graph", "odir_taxonomy", "read_odir"]

NAME = "odir-5k"
# The columns of the diagnoses, in order of priority for a patient with several: named ones before "other",
# and rare ones (in the training set) before common ones. The order is labeltree's.
DIAGNOSES = {
    "H": "hypertension",
    "A": "age-related macular degeneration",
    "M": "myopia",
    "C": "cataract",
    "G": "glaucoma",
    "D": "diabetes",
    "O": "other",
    "N": "normal",
}
# Pairs of child and parent. The graph is labeltree's.
_EDGES = (
    ("normal", "fundus"),
    ("systemic disease", "fundus"),
    ("ocular disease", "fundus"),
    ("other", "fundus"),
    ("diabetes", "systemic disease"),
    ("hypertension", "systemic disease"),
    ("cataract", "ocular disease"),
    ("glaucoma", "ocular disease"),
    ("retinal disease", "ocular disease"),
    ("age-related macular degeneration", "retinal disease"),
    ("myopia", "retinal disease"),
    ("diabetes", "retinal disease"),
    ("hypertension", "retinal disease"),
)
# The authors' distribution: three sets, each with annotations and images.
_SETS = (
    ("train", "Training Set", "training"),
    ("test", "Off-site Test Set", "off-site test"),
    ("test", "On-site Test Set", "on-site test"),
)
# The distribution of the challenge, and later ones: only the training set.
_ANNOTATIONS = (
    "**/ODIR-5K_Training_Annotations*.csv",
    "**/ODIR-5K_Training_Annotations*.xlsx",
    "**/data.csv",
    "**/data.xlsx",
    "**/full_df.csv",  # one row per image
)
_IMAGES = (
    "**/ODIR-5K_Training_Dataset",
    "**/ODIR-5K_Training_Images",
    "**/Training Images",
    "**/preprocessed_images",
)


def odir_graph() -> TaxonomyDAG:
    """The eight diagnoses, grouped by kind of disease.

    Climbing the Label Tree, §4.1, mentions a graph but does not give it; this one is labeltree's. Diabetes
    and hypertension have two parents: they are systemic diseases, and their signs are in the retina.

    Example:
        >>> odir_graph()
        TaxonomyDAG(12 nodes, 13 edges, 8 leaves, depth 3)
    """
    return TaxonomyDAG.from_edges(_EDGES)


def odir_taxonomy() -> Taxonomy:
    """The tree of `odir_graph` by the rule of Climbing the Label Tree, §4.1: the parent nearest the root.

    No two parents of a node are equally near the root, so the rule's tie-breaks, by frequency in the training
    split and by name, are never needed.

    Example:
        >>> odir_taxonomy().path_name(odir_taxonomy().find("diabetes"))
        'systemic disease/diabetes'
    """
    return odir_graph().project("odir")[0]


@dataclass(frozen=True)
class _Part:
    split: str
    annotations: Path
    images: Path


def read_odir(path: Path) -> ListedImages:
    """List the images of ODIR-5K; both images of a patient are a group and have the patient's label.

    Of several diagnoses the label is the first in `DIAGNOSES`; this choice is labeltree's, since the paper
    does not define one. The authors' off-site and on-site test sets are the test split. If only the training
    set is present, as in the distribution of the challenge, there is no test split.

    Args:
        path: The folder with the authors' three sets, or with the challenge's annotations and the folder of
            its images. Annotations are `.csv`, or `.xlsx` if openpyxl is installed.

    Raises:
        DataError: If annotations are malformed.
    """
    taxonomy = odir_taxonomy()
    parts = list(_sets(path)) or [_Part("train", _find(path, _ANNOTATIONS), _find(path, _IMAGES))]
    files, nodes, split, patients = [], [], [], []
    for part in parts:
        for patient, diagnosis, name in _samples(part.annotations):
            files.append(os.path.relpath(part.images / name, path))
            nodes.append(taxonomy.find(diagnosis))
            split.append(part.split)
            patients.append(patient)
    return ListedImages(path, files, torch.tensor(nodes), taxonomy, split=split, groups=group_ids(patients))


def _sets(path: Path) -> Iterator[_Part]:
    """The authors' sets that are present."""
    for split, folder, name in _SETS:
        annotations = f"**/{folder}/Annotation/{name} annotation (English)"
        table = _find(path, (f"{annotations}.csv", f"{annotations}.xlsx"))
        if table.exists():
            yield _Part(split, table, table.parents[1] / "Images")


def _find(path: Path, patterns: Sequence[str]) -> Path:
    """The first match of the first pattern that has one, or else the first pattern itself."""
    matches = (min(path.glob(pattern), default=None) for pattern in patterns)
    return next((place for place in matches if place is not None), path / patterns[0])


def _samples(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield patient, diagnosis and file of every image in a table with one row per image or per patient."""
    table = DataTable.read(file)
    patients, diagnoses = table.filled("ID"), _diagnoses(table)
    columns = ("filename",) if "filename" in table.columns else ("Left-Fundus", "Right-Fundus")
    names = zip(*map(table.filled, columns), strict=True)
    for row, (patient, diagnosis, eyes) in enumerate(zip(patients, diagnoses, names, strict=True)):
        for name in eyes:
            if os.path.basename(name) != name or name in (os.curdir, os.pardir):
                raise DataError(f"{table}, {table.place(row)}: '{name}' is not the name of a file alone")
            yield patient, diagnosis, name


def _diagnoses(table: DataTable) -> list[str]:
    """The diagnosis that labels each row."""
    flags = {code: table.filled(code) for code in DIAGNOSES}
    chosen = []
    for row in range(table.num_rows):
        for code, column in flags.items():
            if column[row] not in ("0", "1"):
                where = f"{table}, {table.place(row)}"
                raise DataError(f"{where}: the column '{code}' is '{column[row]}', not 0 or 1")
        diagnosis = next((DIAGNOSES[code] for code, column in flags.items() if column[row] == "1"), None)
        if diagnosis is None:
            raise DataError(f"{table}, {table.place(row)}: there is no diagnosis, all of them are 0")
        chosen.append(diagnosis)
    return chosen


_TABLE, _FOLDER = "Training Set/Annotation/training annotation (English).*", "Training Set/Images"
register_reader(
    NAME,
    read_odir,
    summary="10,000 photographs of eye grounds of 5,000 patients; eight diagnoses; split by patient",
    licence="for research, as its authors say (Nankai University and Shanggong Medical Technology)",
    files=(
        Needed(
            (_TABLE, f"**/{_TABLE}", *_ANNOTATIONS),
            "diagnoses, from the authors' training, off-site and on-site test sets, or from the challenge",
        ),
        Needed(
            (_FOLDER, f"**/{_FOLDER}", *_IMAGES),
            "images such as 0_left.jpg, from the archive of the training set",
        ),
    ),
    published=Published({"train": 7_000, "test": 3_000}, (4, 5, 2), "Li et al. 2021, and the tree"),
)
