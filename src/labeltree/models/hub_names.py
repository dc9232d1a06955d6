"""What people write for a network of the Hugging Face hub, and the pinned name that a run records.

`hf:OWNER/NAME` becomes `transformers:hf-hub:OWNER/NAME@COMMIT`: the library is found by the files of the
repository, the commit is that of the main branch. The same holds for `text:OWNER/NAME` and for names of
timm whose pretrained weights are on the hub.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from labeltree.models.hub import fetch, look_up
from labeltree.models.hub_cache import HUB, HubName, cached_commit, is_cached
from labeltree.models.local_folders import need_library
from labeltree.models.transformers_images import reads_images
from labeltree.progress import Progress
from labeltree.safe_files import Reader, read_json

__all__ = ["is_any_library", "pinned_name", "pins"]

_TEXT, _TIMM = "text:", "timm:"
_OWNED = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@\S+)?")
_NEEDS = {
    "timm": ("timm", "timm", "timm"),
    "transformers": ("transformers", "transformers", "encoders"),
    "open_clip": ("open_clip", "open-clip-torch", "encoders"),
    "text": ("sentence_transformers", "sentence-transformers", "text"),
}
_READER = Reader("the configuration of a network of the hub", "delete its folder, or name another revision")


def is_any_library(name: str) -> bool:
    """Whether a name says only where a network is, `hf:OWNER/NAME`, and not which library reads it."""
    hub = HubName.of(name)
    return hub is not None and not hub.library


def pinned_name(name: str, pretrained: bool, progress: Progress | None = None) -> str:
    """The name of a network of the hub with its library and commit; any other name as it is.

    What the cache lacks is downloaded. A commit that is in the cache needs no network.

    Args:
        name: Name of one encoder.
        pretrained: Whether its pretrained weights are needed.
        progress: See `fetch`.

    Raises:
        ImportError: a library that it needs is not installed.
        DataError: It is not in the cache and cannot be had, has no weights in safetensors, or needs code of
            its own.
        WriteError: The disk is full, or the cache cannot be written to.

    Example:
        >>> from labeltree.models.hub_names import pinned_name
        >>> pinned_name("small-conv", False)
        'small-conv'
    """
    hub = _locate(name, pretrained)
    if hub is None:
        return name
    module, package, extra = _NEEDS[hub.library or "transformers"]
    need_library(f"encoder {name!r}", module, package, extra)
    need_library(f"encoder {name!r}", "huggingface_hub", "huggingface-hub", extra)
    if hub.library and is_cached(hub, weights=pretrained):
        return str(hub)
    looked_up = look_up(hub)
    if not hub.library:
        library = _library(name, fetch(hub, looked_up, weights=False).folder)
        need_library(f"encoder {name!r}", *_NEEDS[library])
        hub = dataclasses.replace(hub, library=library)
    return str(fetch(hub, looked_up, weights=pretrained, progress=progress))


def pins(pinned: str, name: str, pretrained: bool) -> bool:
    """Whether one name is the pinned form of another, as far as can be told without a network.

    Args:
        pinned: Name of one encoder, such as a run has recorded.
        name: Name of one encoder, as somebody has written it.
        pretrained: Whether the latter starts from pretrained weights.
    """
    known, written = _locate(pinned, False), _locate(name, pretrained)
    if known is None or written is None or not known.is_pinned:
        return False
    same = known.repository == written.repository and written.library in ("", known.library)
    return same and (written.revision in (None, "main") or cached_commit(written) == known.revision)


def _locate(name: str, pretrained: bool) -> HubName | None:
    """Where a network is on the hub; None if it is not, or needs nothing from there."""
    if (hub := HubName.of(name)) is not None:
        return hub
    if name.startswith(_TEXT):
        return _locate_texts(name.removeprefix(_TEXT))
    return _locate_timm(name) if pretrained else None


def _locate_texts(model: str) -> HubName | None:
    """A model of sentence-transformers, unless it is a folder on this disk."""
    if not _OWNED.fullmatch(model) or Path(model).is_dir():
        return None
    repository, _, revision = model.partition("@")
    if "/" not in repository and repository.lower() not in _without_owner():
        repository = f"sentence-transformers/{repository}"
    return HubName("text", repository, revision or None)


def _without_owner() -> list[str]:
    """Models that the hub knows by a name alone; sentence-transformers reads all others as its own."""
    try:
        from sentence_transformers.util import misc
    except ImportError:
        return []
    known: list[str] = getattr(misc, "ORIGINAL_TRANSFORMER_MODELS", [])
    return known


def _locate_timm(name: str) -> HubName | None:
    """The repository of timm's pretrained weights; None if the name is not timm's, or they are elsewhere."""
    library, _, rest = name.rpartition(":")
    if library not in ("", "timm") or "/" in rest or "\\" in rest:
        return None
    try:
        from timm.models import get_pretrained_cfg
    except ImportError:
        return None
    try:
        published: Any = get_pretrained_cfg(rest)
    except RuntimeError:  # no such weights: who builds it says so
        return None
    repository = getattr(published, "hf_hub_id", None)
    return HubName.of(f"{_TIMM}{HUB}{repository}") if repository else None


def _library(name: str, folder: Path) -> str:
    """The library that reads a repository, by its configuration."""
    file = folder / "config.json"
    if not file.is_file():
        return "open_clip" if (folder / "open_clip_config.json").is_file() else "text"
    config = read_json(file, _READER)
    if "model_type" not in config and isinstance(config.get("architecture"), str):
        return "timm"
    return "transformers" if "vision_config" in config or reads_images(name, folder) else "text"
