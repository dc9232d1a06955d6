"""Checkpoints in a folder on disk: checks before a library reads them, and quiet while it does."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labeltree.errors import DataError
from labeltree.models.hub import hub_folder
from labeltree.models.hub_cache import HubName

__all__ = ["first_line", "need_files", "need_library", "quiet_transformers", "without_first_weights"]

_one_at_a_time = threading.Lock()
_LIBRARIES = ("sentence_transformers", "transformers", "huggingface_hub")


def need_library(what: str, module: str, package: str, extra: str) -> None:
    """Raise an ImportError unless a library is installed; it is not loaded.

    Args:
        what: What needs it, as the message begins: "encoder 'minilm'".
        module: The library as it is imported.
        package: The library as it is installed.
        extra: The extra of labeltree that has it.
    """
    try:
        missing = importlib.util.find_spec(module) is None
    except ValueError:  # a module in sys.modules without a specification, or None there
        missing = True
    if missing:
        raise ImportError(
            f"{what} needs the library {package}; install it with: pip install 'labeltree[{extra}]'"
        )


def need_files(name: str, place: str, config: str, *, weights: bool) -> Path:
    """The folder of a checkpoint, if it has a configuration and weights in safetensors.

    Args:
        name: Name of the encoder, for the message.
        place: Path of the folder; ignored if the name is one of the Hugging Face hub.
        config: Name of the file with the configuration.
        weights: Whether the weights are needed, too.

    Raises:
        DataError: The folder or a file is missing, or the weights are a pickle.
    """
    on_hub = HubName.of(name) is not None
    folder = hub_folder(name, weights=weights) if on_hub else Path(place).expanduser()
    if not place or not folder.is_dir():
        raise DataError(
            f"encoder {name!r}: there is no folder '{place}'; name the folder of a checkpoint on this disk "
            "(one of the Hugging Face hub is 'hf:OWNER/NAME')"
        )
    if not (folder / config).is_file():
        raise DataError(f"encoder {name!r}: there is no {config} in '{folder}', so it is no such checkpoint")
    if weights and not list(folder.glob("*.safetensors")):
        raise DataError(
            f"encoder {name!r}: there is no file of safetensors in '{folder}'; weights in another form could "
            "run code when read: convert them (save_pretrained of transformers writes safetensors)"
        )
    return folder


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return said.rstrip(".")


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress the output of transformers and the libraries around it while they load."""
    import transformers

    bars: Any = transformers.utils.logging
    loggers = [logging.getLogger(library) for library in _LIBRARIES]
    before = [logger.level for logger in loggers]
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()


@contextlib.contextmanager
def without_first_weights() -> Iterator[None]:
    """Leave the weights of models of transformers as they lie in memory: others are loaded next.

    To draw those of a ViT-B takes 4 CPU seconds. The library does it by replacing functions of torch for a
    while, so only one thread may.
    """
    try:
        from transformers.initialization import no_init_weights
    except ImportError:  # it has another place in this version
        yield
        return
    with _one_at_a_time, no_init_weights():
        yield
