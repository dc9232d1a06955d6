"""The labelled samples that a run has learned from, with their names: of training, and of its extensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import RunError
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.reference import attribute_units, load_reference, number_texts
from labeltree.inference.run_embeddings import kept_table
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.taxonomy import Taxonomy

__all__ = ["joined", "save_learned", "training_samples"]

_ABOUT = Reader("the extension of a run", "'labeltree extend RUN --undo' removes it", RunError)


def training_samples(run: TrainedRun) -> EmbeddingTable | None:
    """The labelled samples that a run, or an extension of it, has learned from, named by `paths`.

    They are all training samples if the run folder has their embeddings, or else the reference samples, at
    most 10,000 without names, and then those that its extensions learned from. Samples of retired classes are
    left out. A name is a file, or a data set and an id; it is empty where it is not known.

    Returns:
        None if the folder holds no training sample.

    Raises:
        RunError: If a file of an extension is damaged.
    """
    home = run.folder.home
    extensions = [folder for folder in home.extensions if _number(folder) <= _number(run.folder)]
    if not extensions:
        return _trained(run)
    first = _trained(replace(run, folder=home))
    parts = [] if first is None else [_moved(first, home.load_taxonomy(), run.taxonomy)]
    for folder in extensions:
        about = read_json(folder.extension, _ABOUT)
        retired = run.taxonomy.encode(about.get("retired", []))
        parts = [part.rows(~torch.isin(part.nodes, retired)) for part in parts]
        if folder.learned.is_file():
            theirs = folder.load_taxonomy()
            parts.append(_moved(EmbeddingTable.load(folder.learned, theirs), theirs, run.taxonomy))
        elif about.get("data") is not None:  # made before names were kept
            return _trained(run)
    reference = load_reference(run)
    if reference is not None:  # labels above retired classes alone are not there either
        parts = [part.rows(torch.isin(part.nodes, _labels(reference))) for part in parts]
    parts = [part for part in parts if len(part)]
    together = parts[0] if parts else None
    for part in parts[1:]:
        assert together is not None
        together = joined(together, part)
    return together


def _number(folder: RunFolder) -> int:
    """The number of an extension; 0 of the run itself."""
    return int(folder.path.name) if folder.extension.is_file() else 0


def _labels(table: EmbeddingTable) -> Tensor:
    labels: Tensor = torch.unique(table.nodes[torch.from_numpy(np.asarray(table.split) == "train")])
    return labels


def _trained(run: TrainedRun) -> EmbeddingTable | None:
    """The training samples in a folder: from the table of all samples, or else the reference samples."""
    table = kept_table(run)
    if table is None:
        table = load_reference(run)
    if table is None or table.split is None:
        return None
    train = torch.from_numpy(np.asarray(table.split) == "train") & (table.nodes > 0)
    table = table.rows(train)
    return replace(_named(table, str(run.recipe.data)), predictions=None, label_sets=None)


def _named(table: EmbeddingTable, data: str) -> EmbeddingTable:
    """The table with a name of every sample as its path."""
    if table.paths is not None:
        return table
    instances = [] if table.instances is None else table.instances.tolist()
    names = [f"{data} {instance}" for instance in instances] or [""] * len(table)
    return replace(table, paths=np.array(names, dtype=str))


def _moved(table: EmbeddingTable, before: Taxonomy, after: Taxonomy) -> EmbeddingTable:
    """The samples with labels in an extended taxonomy, which has all nodes of the earlier one."""
    places = [after.follow(before.path(node)) for node in range(before.num_nodes)]
    nodes = torch.tensor([-1 if place is None else place for place in places])[table.nodes]
    return replace(table, nodes=nodes)


def save_learned(run: TrainedRun, table: EmbeddingTable, data: str, folder: RunFolder) -> None:
    """Write the samples that an extension learned from, with their names.

    Args:
        run: The extension.
        table: Its new samples; those of the split `train` are kept.
        data: What they were read from.
        folder: The folder to write to.
    """
    kept = _named(table.rows(torch.from_numpy(np.asarray(table.split) == "train")), data)
    folder.learned.parent.mkdir(parents=True, exist_ok=True)
    replace(kept, predictions=None, label_sets=None, encoder_digest=run.weights_digest).save(
        folder.learned, run.taxonomy
    )


def _units(table: EmbeddingTable, name: str, before: str) -> np.ndarray[Any, Any]:
    """An attribute with texts that differ between groups, each after these words; empty where missing."""
    if name not in table.attributes:
        return np.full(len(table), "")
    texts = attribute_units(table, name)
    return np.where(texts == "", "", np.char.add(before, texts))


def joined(first: EmbeddingTable, second: EmbeddingTable) -> EmbeddingTable:
    """Two tables of one encoder as one; groups and attributes of one are others than those of the other."""
    tables = (first, second)
    groups = paths = features = None
    if first.groups is not None or second.groups is not None:
        ours, theirs = (
            torch.full((len(table),), -1) if table.groups is None else table.groups for table in tables
        )
        least = int(ours.max()) + 1 if len(ours) else 0
        groups = torch.cat([ours, torch.where(theirs >= 0, theirs + least, -1)])
    if first.paths is not None or second.paths is not None:
        paths = np.concatenate(
            [np.full(len(table), "") if table.paths is None else table.paths for table in tables]
        )
    if first.features is not None and second.features is not None:
        features = torch.cat([first.features, second.features])
    attributes = {
        name: number_texts(np.concatenate([_units(first, name, "first "), _units(second, name, "second ")]))
        for name in {**first.attributes, **second.attributes}
    }
    return EmbeddingTable(
        embeddings=torch.cat([first.embeddings, second.embeddings]),
        nodes=torch.cat([first.nodes, second.nodes]),
        split=np.concatenate([np.asarray(table.split, dtype=str) for table in tables]),
        features=features,
        groups=groups,
        # attributes differ between groups already
        group_names=np.full(len(first) + len(second), "") if attributes else None,
        attributes=attributes,
        paths=paths,
        geometry=first.geometry,
        curvature=first.curvature,
    )
