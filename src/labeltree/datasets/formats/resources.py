"""Tables and trees of data sets that come with the package, in files below a folder `resources`."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["resource_json", "resource_text", "resource_yaml"]


def resource_text(name: str, package: str = "labeltree.datasets") -> str:
    """The text of a file of a package."""
    return (files(package) / "resources" / name).read_text("utf-8")


def resource_json(name: str, package: str = "labeltree.datasets") -> Any:
    """What a JSON file of a package holds."""
    return json.loads(resource_text(name, package))


def resource_yaml(name: str) -> Any:
    """What a YAML file holds."""
    import yaml

    return yaml.safe_load(resource_text(name))
