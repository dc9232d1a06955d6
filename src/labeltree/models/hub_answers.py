"""What the Hugging Face hub answers, in words. No message has an address that it has signed, or a token."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from labeltree.errors import DataError, WriteError
from labeltree.models.hub_cache import HubName

__all__ = ["broken_off", "download_size", "error_kind", "explain_error", "hub_host", "quiet_hub"]


def hub_host() -> str:
    """The host that is asked: `huggingface.co`, or that of `HF_ENDPOINT`."""
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or "the hub"


def error_kind(error: Exception) -> str:
    """The status of an answer, or the class of an error, without its text: that has addresses."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return type(error).__name__ if status is None else f"status {status}"


def download_size(count: int) -> str:
    """A number of bytes in MB, or in kB if there are few."""
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{max(count, 1) / 1e3:,.0f} kB"


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Suppress the library's own messages, which contain addresses that the hub has signed."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def explain_error(hub: HubName, error: Exception) -> DataError | None:
    """What an answer of the hub means; None if it has not answered."""
    from huggingface_hub import errors

    what, host = f"'{hub.repository}'", hub_host()
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
    return None


def broken_off(hub: HubName, name: str, error: Exception) -> DataError | WriteError:
    """What the failure of a download means."""
    if (meaning := explain_error(hub, error)) is not None:
        return meaning
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return WriteError(error.errno, error.strerror, str(error.filename or hub.place))
    return DataError(
        f"the download of '{name}' of '{hub.repository}' was cut short ({error_kind(error)}); the same "
        "command tries again"
    )
