"""The reference samples of a run: features and embeddings of validation and training samples, without names.

Of groups and attributes (patient, lesion) they keep which samples belong together, as numbers.

With them a run can be calibrated again, and new samples compared with what it knows, when its data are gone.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.data.stratified import stratified_subsample
from labeltree.errors import DataError, RunError, WriteError, typed
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.run_embeddings import MOST_CALIBRATED, OwnSamples
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_tensors
from labeltree.split_names import CALIB

__all__ = [
    "Digests",
    "attribute_units",
    "is_merged",
    "keep_calibration",
    "keep_reference",
    "kept_digests",
    "load_calibration",
    "load_reference",
    "number_texts",
    "save_reference",
    "save_unordered",
    "validation_table",
]

_VERSION = 2  # 1 without samples of the split calib
_MOST = {
    "train": 10_000,
    "val": MOST_CALIBRATED,
    CALIB: MOST_CALIBRATED,
}  # samples that are kept, drawn evenly over the labels
_SPLITS = tuple(_MOST)
_ATTRIBUTE = "attribute/"
_DIGESTS = "digests"
Digests = np.ndarray[Any, Any]


def is_merged(folder: RunFolder) -> bool:
    """Whether `labeltree merge` has made it: it holds sums without a recipe, and extends no run."""
    return folder.ridge.is_file() and not folder.recipe.is_file() and not folder.extension.is_file()


def validation_table(run: TrainedRun, own_samples: OwnSamples, *, anew: bool = False) -> EmbeddingTable:
    """The labelled samples that a run is calibrated on, from its folder or, if need be, its data.

    They are at most 20,000 validation samples, and as many of the split `calib` if it has one.

    Args:
        run: The run.
        own_samples: Gives the embeddings of the run's own samples, if they are needed.
        anew: Do not use the reference samples in the folder, but replace them.

    Raises:
        DataError: If there are none.
        RunError: If they are not in the folder and the run's data are missing or have changed.
    """
    known = None if anew else load_reference(run)
    if known is None and is_merged(run.folder):
        raise _none_to_calibrate_on(run)
    if known is None:
        known = keep_reference(run, own_samples())
    rows = torch.from_numpy(np.asarray(known.split) != "train")
    if not bool(rows.any()):
        raise _none_to_calibrate_on(run)
    return known.rows(rows)


def _none_to_calibrate_on(run: TrainedRun) -> DataError:
    return DataError(
        f"run '{run.folder.path}' has no labelled validation samples to calibrate on; name some that it "
        f"was not trained on: 'labeltree calibrate {typed(run.folder.path)} --data DATA'"
    )


def keep_reference(run: TrainedRun, table: EmbeddingTable) -> EmbeddingTable:
    """Choose the reference samples from the embeddings table of a run, and write them to its folder.

    A folder that cannot be written to is left as it is.

    Args:
        run: The run.
        table: Embeddings table of all samples of the run.

    Returns:
        The labelled validation and calibration samples and some labelled training samples, without names.
    """
    chosen = []
    for split, most in _MOST.items():
        mask = table.nodes >= 0
        if table.split is not None:
            mask &= torch.from_numpy(np.asarray(table.split) == split)
        rows = mask.nonzero()[:, 0] if table.split is not None else mask.nonzero()[:0, 0]
        chosen.append(stratified_subsample(rows, table.nodes[rows], most, 0).sort().values)
    rows = torch.cat(chosen)
    kept = _nameless(table, rows, np.repeat(np.array(_SPLITS), [len(part) for part in chosen]))
    try:
        save_reference(run, kept, run.folder.reference)
    except WriteError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    return kept


def keep_calibration(run: TrainedRun, table: EmbeddingTable | None, digests: Digests | None = None) -> None:
    """Write the samples that a run is calibrated on to its folder, or remove those there.

    Args:
        run: The run.
        table: The samples, of which the labelled ones are kept, at most 20,000; None if they are the run's
            own validation samples, which are among the reference samples.
        digests: `(n, k, 16)` of the contents of the samples, see `Source.copy_digests`; those of all
            labelled ones are kept.
    """
    file = run.folder.calibration_samples
    if table is None:
        file.unlink(missing_ok=True)
        return
    if digests is not None:
        digests = digests[(table.nodes >= 0).numpy()]
    rows = (table.nodes >= 0).nonzero()[:, 0]
    rows = stratified_subsample(rows, table.nodes[rows], _MOST["val"], 0).sort().values
    save_reference(run, _nameless(table, rows, np.full(len(rows), "val")), file, digests)


def _nameless(table: EmbeddingTable, rows: Tensor, split: np.ndarray[Any, Any]) -> EmbeddingTable:
    """Rows of a table; of groups and attributes it says which belong together, and nothing else."""
    groups = table.groups
    if groups is not None:
        codes = groups[rows].unique(return_inverse=True)[1]  # type: ignore[no-untyped-call]
        groups = torch.where(groups[rows] >= 0, codes, -1)
    return EmbeddingTable(
        embeddings=table.embeddings[rows],
        nodes=table.nodes[rows],
        split=split,
        features=None if table.features is None else table.features[rows],
        groups=groups,
        attributes={
            name: number_texts(attribute_units(table, name)[rows.numpy()]) for name in table.attributes
        },
        # attributes differ between groups already
        group_names=np.full(len(rows), "") if table.attributes else None,
        geometry=table.geometry,
        curvature=table.curvature,
    )


def attribute_units(table: EmbeddingTable, name: str) -> np.ndarray[Any, Any]:
    """An attribute with texts that differ between groups."""
    units = replace(table, split=None).units(name).numpy()
    return np.where(units < 0, "", units.astype(str))


def number_texts(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers in place of the texts of a column, in the order of their first rows; empty if the text is."""
    numbers: dict[str, str] = {"": ""}
    return np.array([numbers.setdefault(text, str(len(numbers) - 1)) for text in column.tolist()], dtype=str)


def save_unordered(run: TrainedRun, folder: RunFolder) -> None:
    """Write the reference samples of a run, if there are some, in an order that says nothing of the data's.

    They are sorted by split, label and embedding, and groups are numbered anew in that order. So are the
    samples that the run was calibrated on, if they are not its own.

    Args:
        run: The run.
        folder: The folder to write to.
    """
    if (table := load_reference(run.base or run)) is not None:
        _save_unordered(run, table, folder.reference)
    if (table := load_calibration(run.base or run)) is not None:
        _save_unordered(run, table, folder.calibration_samples)


def _save_unordered(run: TrainedRun, table: EmbeddingTable, path: Path) -> None:
    if run.change is not None:
        table = replace(table, nodes=run.change.to_new(table.nodes))
    points = table.embeddings.numpy()
    order = np.lexsort((*points.T[::-1], table.nodes.numpy(), _split_codes(table)))
    sorted_table = table.rows(torch.from_numpy(order))
    if sorted_table.groups is not None:
        numbers: dict[int, int] = {}
        codes = [g if g < 0 else numbers.setdefault(g, len(numbers)) for g in sorted_table.groups.tolist()]
        sorted_table = replace(sorted_table, groups=torch.tensor(codes, dtype=torch.int64))
    kept = {name: number_texts(column) for name, column in sorted_table.attributes.items()}
    sorted_table = replace(sorted_table, attributes=kept)
    save_reference(run, sorted_table, path)


def _split_codes(table: EmbeddingTable) -> np.ndarray[Any, Any]:
    """The place of each sample's split in `_SPLITS`."""
    split = np.asarray(table.split)
    codes = np.zeros(len(split), np.uint8)
    for place, name in enumerate(_SPLITS):
        codes[split == name] = place
    return codes


def save_reference(
    run: TrainedRun, table: EmbeddingTable, path: Path, digests: Digests | None = None
) -> None:
    """Write samples of a run, without what names them, to a file of its folder.

    Args:
        run: The run.
        table: The samples.
        path: The file.
        digests: `(m, k, 16)` of the contents of samples that are not the run's own, by which it knows copies
            of them when it is measured; an exported model has none.
    """
    from safetensors.torch import save

    codes = _split_codes(table)
    parts: dict[str, Tensor] = {
        "version": torch.tensor(_VERSION if int(codes.max(initial=0)) > 1 else 1),
        "encoder": _fingerprint(run),
        "embeddings": table.embeddings,
        "nodes": table.nodes,
        "split": torch.from_numpy(codes),
    }
    parts |= {name: column for name in ("features", "groups") if (column := getattr(table, name)) is not None}
    for name, column in table.attributes.items():
        values = [int(text) if text else -1 for text in column.tolist()]
        parts[f"{_ATTRIBUTE}{name}"] = torch.tensor(values, dtype=torch.int64)
    if digests is not None:
        parts[_DIGESTS] = torch.from_numpy(np.unique(digests.reshape(-1, digests.shape[-1]), axis=0))
    with atomic_write(path) as temporary:
        temporary.write_bytes(save({name: value.contiguous() for name, value in parts.items()}))


def load_reference(run: TrainedRun) -> EmbeddingTable | None:
    """The reference samples of the present weights, from the run folder; None if there are none.

    Raises:
        RunError: If the file is damaged, or was written by a later version.
    """
    return _load(run, run.folder.reference)


def load_calibration(run: TrainedRun) -> EmbeddingTable | None:
    """The samples from elsewhere that a run was calibrated on; None if there are none.

    Raises:
        RunError: If the file is damaged, or was written by a later version.
    """
    return _load(run, run.folder.calibration_samples)


def kept_digests(file: Path) -> set[bytes]:
    """The digests of contents beside the samples in a file, see `save_reference`; empty without any."""
    if not file.is_file():
        return set()
    digests = read_tensors(file, _reader(file)).get(_DIGESTS)
    return set() if digests is None else {row.tobytes() for row in digests.numpy() if row.any()}


def _reader(file: Path) -> Reader:
    return Reader("the reference samples of a run", f"delete '{file}' and calibrate again", RunError)


def _load(run: TrainedRun, file: Path) -> EmbeddingTable | None:
    if not file.is_file():
        return None
    parts = read_tensors(file, _reader(file))
    with _reader(file).reading(file, "a part is missing or damaged"):
        if int(parts["version"]) > _VERSION:
            raise RunError(f"'{file}' was written by a later version of labeltree; update it")
        if not torch.equal(parts["encoder"], _fingerprint(run)):
            return None
        geometry = run.network.objective.geometry.name
        table = EmbeddingTable(
            embeddings=parts["embeddings"],
            nodes=parts["nodes"],
            split=np.array(_SPLITS)[parts["split"].numpy()],
            features=parts.get("features"),
            groups=parts.get("groups"),
            group_names=np.full(len(parts["nodes"]), "") if any(map(_is_attribute, parts)) else None,
            attributes={
                name.removeprefix(_ATTRIBUTE): np.array(
                    ["" if code < 0 else str(code) for code in codes.tolist()], dtype=str
                )
                for name, codes in parts.items()
                if _is_attribute(name)
            },
            geometry=geometry,
            curvature=run.recipe.curvature,
        )
        if len(table) and int(table.nodes.max()) >= run.taxonomy.num_nodes:
            raise ValueError("nodes")
        return table


def _is_attribute(name: str) -> bool:
    return name.startswith(_ATTRIBUTE)


def _fingerprint(run: TrainedRun) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(run.weights_digest), dtype=torch.uint8)
