"""The samples that may be labelled next, and the CSV in which an annotator labels some of them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.curation.label_next import LabelRequests
from labeltree.data.corrections import CONTENT, is_decided, shorten_text
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable

__all__ = ["COLUMNS", "may_be_labelled", "write_requests"]

COLUMNS = (
    "sample",
    "path",
    "text",
    "label",
    "suggested",
    "depth",
    "cost",
    "probability",
    "reason",
    CONTENT,
    "decision",
)
"""Columns of the CSV; sample, label, suggested, content and decision are those of corrections."""


def may_be_labelled(
    samples: EmbeddingTable, *, split: str | None = None, within: str | None = None
) -> Tensor:
    """`(n,)` bool: the samples of a split, and those whose coarse label is a node or lies below it.

    Args:
        samples: n samples.
        split: None = of all splits.
        within: Name or path of a node; None = all, also those without a label.

    Raises:
        DataError: If there is no such split.
        TaxonomyError: If there is no such node.
    """
    allowed = torch.ones(len(samples), dtype=torch.bool)
    if split is not None:
        splits = np.asarray([""] * len(samples) if samples.split is None else samples.split)
        if split not in splits.tolist():
            known = sorted(set(splits.tolist()) - {""})
            raise DataError(f"there are no samples of split '{split}'; the splits are: {known or 'none'}")
        allowed &= torch.from_numpy(splits == split)
    if within is not None:
        node = samples.tree.find(within)
        allowed &= (samples.nodes >= node) & (samples.nodes < int(samples.tree.subtree_end[node]))
    return allowed


def write_requests(asked: LabelRequests, samples: EmbeddingTable, path: str | Path) -> None:
    """Write what to label as CSV, atomically; with decisions filled in it is a table of corrections.

    Raises:
        DataError: If there is a file already in which somebody has decided.
    """
    path = Path(path)
    if path.is_file() and is_decided(path):
        raise DataError(
            f"somebody has decided in '{path}', which would be lost; move it, or name another file by --out"
        )
    taxonomy, names = samples.tree, samples.names
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for place, row in enumerate(asked.rows.tolist()):
            known = int(asked.known[place])
            writer.writerow(
                [
                    names[row],
                    "" if samples.paths is None else samples.paths[row],
                    "" if samples.texts is None else shorten_text(samples.texts[row]),
                    taxonomy.path_name(known) if known > 0 else "",
                    taxonomy.path_name(int(asked.likely[place])),
                    int(asked.depths[place]),
                    f"{float(asked.costs[place]):.3g}",
                    f"{float(asked.probabilities[place]):.3f}",
                    asked.reasons[place],
                    "" if samples.contents is None else samples.contents[row],
                    "",
                ]
            )
