"""`labeltree pull`: an exported model of the Hugging Face hub as a folder, and as a model by its name.

What is fetched was written by others: only tensors, JSON and text are, and no file of it is run.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path
from urllib.parse import quote

from labeltree.atomic import write_text
from labeltree.cache import data_home, new_folder
from labeltree.errors import DataError, RunError
from labeltree.inference.export.export_folder import check_target
from labeltree.inference.hub.hub_files import check_export, fetched_files, read_export_config, repository_name
from labeltree.inference.model_facts import CONFIG
from labeltree.links import refuse_links
from labeltree.models.hub import Listing, download, list_repository
from labeltree.models.hub_answers import error_kind, hub_host
from labeltree.models.hub_cache import COMMIT, HubName
from labeltree.offline import offline
from labeltree.options.hub_options import PullOptions
from labeltree.progress import Progress, progress_line

__all__ = ["HUB_PREFIX", "need_hub", "pull_export", "pulled_model"]

HUB_PREFIX = "hf:"
"""What the name of a model on the hub begins with, for `lt.load`."""

_CACHE = "hub-models"
_log = logging.getLogger("labeltree.models")


class _OfflineError(DataError):
    """Nothing may be fetched, or the hub does not answer."""


def pull_export(options: PullOptions) -> Path:
    """Fetch an exported model of the hub into a new folder, which appears as a whole or not at all.

    Raises:
        DataError: There is no such repository or revision, the network is not to be used, or a file came
            damaged.
        RunError: It is not a labeltree export, is not what it says, or the folder exists.
        ImportError: huggingface_hub is missing.
    """
    need_hub()
    hub = repository_name(options.repository, options.revision)
    target = Path(options.out if options.out is not None else hub.repository.rpartition("/")[2])
    check_target(target, options.replace)
    _fetch(hub, _list(hub), target, options.progress)
    return target


def pulled_model(name: str) -> Path:
    """The folder in the cache of the model `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, fetched if needed.

    A commit that is in the cache needs no network. Where there is none, a branch or a tag is the commit that
    it was when it was last asked for.

    Raises:
        LabeltreeError: See `pull_export`.
    """
    hub = repository_name(name)
    place = data_home() / _CACHE / hub.repository.replace("/", "--")
    ref = place / "refs" / quote(hub.revision or "main", safe="")
    if hub.is_pinned and (place / str(hub.revision)).is_dir():
        return place / str(hub.revision)
    try:
        need_hub()
        listing = _list(hub)
    except _OfflineError as error:
        commit = ref.read_text("utf-8").strip() if ref.is_file() else ""
        if not COMMIT.fullmatch(commit) or not (place / commit).is_dir():
            raise
        _log.warning("%s; '%s' is taken from the cache, at commit %s", error, hub.repository, commit)
        return place / commit
    folder = place / listing.commit
    if not folder.is_dir():
        _fetch(hub, listing, folder, None)
    if not hub.is_pinned:
        write_text(ref, listing.commit + "\n")
    return folder


def need_hub() -> None:
    """Raise an ImportError if huggingface_hub is not installed."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "models of the Hugging Face hub need the library huggingface_hub; install it with: pip install "
            "'labeltree[hub]'"
        ) from error


def _list(hub: HubName) -> Listing:
    from huggingface_hub import constants, errors

    if offline() or constants.HF_HUB_OFFLINE:
        raise _OfflineError(
            f"'{hub.repository}' cannot be fetched: nothing may be (LABELTREE_OFFLINE, HF_HUB_OFFLINE); "
            "unset them, or name the folder of an exported model on this disk"
        )
    try:
        return list_repository(hub)
    except DataError as error:
        if isinstance(error.__cause__, errors.RepositoryNotFoundError) and not isinstance(
            error.__cause__, errors.GatedRepoError
        ):
            raise DataError(
                f"{hub_host()} has no repository '{hub.repository}' that you may see; correct the name, or "
                "log in with 'hf auth login' if it is private"
            ) from error
        raise
    except Exception as error:
        raise _OfflineError(f"{hub_host()} cannot be reached ({error_kind(error)})") from error


def _fetch(hub: HubName, listing: Listing, target: Path, progress: Progress | None) -> None:
    what = f"'{hub.repository}' at {hub_host()}"
    pinned = dataclasses.replace(hub, revision=listing.commit)
    if CONFIG not in listing.files:
        raise RunError(f"{what} is not a labeltree export: it has no {CONFIG}")
    names = fetched_files(listing.files)
    with (
        new_folder(target) as folder,
        progress_line(progress is None, only_terminal=True, counted="bytes") as line,
    ):
        download(pinned, listing, [CONFIG], None, folder)
        read_export_config(folder, what)  # before anything large
        if "encoder.safetensors" not in names:
            raise RunError(
                f"{what} has no weights in safetensors, which labeltree reads; whoever exported it can add "
                "--format safetensors"
            )
        download(pinned, listing, names[1:], progress or line, folder)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # what huggingface_hub notes of its downloads
        refuse_links(folder)
        check_export(folder, what, "it was changed after the export; ask whoever sent it, or name another "
                     "revision")  # fmt: skip
