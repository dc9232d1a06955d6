"""Networks of the Hugging Face hub in its cache on this disk: how they are named, and which files are read.

Only configurations and weights in safetensors are: neither code nor pickles, which could run code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMMIT", "HUB", "HubName", "cached_commit", "configurations", "is_cached", "weights_of"]

HUB = "hf-hub:"
_ANY = "hf:"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
COMMIT = re.compile(r"[0-9a-f]{40}")
_CONFIGS = {
    "": ("config.json", "modules.json", "open_clip_config.json"),
    "transformers": (
        "config.json",
        "model.safetensors.index.json",
        "preprocessor_config.json",
        "processor_config.json",
    ),
    "timm": ("config.json",),
    "open_clip": ("open_clip_config.json",),
}
_MAIN = ("config.json", "open_clip_config.json")
_OF_TEXTS = re.compile(r"(\d+_\w+/)?[^/]+\.(json|txt|model)")  # with the modules of sentence-transformers
_WEIGHTS = re.compile(r"(?P<module>\d+_\w+/)?model(-\d+-of-(?P<shards>\d+))?\.safetensors")


@dataclass(frozen=True)
class HubName:
    """A repository in the name of an encoder: `hf:OWNER/NAME`, `LIBRARY:hf-hub:OWNER/NAME@REVISION`.

    Attributes:
        library: "transformers", "timm", "open_clip" or "text"; "": what the repository is for.
        repository: `OWNER/NAME`.
        revision: a branch, a tag or a commit; None = the main branch.
    """

    library: str
    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        place = self.repository if self.revision is None else f"{self.repository}@{self.revision}"
        return f"{self.library}:{HUB}{place}" if self.library else f"{_ANY}{place}"

    @classmethod
    def of(cls, name: str) -> HubName | None:
        """The repository in the name of an encoder; None if it has another form.

        Raises:
            ValueError: What follows is no name of a repository.
        """
        library, _, rest = name.partition(":")
        if name.startswith(_ANY):
            library = ""
        elif library in _CONFIGS.keys() | {"text"} and rest.startswith(HUB):
            rest = rest.removeprefix(HUB)
        else:
            return None
        repository, at, revision = rest.partition("@")
        if not _REPOSITORY.fullmatch(repository) or ".." in rest or (at and not revision):
            raise ValueError(
                f"encoder {name!r} names no repository of the Hugging Face hub; expected 'hf:OWNER/NAME' or "
                "'hf:OWNER/NAME@REVISION' (a folder on this disk is 'transformers:FOLDER')"
            )
        return cls(library, repository, revision or None)

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, so that the name always means the same files."""
        return self.revision is not None and COMMIT.fullmatch(self.revision) is not None

    @property
    def folder(self) -> Path:
        """The folder of a commit in the hub's cache; it need not exist."""
        assert self.is_pinned
        return self.place / "snapshots" / str(self.revision)

    @property
    def place(self) -> Path:
        """The repository's folder in the hub's cache; it need not exist."""
        from huggingface_hub import constants

        return Path(constants.HF_HUB_CACHE) / f"models--{self.repository.replace('/', '--')}"


def is_cached(hub: HubName, *, weights: bool) -> bool:
    """Whether a commit's configuration, and its weights if they are needed, are in the hub's cache.

    Weights are downloaded last, so where they are everything is.
    """
    if not hub.is_pinned:
        return False
    names = [file.relative_to(hub.folder).as_posix() for file in hub.folder.rglob("*") if file.is_file()]
    configured = any(Path(name).name in _MAIN for name in configurations(hub.library, names))
    return configured and (not weights or bool(weights_of(hub.library, names)))


def cached_commit(hub: HubName) -> str | None:
    """The commit of a revision, as far as the cache knows."""
    if hub.is_pinned:
        return hub.revision
    file = hub.place / "refs" / (hub.revision or "main")
    commit = file.read_text("utf-8").strip() if file.is_file() else ""
    return commit if COMMIT.fullmatch(commit) else None


def configurations(library: str, names: Iterable[str]) -> list[str]:
    """The files, other than weights, that a library reads."""
    if library == "text":
        return sorted(name for name in names if _OF_TEXTS.fullmatch(name))
    return sorted(name for name in names if name in _CONFIGS[library])


def weights_of(library: str, names: Iterable[str]) -> list[str]:
    """The files of safetensors that a library reads; none if they are not complete."""
    if library == "open_clip":
        weights = [name for name in names if name.endswith(".safetensors") and "/" not in name]
        return [min(weights, key=lambda name: ("open_clip" not in name, name))] if weights else []
    matches = [match for name in sorted(names) if (match := _WEIGHTS.fullmatch(name))]
    if library != "text":
        matches = [match for match in matches if match["module"] is None]
    whole = {match["module"] for match in matches if match["shards"] is None}
    matches = [match for match in matches if match["shards"] is None or match["module"] not in whole]
    shards = [match for match in matches if match["shards"] is not None]
    complete = not shards or len(shards) == int(shards[0]["shards"])
    return [match[0] for match in matches] if complete else []
