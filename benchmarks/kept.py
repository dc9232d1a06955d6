"""What a benchmark leaves behind: tables and figures as JSON and Markdown, with command and machine."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from labeltree.atomic import atomic_write

__all__ = ["FOLDER", "Results", "Row", "Table", "command", "machine", "markdown", "show", "write"]

FOLDER = Path(__file__).parent / "results"
Row = Sequence[str | float | int | None]


@dataclass
class Table:
    """A table as people read it.

    Attributes:
        title: one line above it.
        columns: names of the columns, the first of which names the rows.
        rows: numbers stay numbers; None where there is nothing to measure.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass
class Results:
    """All that one script measured.

    Attributes:
        tables: in order.
        measured: figures that goals ask for, by the goal's key.
        notes: what to know about them, a sentence each.
        seconds: how long it took, by the clock.
    """

    tables: list[Table]
    measured: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def command(name: str, size: str, options: Mapping[str, str] | None = None) -> str:
    """What to type to repeat the results of a script, in the root of the project."""
    words = ["python", f"benchmarks/{name}.py"]
    words += [] if size == "full" else [f"--{size}"]
    words += [f"--{option} {value}" for option, value in (options or {}).items()]
    return " ".join(words)


def machine() -> dict[str, Any]:
    """What the figures depend on, without the name of the machine."""
    built = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", built)
    libraries = re.findall(
        r"- (?:Intel\(R\) )?((?:oneAPI Math Kernel Library|MKL-DNN)[^(\n]*?) ?(?:\(|for|$)", built
    )
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "gpu": gpu,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "blas": ", ".join([*([blas[1]] if blas else []), *(" ".join(text.split()) for text in libraries)]),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(
    results: Results,
    name: str,
    size: str,
    options: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Write NAME.json and NAME.md and return what the JSON holds.

    Args:
        results: of the script.
        name: of the script, without `.py`.
        size: the form that was run.
        options: further options that were given.
        folder: None: `FOLDER`, and below it a folder per form that is not the full one.
    """
    made = {"command": command(name, size, options), "size": size, "machine": machine(), **asdict(results)}
    made["seconds"] = round(results.seconds, 1)
    if folder is None:
        folder = FOLDER if size == "full" else FOLDER / size
    text = json.dumps(made, indent=1, ensure_ascii=False)
    kept: dict[str, Any] = json.loads(text)
    with atomic_write(folder / f"{name}.json") as path:
        path.write_text(text + "\n", "utf-8")
    with atomic_write(folder / f"{name}.md") as path:
        path.write_text(markdown(kept), "utf-8")
    return kept


def markdown(kept: Mapping[str, Any]) -> str:
    """Results as a page."""
    about = kept["machine"]
    words = [about["processor"], f"{about['cores']} cores", about["gpu"], f"torch {about['torch']}"]
    words += [about["blas"], f"commit {about['commit']}", about["date"]]
    lines = [f"`{kept['command']}`", "", ", ".join(str(word) for word in words if word) + "."]
    for table in kept["tables"]:
        lines += ["", f"### {table['title']}", ""] if table["title"] else [""]
        lines += ["| " + " | ".join(table["columns"]) + " |"]
        lines += ["|---" + "|---:" * (len(table["columns"]) - 1) + "|"]
        lines += ["| " + " | ".join(show(cell) for cell in row) + " |" for row in table["rows"]]
    for note in kept["notes"]:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def show(cell: object) -> str:
    """A cell as text: three digits of a fraction, all of a whole number."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        if cell == 0 or 1e-3 <= abs(cell) < 1e3:
            return f"{cell:.3g}"
        return f"{cell:,.0f}" if 1e3 <= abs(cell) < 1e9 else f"{cell:.1e}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _processor() -> str:
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()


def _commit() -> str:
    """The commit, with a + where tracked files of the package differ from it; empty outside of git."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except OSError:
        return ""
