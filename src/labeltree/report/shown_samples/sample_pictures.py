"""Pictures of the samples of an index, from their files or from the run's own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from labeltree.data.images.decode import decode
from labeltree.errors import LabeltreeError
from labeltree.index import Filter, Index
from labeltree.report.shown_samples.encode_pictures import picture

__all__ = ["MOST", "SamplePictures", "file_picture"]

MOST = 2000
"""Pictures on one page; each takes some kilobytes."""
_SIDE = 160


def file_picture(path: str | Path) -> str | None:
    """An image file as a data URI; None if it cannot be read."""
    try:
        return picture(torch.from_numpy(decode(Path(path), _SIDE, 3)))
    except (LabeltreeError, OSError, ValueError):
        return None


class SamplePictures:
    """From ids of samples to their pictures as data URIs.

    A sample's picture is its file, if that is there; otherwise, for an index of a run, the image that the
    run's data has of that name. Samples without a picture are left out, and so are those beyond `MOST`.

    Args:
        index: The index.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    def __call__(self, ids: Sequence[str]) -> Mapping[str, str]:
        wanted = list(ids)[:MOST]
        read = self._index.rows(["id", "path"], Filter(ids=tuple(wanted)))
        paths = dict(zip(read["id"].to_pylist(), read["path"].to_pylist(), strict=True))
        pictures = {}
        for one in wanted:
            path = paths.get(one)
            if path and Path(path).is_file() and (drawn := file_picture(path)) is not None:
                pictures[one] = drawn
        missing = {one: (paths.get(one) or one, one) for one in wanted if one not in pictures}
        return pictures | (self._run_pictures(missing) if missing else {})

    def _run_pictures(self, names: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Pictures of samples by the names that they have in the data of the index's run."""
        from labeltree.inference.load_run import load_run

        if self._index.model is None:
            return {}
        try:
            source = load_run(self._index.model).source
            if source.store is None:
                return {}
            places = {str(instance): place for place, instance in enumerate(source.instances.tolist())}
            places |= {name: place for place, name in enumerate(source.paths(torch.arange(len(source))))}
            there = {
                one: next(places[name] for name in either if name in places)
                for one, either in names.items()
                if any(name in places for name in either)
            }
            if not there:
                return {}
            images = source.load(list(there.values()))
        except (LabeltreeError, OSError):  # the data is not on this machine: the page shows names
            return {}
        return {one: picture(image) for one, image in zip(there, images, strict=True)}
