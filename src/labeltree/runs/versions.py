"""Exact versions of the software that affects results."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import torch

__all__ = ["commit", "versions"]

_PACKAGES = ("labeltree", "torch", "torchvision", "lightning", "timm", "numpy", "scipy", "scikit-learn")


def versions() -> list[tuple[str, str]]:
    """Names and exact versions of Python, labeltree and the installed packages that affect its results."""
    listed = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            listed.append(
                (name, str(torch.__version__) if name == "torch" else version(name))
            )  # +cu130, +cpu
        except PackageNotFoundError:
            continue
    code = commit()
    if code is not None:
        listed.insert(2, ("labeltree's commit", code))
    return [*listed, ("system", f"{platform.system()} {platform.machine()}")]


def commit() -> str | None:
    """The commit from which labeltree was installed or checked out, with `, changed` if files differ.

    None if unknown, as for a released package.
    """
    try:
        installed = json.loads(distribution("labeltree").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        installed = {}
    if "vcs_info" in installed:
        return str(installed["vcs_info"].get("commit_id", ""))[:12] or None
    here = Path(__file__).resolve()
    # A package that merely lies inside somebody's repository is not part of it: git must know this very file.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    revision = _git(here.parent, "rev-parse", "--short=12", "HEAD")
    changed = _git(here.parent, "status", "--porcelain", "--", str(here.parent.parent))
    return f"{revision}, changed" if revision and changed else revision


def _git(folder: Path, *words: str) -> str | None:
    """The output of git in a folder; None if git fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
