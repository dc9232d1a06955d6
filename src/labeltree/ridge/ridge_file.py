"""The file of a ridge head: its sums and settings, from which it is solved again, extended or changed."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.ridge.moments import Moments
from labeltree.ridge.tree_ridge import TreeRidge
from labeltree.safe_files import Reader, read_tensors
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import SIMILARITIES

__all__ = ["load_ridge", "save_ridge"]

_READER = Reader("the sums of a ridge head", "restore it, or train again", DataError)
_SUMS = {"labels": torch.int64, "counts": torch.float64, "sums": torch.float64, "products": torch.float64}
_SETTINGS = ("penalty", "scale", "tree", "instance")


def save_ridge(head: TreeRidge, path: Path) -> None:
    """Write a head as safetensors.

    The sums are not anonymous: that of a label with one sample is this sample.
    """
    from safetensors.torch import save

    settings = [getattr(head, name) for name in _SETTINGS]
    tensors = {name: getattr(head.moments, name).contiguous() for name in _SUMS}
    tensors |= {"calibration": head.calibration.contiguous()}
    tensors |= {"settings": torch.tensor(settings, dtype=torch.float64)}
    tensors |= {"similarity": torch.tensor([SIMILARITIES.index(head.similarity)])}
    if head.frequencies is not None:
        tensors |= {"frequencies": head.frequencies.contiguous()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors))


def load_ridge(path: Path, taxonomy: Taxonomy) -> TreeRidge:
    """Read a head that `save_ridge` has written.

    Args:
        path: The file.
        taxonomy: Of its labels.

    Raises:
        DataError: If it cannot be read, is damaged, or is of another taxonomy.
    """
    tensors = read_tensors(path, _READER)
    with _READER.reading(path, "it holds no sums and settings of a head"):
        moments = Moments(**{name: _checked(tensors[name], kind) for name, kind in _SUMS.items()})
        sets, dim = len(moments.labels), moments.products.shape[0]
        shapes = {name: tuple(getattr(moments, name).shape) for name in ("counts", "sums", "products")}
        calibration = _checked(tensors["calibration"], torch.float64)
        frequencies = tensors.get("frequencies")
        if frequencies is not None and 2 * _checked(frequencies, torch.float64).shape[-1] != dim:
            raise ValueError("frequencies")
        if (
            moments.labels.ndim != 2
            or shapes != {"counts": (sets,), "sums": (sets, dim), "products": (dim, dim)}
            or calibration.shape != (taxonomy.num_nodes, 2)
        ):
            raise ValueError("shapes")
        settings = dict(zip(_SETTINGS, tensors["settings"].tolist(), strict=True))
        similarity = SIMILARITIES[int(tensors["similarity"])]
        return TreeRidge.of(
            moments,
            taxonomy,
            calibration=calibration,
            similarity=similarity,
            frequencies=frequencies,
            **settings,
        )


def _checked(tensor: Tensor, kind: torch.dtype) -> Tensor:
    if tensor.dtype != kind or (kind.is_floating_point and not bool(tensor.isfinite().all())):
        raise ValueError("numbers")
    return tensor
