"""Networks of the Hugging Face hub, one commit at a time: from its cache on this disk, or downloaded into it.

What is downloaded are configurations and weights in safetensors: neither code nor pickles, which could run
code. No message contains an address that the hub has signed, or a token.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from labeltree.atomic import atomic_write
from labeltree.errors import DataError, WriteError
from labeltree.offline import offline
from labeltree.progress import Progress, progress_line

__all__ = ["HUB", "HubName", "cached_commit", "fetch", "hub_folder", "is_cached", "look_up", "only_cached"]

HUB = "hf-hub:"
_ANY = "hf:"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATIENCE_S = 5  # for the connection, and again for the answer
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
_log = logging.getLogger("labeltree.models")
_without_network: ContextVar[bool] = ContextVar("only_cached", default=False)


@dataclass(frozen=True)
class HubName:
    """A repository in the name of an encoder: ``hf:OWNER/NAME``, ``LIBRARY:hf-hub:OWNER/NAME@REVISION``.

    Attributes:
        library: "transformers", "timm", "open_clip" or "text"; "": what the repository is for.
        repository: ``OWNER/NAME``.
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
            ValueError: what follows is no name of a repository.
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
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

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


@dataclass(frozen=True)
class _Listing:
    """What the hub says of a revision: its commit, files with sizes and digests, and the licence."""

    commit: str
    files: dict[str, Any]
    licence: str


@contextmanager
def only_cached() -> Iterator[None]:
    """Within the block nothing is asked of the hub: what is not in its cache is an error."""
    before = _without_network.set(True)
    try:
        yield
    finally:
        _without_network.reset(before)


def hub_folder(name: str, *, weights: bool = True) -> Path:
    """The folder of an encoder's configuration and weights, named ``LIBRARY:hf-hub:OWNER/NAME@REVISION``.

    A commit that is in the cache needs no network.

    Args:
        name: name of the encoder.
        weights: whether the weights are needed, too.

    Raises:
        DataError: it is not in the cache and cannot be had; or there are no weights in safetensors.
        WriteError: the disk is full, or the cache cannot be written to.
    """
    hub = HubName.of(name)
    assert hub is not None
    if not is_cached(hub, weights=weights):
        hub = fetch(hub, look_up(hub), weights=weights)
    return hub.folder


def is_cached(hub: HubName, *, weights: bool) -> bool:
    """Whether a commit's configuration, and its weights if they are needed, are in the hub's cache.

    Weights are downloaded last, so where they are everything is.
    """
    if not hub.is_pinned:
        return False
    names = [file.relative_to(hub.folder).as_posix() for file in hub.folder.rglob("*") if file.is_file()]
    configured = any(Path(name).name in _MAIN for name in _configs(hub.library, names))
    return configured and (not weights or bool(_weights(hub.library, names)))


def cached_commit(hub: HubName) -> str | None:
    """The commit of a revision, as far as the cache knows."""
    if hub.is_pinned:
        return hub.revision
    file = hub.place / "refs" / (hub.revision or "main")
    commit = file.read_text("utf-8").strip() if file.is_file() else ""
    return commit if _COMMIT.fullmatch(commit) else None


def look_up(hub: HubName) -> tuple[str, _Listing | None]:
    """The commit of a revision, and what the hub says of it; None where only the cache can be asked.

    A process asks once for each revision.

    Raises:
        DataError: there is no such repository or revision, access is restricted, or the hub cannot be reached
            and the cache does not know the revision.
    """
    from huggingface_hub import constants

    commit = cached_commit(hub)
    if _without_network.get() or offline() or constants.HF_HUB_OFFLINE:
        if commit is None:
            raise _not_cached(hub, "nothing may be fetched (LABELTREE_OFFLINE, HF_HUB_OFFLINE)")
        return commit, None
    try:
        listing = _listing(constants.ENDPOINT, hub.repository, hub.revision)
    except DataError:
        raise
    except Exception as error:
        reason = f"{_host()} cannot be reached ({type(error).__name__})"
        if commit is None:
            raise _not_cached(hub, reason) from error
        _log.warning("%s; %s is taken from the cache, at commit %s", reason, hub.repository, commit[:12])
        return commit, None
    return listing.commit, listing


@cache
def _listing(endpoint: str, repository: str, revision: str | None) -> _Listing:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    hub = HubName("", repository, revision)
    try:
        found = HfApi(endpoint=endpoint).model_info(
            repository, revision=revision, files_metadata=True, timeout=_PATIENCE_S
        )
    except (HfHubHTTPError, HFValidationError) as error:
        raise _refused(hub, error) from error
    if found.sha is None or not _COMMIT.fullmatch(found.sha):
        raise DataError(f"{_host()} does not say at which commit '{hub.repository}' is; it may be no hub")
    files = {file.rfilename: file for file in found.siblings or ()}
    return _Listing(found.sha, files, _licence(found))


def _licence(found: Any) -> str:
    """The licence in a model's card, as it is printed."""
    card = found.card_data.to_dict() if found.card_data is not None else {}
    tags = [tag.removeprefix("license:") for tag in found.tags or () if tag.startswith("license:")]
    given = card.get("license_name") or card.get("license") or tags
    said = ", ".join(map(str, given)) if isinstance(given, list) else str(given)
    return "".join(filter(str.isprintable, said))[:80]


def fetch(
    hub: HubName,
    found: tuple[str, _Listing | None],
    *,
    weights: bool,
    progress: Progress | None = None,
) -> HubName:
    """Download what the cache lacks of a repository.

    Args:
        hub: the repository; of library "" only the configuration can be had.
        found: what `look_up` has found.
        weights: whether the weights are needed, too.
        progress: callback that reports progress; None = a line on a terminal.

    Returns:
        The repository at the commit.

    Raises:
        DataError: it cannot be had; or there are no weights in safetensors.
        WriteError: the disk is full, or the cache cannot be written to.
    """
    commit, listing = found
    pinned = dataclasses.replace(hub, revision=commit)
    if listing is None:
        if not is_cached(pinned, weights=weights):
            raise _not_cached(pinned, "the hub cannot be asked")
        return pinned
    names = _configs(hub.library, listing.files)
    if weights:
        if not (heavy := _weights(hub.library, listing.files)):
            raise _no_safetensors(hub, listing)
        names = [*names, *heavy]
    missing = [name for name in names if not _is_whole(pinned.folder / name, listing.files[name])]
    if missing:
        with progress_line(progress is None, only_terminal=True) as line:
            _download(pinned, listing, missing, progress or line)
    if not hub.is_pinned:
        with atomic_write(pinned.place / "refs" / (hub.revision or "main")) as temporary:
            temporary.write_text(commit, "utf-8")
    return pinned


def _configs(library: str, names: Iterable[str]) -> list[str]:
    """The files, other than weights, that a library reads."""
    if library == "text":
        return sorted(name for name in names if _OF_TEXTS.fullmatch(name))
    return sorted(name for name in names if name in _CONFIGS[library])


def _weights(library: str, names: Iterable[str]) -> list[str]:
    """The files of safetensors that a library reads; none if they are not complete."""
    if library == "open_clip":
        found = [name for name in names if name.endswith(".safetensors") and "/" not in name]
        return [min(found, key=lambda name: ("open_clip" not in name, name))] if found else []
    matches = [match for name in sorted(names) if (match := _WEIGHTS.fullmatch(name))]
    if library != "text":
        matches = [match for match in matches if match["module"] is None]
    whole = {match["module"] for match in matches if match["shards"] is None}
    matches = [match for match in matches if match["shards"] is None or match["module"] not in whole]
    shards = [match for match in matches if match["shards"] is not None]
    complete = not shards or len(shards) == int(shards[0]["shards"])
    return [match[0] for match in matches] if complete else []


def _is_whole(path: Path, file: Any) -> bool:
    size: int | None = file.size
    return path.is_file() and (size is None or size == path.stat().st_size)


class _Bar:
    """Stands in for the progress bars of huggingface_hub."""

    report: ClassVar[Any]

    def __init__(self, *_: object, total: int | None = None, initial: int = 0, **__: object) -> None:
        self.total, self.n = total, 0
        self.update(initial)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, count: float | None = 1) -> None:
        type(self).report(int(count or 0))

    def _ignore(self, *_: object, **__: object) -> None: ...

    close = refresh = update_transfer = set_postfix_str = set_transfer_postfix_str = _ignore


def _download(hub: HubName, listing: _Listing, names: list[str], progress: Progress | None) -> None:
    """Download files in this order, and check each by its digest."""
    from huggingface_hub import hf_hub_download

    total = sum(listing.files[name].size or 0 for name in names)
    _need_room(hub, total)
    if any(name.endswith(".safetensors") for name in names):
        licence = listing.licence or "not stated"
        _log.warning("downloading %s of %s/%s, licence %s", _size(total), _host(), hub.repository, licence)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(f"downloading {hub.repository}", done, total)

    bar = type("_Bar", (_Bar,), {"report": staticmethod(report)})
    for name in names:
        path = hub.folder / name
        try:
            with _quiet():
                hf_hub_download(
                    hub.repository,
                    name,
                    revision=hub.revision,
                    force_download=path.exists(),
                    etag_timeout=_PATIENCE_S,
                    tqdm_class=bar,
                )
        except Exception as error:
            raise _broken_off(hub, name, error) from error
        if not _has_digest(path, listing.files[name]):
            with suppress(OSError):
                path.resolve().unlink()
                path.unlink(missing_ok=True)
            raise DataError(
                f"'{name}' of '{hub.repository}' came damaged: its digest is not what {_host()} says; it is "
                "deleted, and the same command downloads it again"
            )


def _has_digest(path: Path, file: Any) -> bool:
    """Whether a file has the size and the digest that the hub states: SHA-256, or Git's of small files."""
    if not _is_whole(path, file):
        return False
    lfs, blob = file.lfs, file.blob_id
    with path.open("rb") as content:
        if lfs is not None:
            return bool(hashlib.file_digest(content, "sha256").hexdigest() == lfs.sha256)
        header = f"blob {path.stat().st_size}\0".encode()
        return blob in (None, hashlib.sha1(header + content.read(), usedforsecurity=False).hexdigest())


def _need_room(hub: HubName, total: int) -> None:
    place = hub.place
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if total > free:
        raise DataError(
            f"'{hub.repository}' takes {_size(total)}, and in '{place}' only {_size(free)} are free; free "
            "some space there, or name another folder with HF_HOME"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the library's own messages, which contain addresses that the hub has signed."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _host() -> str:
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or "the hub"


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{max(count, 1) / 1e3:,.0f} kB"


def _not_cached(hub: HubName, reason: str) -> DataError:
    return DataError(
        f"'{hub.repository}' is not in the cache '{hub.place.parent}'"
        + (f" at revision '{hub.revision}'" if hub.revision else "")
        + f", and {reason}; where there is a network, 'hf download {hub.repository}"
        + (f" --revision {hub.revision}" if hub.revision else "")
        + "' fetches it, or name the folder of a checkpoint on this disk"
    )


def _no_safetensors(hub: HubName, listing: _Listing) -> DataError:
    others = [name for name in listing.files if Path(name).suffix in (".bin", ".pt", ".pth", ".h5", ".ckpt")]
    return DataError(
        f"'{hub.repository}' has no weights in safetensors"
        + (f", only '{others[0]}'" if others else "")
        + "; weights in another form could run code when read: name a revision that has them "
        "(NAME@refs/pr/1, if somebody has proposed a conversion), or convert them and name the folder "
        "(save_pretrained of transformers writes safetensors)"
    )


def _refused(hub: HubName, error: Exception) -> DataError:
    """What an answer of the hub means."""
    from huggingface_hub import errors

    what, host = f"'{hub.repository}'", _host()
    if isinstance(error, errors.RevisionNotFoundError):
        return DataError(f"{what} at {host} has no revision '{hub.revision}'; leave it out, or correct it")
    if isinstance(error, errors.GatedRepoError):
        return DataError(
            f"access to {what} is restricted: accept its terms at {host}/{hub.repository}, then log in with "
            "'hf auth login'"
        )
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return DataError(
            f"{host} has no repository {what}, nor is there a folder of that name; correct the name, or log "
            "in with 'hf auth login' if the repository is private"
        )
    status = getattr(getattr(error, "response", None), "status_code", "an error")
    return DataError(f"{host} answers for {what} with status {status}; try again later")


def _broken_off(hub: HubName, name: str, error: Exception) -> DataError | WriteError:
    """What the failure of a download means."""
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        return _refused(hub, error)
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return WriteError(error.errno, error.strerror, str(error.filename or hub.place))
    return DataError(
        f"the download of '{name}' of '{hub.repository}' was cut short ({type(error).__name__}); the same "
        "command tries again"
    )
