"""HAM10000 (Tschandl et al. 2018): skin lesions through a dermatoscope, seven diagnoses, two taxonomies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, first_existing, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.data.stratified import group_ids
from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["ham10000_taxonomy", "read_ham10000"]

NAME = "ham10000"
LINEAGE = f"{NAME}-lineage"
DIAGNOSES = {
    "akiec": "actinic keratosis",
    "bcc": "basal cell carcinoma",
    "bkl": "benign keratosis",
    "df": "dermatofibroma",
    "mel": "melanoma",
    "nv": "melanocytic nevus",
    "vasc": "vascular lesion",
}
# The paper names the inner nodes but does not assign the leaves: the assignment is labeltree's.
_ABOVE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    NAME: {"benign": ("bkl", "df", "nv", "vasc"), "malignant": ("akiec", "bcc", "mel")},
    LINEAGE: {
        "melanocytic": ("mel", "nv"),
        "keratinocytic": ("akiec", "bcc", "bkl"),
        "vascular": ("vasc",),
        "": ("df",),
    },
}
_METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata.tab", "HAM10000_metadata")
_PARTS = ("HAM10000_images_part_1", "HAM10000_images_part_2")


def ham10000_taxonomy(tree: str = NAME) -> Taxonomy:
    """The two trees of Climbing the Label Tree, §4.1, over the seven diagnoses.

    The paper names only the inner nodes; labeltree assigns the leaves: actinic keratoses (with Bowen's
    disease, a carcinoma in situ) are malignant; basal cell carcinomas are keratinocytic; a dermatofibroma,
    which is fibrous, is a sibling of melanocytic, keratinocytic and vascular.

    Args:
        tree: `ham10000` (benign, malignant) or `ham10000-lineage` (melanocytic, keratinocytic, vascular).

    Example:
        >>> ham10000_taxonomy("ham10000-lineage").path_name(3)
        'melanocytic/melanocytic nevus'
    """
    paths = [
        (*filter(None, [above]), DIAGNOSES[code]) for above, codes in _ABOVE[tree].items() for code in codes
    ]
    return Taxonomy.from_paths(paths, "skin lesion")


def read_ham10000(path: Path, *, tree: str = NAME) -> ListedImages:
    """List the images of HAM10000; the images of a lesion are a group.

    There is no split: the paper's is drawn at random and not published. It keeps patients together, but the
    data identify only lesions.

    Args:
        path: The folder with the metadata and the folders of images.
        tree: See `ham10000_taxonomy`.

    Raises:
        DataError: If the metadata are malformed.
    """
    metadata = first_existing(path, _METADATA)
    table = DataTable.read(metadata)
    images, lesions, codes = map(table.filled, ("image_id", "lesion_id", "dx"))
    for row, code in enumerate(codes):
        if code not in DIAGNOSES:
            where = f"{table}, {table.place(row)}"
            raise DataError(f"{where}: the diagnosis is '{code}', not {', '.join(DIAGNOSES)}")
    for row, image in enumerate(images):
        if os.path.basename(image) != image:
            raise DataError(f"{table}, {table.place(row)}: '{image}' is not the name of an image")
    taxonomy = ham10000_taxonomy(tree)
    node = {code: taxonomy.find(name) for code, name in DIAGNOSES.items()}
    return ListedImages(
        path,
        _files(path, images),
        torch.tensor([node[code] for code in codes]),
        taxonomy,
        groups=group_ids(lesions),
    )


def _files(path: Path, images: Sequence[str]) -> list[str]:
    """Path of each image: in the folders of the archives, in a single folder, or beside the metadata."""
    places = [folder for folder in ("", "HAM10000_images", *_PARTS) if (path / folder).is_dir()]
    known: dict[str, str] = {}
    for folder in places:
        known |= dict.fromkeys(os.listdir(path / folder), folder)
    # A missing image is reported for the last of these folders.
    return [os.path.join(known.get(f"{image}.jpg", places[-1]), f"{image}.jpg") for image in images]


for _tree, _what, _classes in (
    (NAME, "benign or malignant, diagnosis", (2, 7)),
    (LINEAGE, "melanocytic, keratinocytic or vascular, diagnosis", (4, 6)),
):
    register_reader(
        _tree,
        partial(read_ham10000, tree=_tree),
        summary=f"10,015 images of skin lesions; {_what}; grouped by lesion",
        licence="Creative Commons, non-commercial; see the data set's page",
        size="2.9 GB",
        files=(
            Needed(_METADATA, "diagnosis and lesion of each image, from the data set's page"),
            *(Needed((part, "HAM10000_images", "ISIC_*.jpg"), f"images, from {part}.zip") for part in _PARTS),
        ),
        published=Published({"all": 10_015}, _classes, "Tschandl et al. 2018, and the tree"),
        home=NAME,
    )
