"""The files of an exported model on a hub: which are sent and fetched, and what is checked of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labeltree.errors import DataError, LabeltreeError, RunError
from labeltree.inference.model_facts import CONFIG, EXPORT_FORMAT, EXPORT_VERSION
from labeltree.models.hub_cache import HubName
from labeltree.runs import RunFolder
from labeltree.runs.run_digests import weights_digest
from labeltree.safe_files import Reader, read_json

__all__ = ["CARD", "check_export", "fetched_files", "read_export_config", "repository_name", "sent_files"]

CARD = "README.md"

_READ = (  # by labeltree
    CONFIG,
    CARD,
    "encoder.safetensors",
    "model.json",
    "taxonomy.json",
    "training_taxonomy.json",
    "word_vectors.npz",
    "classifier.safetensors",
    "classifier.json",
    "decisions.json",
)
_FOR_OTHERS = (
    "model.onnx",
    "model.onnx.data",
    "labels.json",
    "preprocess.json",
    "tokenizer.json",
    "predict.py",
    "model.pt2",
)
_OF_ENCODER = re.compile(r"encoder_config/(\w[\w-]*/)?\w[\w.-]*\.(json|txt|model|safetensors)")
_MOST_FILES = 200  # below encoder_config


def repository_name(name: str, revision: str | None = None) -> HubName:
    """The repository that `OWNER/NAME`, `OWNER/NAME@REVISION` or `hf:OWNER/NAME` names.

    Raises:
        DataError: It is no such name, or has another revision than the one given beside it.
    """
    try:
        hub = HubName.of(f"hf:{name.removeprefix('hf:')}")
    except ValueError:
        hub = None
    if hub is None or "/" not in hub.repository or (revision is not None and not revision.strip()):
        raise DataError(
            f"'{name}' does not name a repository of the Hugging Face hub; expected OWNER/NAME, such as "
            "jane/birds, or OWNER/NAME@REVISION"
        )
    if revision is not None and hub.revision not in (None, revision):
        raise DataError(f"'{name}' names one revision, and '{revision}' is another; leave one of them out")
    return HubName("", hub.repository, revision or hub.revision)


def sent_files(names: Iterable[str]) -> list[str]:
    """Those that go to a hub: what an export writes, without embeddings of samples."""
    names = list(names)
    return sorted([*({*names} & {*_READ, *_FOR_OTHERS}), *_encoder_files(names)])


def fetched_files(names: Iterable[str]) -> list[str]:
    """Those that labeltree fetches: tensors, JSON and text, and no programs; the configuration first."""
    names = list(names)
    return [CONFIG, *sorted({*names} & {*_READ} - {CONFIG}), *_encoder_files(names)]


def _encoder_files(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if _OF_ENCODER.fullmatch(name))[:_MOST_FILES]


def read_export_config(folder: Path, what: str) -> dict[str, Any]:
    """The `config.json` of an exported model.

    Args:
        folder: The folder.
        what: What it is called in messages.

    Raises:
        RunError: It is not that of an export.
    """
    reader = Reader("the configuration of an exported model", "export the run again", RunError)
    content = read_json(folder / CONFIG, reader) if (folder / CONFIG).is_file() else {}
    if content.get("format") != EXPORT_FORMAT:
        raise RunError(f"{what} is not a labeltree export: it has no {CONFIG} that says so")
    if not isinstance(content.get("version"), int) or content["version"] > EXPORT_VERSION:
        raise RunError(f"{what} was exported by a later labeltree; install that version to read it")
    return content


def check_export(folder: Path, what: str, remedy: str) -> None:
    """Check the weights and the taxonomy of an exported model by the digests in its `config.json`.

    Args:
        folder: The folder.
        what: What it is called in messages.
        remedy: What to do if they differ.

    Raises:
        RunError: It is not an export, or a digest is another.
    """
    config, run = read_export_config(folder, what), RunFolder(folder)
    facts = config.get("facts")
    digests = facts.get("digests") if isinstance(facts, dict) else None
    digests = digests if isinstance(digests, dict) else {}
    if "safetensors" in (config.get("formats") or ()) and not run.encoder.is_file():
        raise RunError(f"{what} has no {run.encoder.name}, which its {CONFIG} names; {remedy}")
    if not run.encoder.is_file():
        return
    if weights_digest(run) != digests.get("weights"):
        raise RunError(f"{run.encoder.name} of {what} is not what its {CONFIG} says (SHA-256); {remedy}")
    try:
        taxonomy = run.load_taxonomy().digest
    except LabeltreeError as error:
        raise RunError(f"the taxonomy of {what} cannot be read: {error}") from error
    if taxonomy != digests.get("taxonomy"):
        raise RunError(f"{run.taxonomy.name} of {what} is not what its {CONFIG} says; {remedy}")
