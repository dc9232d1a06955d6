"""Tables and trees of data sets that come with the package, in files below ``datasets/resources``."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["resource_json", "resource_text", "resource_yaml"]


def resource_text(name: str) -> str:
    """The text of a file."""
    return (files("labeltree.datasets") / "resources" / name).read_text("utf-8")


def resource_json(name: str) -> Any:
    """What a JSON file holds."""
    return json.loads(resource_text(name))


def resource_yaml(name: str) -> Any:
    """What a YAML file holds."""
    import yaml

    return yaml.safe_load(resource_text(name))
