"""What is installed here, and what it computes with: versions, extras, GPUs, threads, caches, variables."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from labeltree.cache import cache_entries, data_home
from labeltree.counted_nouns import say_count
from labeltree.offline import offline

__all__ = ["VARIABLES", "Installation", "examine_installation"]

VARIABLES = (
    "LABELTREE_DATA",
    "LABELTREE_IMAGE_ENCODER",
    "LABELTREE_OFFLINE",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "QDRANT_API_KEY",
    "WANDB_MODE",
    "WANDB_PROJECT",
    "XDG_CACHE_HOME",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "TRITON_INTERPRET",
)
"""The environment variables that change what labeltree does; docs/environment.md says how."""

_SECRET = ("HF_TOKEN", "QDRANT_API_KEY")
_NOT_FOR_USERS = ("bench", "dev", "docs")
_REQUIREMENT = re.compile(r"([\w.-]+).*?(?:;.*extra == ['\"]([\w-]+)['\"])?$")


@dataclass(frozen=True)
class Installation:
    """What is installed, and what it computes with.

    Attributes:
        labeltree: Version of labeltree.
        python: Version of Python.
        system: The operating system and the kind of processor.
        libraries: Library that labeltree needs → its version; None = it is missing.
        extras: Extra → those of its libraries that are missing.
        gpus: Names of the GPUs that torch can use.
        processors: Number of processor cores that this process may use.
        threads: Number of threads that torch takes; None = torch cannot be imported.
        caches: Folder → what its files take on the disk, in bytes.
        offline: Whether nothing may be fetched from a network.
        variables: Those of `VARIABLES` that are set; of tokens only that they are.
    """

    labeltree: str
    python: str
    system: str
    libraries: Mapping[str, str | None]
    extras: Mapping[str, tuple[str, ...]]
    gpus: tuple[str, ...]
    processors: int
    threads: int | None
    caches: Mapping[str, int]
    offline: bool
    variables: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)

    def text(self) -> str:
        """All of it for a terminal, or a report of a mistake."""
        return "".join(f"{title:<13}{line}".rstrip() + "\n" for title, line in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "labeltree", f"{self.labeltree}, Python {self.python}, {self.system}"
        for number, (name, installed) in enumerate(self.libraries.items()):
            title = "" if number else "libraries"
            yield title, f"{name} {installed or 'is missing: install labeltree again'}"
        for number, (extra, missing) in enumerate(self.extras.items()):
            remedy = f"without {', '.join(missing)}: pip install 'labeltree[{extra}]'"
            yield "" if number else "extras", f"{extra:<12} {remedy if missing else 'installed'}"
        yield "GPU", ", ".join(self.gpus) or "none that torch can use"
        cores = say_count(self.processors, "processor core")
        yield "threads", cores if self.threads is None else f"{self.threads} of torch, {cores}"
        for number, (place, size) in enumerate(self.caches.items()):
            yield "" if number else "caches", f"{place}: {size / 1e6:,.1f} MB"
        yield "network", "nothing is fetched" if self.offline else "weights and data sets may be fetched"
        for number, (name, value) in enumerate(self.variables.items()):
            yield "" if number else "variables", f"{name}={value}"


def examine_installation() -> Installation:
    """Look at what is installed; imports torch, and asks no network."""
    libraries, extras = _requirements()
    gpus, threads = _ask_torch()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    hub = _hub_folder()
    return Installation(
        labeltree=version("labeltree"),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        libraries={name: _version(name) for name in libraries},
        extras={
            extra: tuple(name for name in names if _version(name) is None) for extra, names in extras.items()
        },
        gpus=gpus,
        processors=cores or 1,
        threads=threads,
        caches={str(data_home()): sum(entry.bytes for entry in cache_entries()), str(hub): _size(hub)},
        offline=offline(),
        variables={
            name: "(set, not shown)" if name in _SECRET else os.environ[name]
            for name in VARIABLES
            if name in os.environ
        },
    )


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """The libraries that labeltree needs, and those of each extra."""
    libraries: list[str] = []
    extras: dict[str, list[str]] = {}
    for requirement in distribution("labeltree").requires or []:
        if (parts := _REQUIREMENT.match(requirement)) is None:
            continue
        if parts[2] is None:
            libraries.append(parts[1])
        elif parts[2] not in _NOT_FOR_USERS:
            extras.setdefault(parts[2], []).append(parts[1])
    return sorted(libraries), dict(sorted(extras.items()))


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _ask_torch() -> tuple[tuple[str, ...], int | None]:
    """The names of the GPUs that torch can use, and the number of its threads."""
    try:
        import torch
    except (ImportError, OSError):  # a broken installation is what this is to tell
        return (), None
    gpus = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        gpus.append("Apple GPU (mps)")
    return tuple(gpus), torch.get_num_threads()


def _hub_folder() -> Path:
    """The cache of the Hugging Face hub, where that library keeps it."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(os.environ.get("HF_HOME") or caches / "huggingface").expanduser() / "hub"


def _size(folder: Path) -> int:
    """What the files below a folder take on the disk; links are not followed."""
    files = (file.lstat() for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return sum(getattr(file, "st_blocks", -(-file.st_size // 512)) * 512 for file in files)
