"""What a run keeps of its encoder's configuration: `encoder.json`, beside the files of its library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeltree.safe_files import Reader, fits, read_json

__all__ = ["FILE", "READER", "read_config", "write_config"]

FILE = "encoder.json"
READER = Reader("the configuration of an encoder", "restore it, or train again into another --out")
_VERSION = 1


def write_config(folder: Path, values: Mapping[str, Any]) -> None:
    """Write plain values to `encoder.json` in an existing folder."""
    text = json.dumps({"version": _VERSION, **values}, indent=2, ensure_ascii=False)
    (folder / FILE).write_text(text + "\n", "utf-8")


def read_config(folder: Path, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `write_config` wrote.

    Args:
        folder: The folder of the configuration.
        kinds: The type of every value, by name.

    Raises:
        DataError: The file is missing or damaged, or was written by a later version of labeltree.
    """
    path = folder / FILE
    values = read_json(path, READER)
    version = values.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise READER.failure(path, f"it has version {version}, which a later labeltree wrote")
    for name, kind in kinds.items():
        if not fits(values.get(name), kind):
            raise READER.failure(path, f"its {name} is missing or damaged")
    return values
