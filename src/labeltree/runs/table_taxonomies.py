"""The taxonomy of the labels of embeddings files: a file beside them, or the labels themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labeltree.errors import DataError, typed
from labeltree.runs.missing_columns import no_labels
from labeltree.runs.parts import PartFolder
from labeltree.runs.table_file_columns import as_texts, read_columns
from labeltree.runs.usual_columns import name_as_usual
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, load_taxonomy
from labeltree.taxonomy.files.breadcrumbs import BETWEEN_SPACES, sure_breadcrumbs
from labeltree.taxonomy.naming import some

__all__ = ["taxonomy_beside", "taxonomy_of_tables"]


def taxonomy_beside(path: str | Path) -> Path | None:
    """The taxonomy that `labeltree embed` has written in a folder of parts, or beside a file; or None."""
    parts = PartFolder(path)
    file = parts.taxonomy if parts.exists() else Path(path).with_suffix(".taxonomy.json")
    return file if file.is_file() else None


def taxonomy_of_tables(*paths: str | Path) -> AnyTaxonomy:
    """The taxonomy of the labels of embeddings files: that which lies beside one, or else their labels.

    Labels that are paths `a/b/c` or `a > b > c` make a tree, and names without paths a flat one.

    Raises:
        DataError: If a file is missing, or numbers its labels without a taxonomy.
    """
    for path in paths:
        if (beside := taxonomy_beside(path)) is not None:
            return load_taxonomy(beside)
    labels = dict.fromkeys(label for path in paths for label in _labels(Path(path)))
    if not labels:
        raise DataError(
            f"{some(list(map(str, paths)), 3)}: no row has a label; write them in a column 'labels'"
        )
    crumbs = sure_breadcrumbs(list(labels))
    return Taxonomy.from_paths(
        crumbs.paths if crumbs is not None and crumbs.separator in BETWEEN_SPACES else list(labels)
    )


def _labels(path: Path) -> list[str]:
    """The labels of a file, in their order, without empty ones."""
    if not path.is_file():
        raise DataError(f"no embeddings at '{path}'")
    is_text = path.suffix.casefold() in (".txt", ".csv", ".tsv")
    given = {} if path.suffix.casefold() == ".txt" else read_columns(path)
    columns = name_as_usual(given)
    if is_text and not {"embeddings", "embedding"} & set(columns):
        raise DataError(
            f"'{path}' holds no embeddings. Of class names, 'labeltree taxonomy from-wordnet {typed(path)} "
            f"--out FILE' makes a taxonomy; of codes, 'labeltree taxonomy convert {typed(path)} FILE --form "
            "codes'"
        )
    labels = columns.get("labels", columns.get("label"))
    if labels is None and not {"nodes", "node"} & set(columns):
        raise no_labels(path, given, None)
    if labels is None:
        raise DataError(
            f"'{path}' has no column of labels; --taxonomy FILE says what its numbers of nodes mean"
        )
    texts = as_texts(path, "labels", np.asarray(labels))
    return [text for text in dict.fromkeys(texts.tolist()) if text.strip()]
