"""Networks of the Hugging Face hub, one commit at a time: from its cache on this disk, or downloaded."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from labeltree.atomic import atomic_write
from labeltree.cache import free_bytes
from labeltree.errors import DataError
from labeltree.models.hub_answers import (
    broken_off,
    download_size,
    error_kind,
    explain_error,
    hub_host,
    quiet_hub,
)
from labeltree.models.hub_cache import COMMIT, HubName, cached_commit, configurations, is_cached, weights_of
from labeltree.offline import offline
from labeltree.progress import Progress, progress_line

__all__ = ["Listing", "download", "fetch", "hub_folder", "list_repository", "look_up", "only_cached"]

_PATIENCE_S = 5  # for the connection, and again for the answer
_log = logging.getLogger("labeltree.models")
_without_network: ContextVar[bool] = ContextVar("only_cached", default=False)


@dataclass(frozen=True)
class Listing:
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
    """The folder of an encoder's configuration and weights, named `LIBRARY:hf-hub:OWNER/NAME@REVISION`.

    A commit that is in the cache needs no network.

    Args:
        name: Name of the encoder.
        weights: Whether the weights are needed, too.

    Raises:
        DataError: It is not in the cache and cannot be had; or there are no weights in safetensors.
        WriteError: The disk is full, or the cache cannot be written to.
    """
    hub = HubName.of(name)
    assert hub is not None
    if not is_cached(hub, weights=weights):
        hub = fetch(hub, look_up(hub), weights=weights)
    return hub.folder


def look_up(hub: HubName) -> tuple[str, Listing | str]:
    """The commit of a revision, and what the hub says of it, or why only the cache was asked.

    A process asks the hub once for each revision.

    Raises:
        DataError: There is no such repository or revision, access is restricted, or the hub cannot be reached
            and the cache does not know the revision.
    """
    from huggingface_hub import constants

    commit = cached_commit(hub)
    if _without_network.get():
        reason = "nothing is fetched here"
    elif offline() or constants.HF_HUB_OFFLINE:
        reason = "nothing may be fetched (LABELTREE_OFFLINE, HF_HUB_OFFLINE)"
    else:
        try:
            listing = _listing(constants.ENDPOINT, hub.repository, hub.revision)
            return listing.commit, listing
        except DataError:
            raise
        except Exception as error:
            reason = f"{hub_host()} cannot be reached ({error_kind(error)})"
            if commit is None:
                raise _not_cached(hub, reason) from error
            if not hub.is_pinned:
                _log.warning("%s; '%s' is taken from the cache, at commit %s", reason, hub.repository, commit)
    if commit is None:
        raise _not_cached(hub, reason)
    return commit, reason


@cache
def _listing(endpoint: str, repository: str, revision: str | None) -> Listing:
    return list_repository(HubName("", repository, revision))


def list_repository(hub: HubName) -> Listing:
    """Ask the hub for the commit of a revision, and for its files.

    Raises:
        DataError: There is no such repository or revision, or access is restricted.
        Exception: The hub cannot be reached; of huggingface_hub or of what it is built on.
    """
    from huggingface_hub import HfApi, constants

    repository, revision = hub.repository, hub.revision
    try:
        info = HfApi(endpoint=constants.ENDPOINT).model_info(
            repository, revision=revision, files_metadata=True, timeout=_PATIENCE_S
        )
    except Exception as error:
        if (meaning := explain_error(hub, error)) is None:
            raise
        raise meaning from error
    if info.sha is None or not COMMIT.fullmatch(info.sha):
        raise DataError(f"{hub_host()} does not say at which commit '{hub.repository}' is; it may be no hub")
    files = {file.rfilename: file for file in info.siblings or ()}
    return Listing(info.sha, files, _licence(info))


def _licence(info: Any) -> str:
    """The licence in a model's card, as it is printed."""
    card = info.card_data.to_dict() if info.card_data is not None else {}
    tags = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    given = card.get("license_name") or card.get("license") or tags
    said = ", ".join(map(str, given)) if isinstance(given, list) else str(given)
    return "".join(filter(str.isprintable, said))[:80]


def fetch(
    hub: HubName,
    looked_up: tuple[str, Listing | str],
    *,
    weights: bool,
    progress: Progress | None = None,
) -> HubName:
    """Download what the cache lacks of a repository.

    Args:
        hub: The repository; of library "" only the configuration can be had.
        looked_up: What `look_up` has found.
        weights: Whether the weights are needed, too.
        progress: Callback that reports progress; None = a line on a terminal.

    Returns:
        The repository at the commit.

    Raises:
        DataError: It cannot be had; or there are no weights in safetensors.
        WriteError: The disk is full, or the cache cannot be written to.
    """
    commit, listing = looked_up
    pinned = dataclasses.replace(hub, revision=commit)
    if isinstance(listing, str):
        if not is_cached(pinned, weights=weights):
            raise _not_cached(pinned, listing)
        return pinned
    names = configurations(hub.library, listing.files)
    if weights:
        if not (heavy := weights_of(hub.library, listing.files)):
            raise _no_safetensors(hub, listing)
        names = [*names, *heavy]
    missing = [name for name in names if not _is_whole(pinned.folder / name, listing.files[name])]
    if missing:
        with progress_line(progress is None, only_terminal=True, counted="bytes") as line:
            download(pinned, listing, missing, progress or line)
    if not hub.is_pinned:
        with atomic_write(pinned.place / "refs" / (hub.revision or "main")) as temporary:
            temporary.write_text(commit, "utf-8")
    return pinned


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


def download(
    hub: HubName, listing: Listing, names: list[str], progress: Progress | None, into: Path | None = None
) -> None:
    """Download files in this order, and check each by its digest.

    Args:
        hub: The repository at a commit.
        listing: What the hub says of that commit.
        names: The files.
        progress: Callback that reports progress; None = none is reported.
        into: A folder to write them to, as files and not as links; None = the hub's cache.
    """
    from huggingface_hub import hf_hub_download

    total = sum(listing.files[name].size or 0 for name in names)
    if into is None:
        folder = hub.folder
        _need_room(hub.repository, hub.place, total, "name another folder with HF_HOME")
    else:
        folder = into
        _need_room(hub.repository, into, total, "write to another disk")
    if any(name.endswith(".safetensors") for name in names):
        licence = listing.licence or "not stated"
        _log.warning("%s from %s: %s, licence %s", hub.repository, hub_host(), download_size(total), licence)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(f"downloading {hub.repository}", done, total)

    bar = type("_Bar", (_Bar,), {"report": staticmethod(report)})
    for name in names:
        path = folder / name
        try:
            with quiet_hub():
                hf_hub_download(
                    hub.repository,
                    name,
                    revision=hub.revision,
                    force_download=path.exists(),
                    etag_timeout=_PATIENCE_S,
                    local_dir=into,
                    tqdm_class=bar,
                )
        except Exception as error:
            raise broken_off(hub, name, error) from error
        if not _has_digest(path, listing.files[name]):
            with suppress(OSError):
                path.resolve().unlink()
                path.unlink(missing_ok=True)
            raise DataError(
                f"'{name}' of '{hub.repository}' came damaged: its digest is not what {hub_host()} says; it "
                "is deleted, and the same command downloads it again"
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


def _need_room(repository: str, place: Path, total: int, remedy: str) -> None:
    free = free_bytes(place)
    if total > free:
        raise DataError(
            f"'{repository}' takes {download_size(total)}, and in '{place.parent}' only "
            f"{download_size(free)} are free; free some space there, or {remedy}"
        )


def _not_cached(hub: HubName, reason: str) -> DataError:
    return DataError(
        f"'{hub.repository}' is not in the cache '{hub.place.parent}'"
        + (f" at revision '{hub.revision}'" if hub.revision else "")
        + f", and {reason}; where there is a network, 'hf download {hub.repository}"
        + (f" --revision {hub.revision}" if hub.revision else "")
        + "' fetches it, or name the folder of a checkpoint on this disk"
    )


def _no_safetensors(hub: HubName, listing: Listing) -> DataError:
    others = [name for name in listing.files if Path(name).suffix in (".bin", ".pt", ".pth", ".h5", ".ckpt")]
    return DataError(
        f"'{hub.repository}' has no weights in safetensors"
        + (f", only '{others[0]}'" if others else "")
        + "; weights in another form could run code when read: name a revision that has them "
        "(NAME@refs/pr/1, if somebody has proposed a conversion), or convert them and name the folder "
        "(save_pretrained of transformers writes safetensors)"
    )
