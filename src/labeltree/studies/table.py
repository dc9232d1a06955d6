"""The table of a study: every method, every metric, mean ± standard deviation over the seeds."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from labeltree.studies.plan import Study

__all__ = ["study_table"]

LOWER_IS_BETTER = ("violations", "severity")


def study_table(path: Path, study: Study, results: list[dict[str, Any]], choices: dict[str, Any]) -> str:
    """The study as a Markdown page.

    Args:
        path: of the study file.
        study: what was planned.
        results: one entry a run: ``method``, ``seed``, ``scores`` and, for trained ones, ``train_seconds``.
        choices: by method, the trials with their validation values and the index of the chosen one.
    """
    methods = list(dict.fromkeys(result["method"] for result in results))
    metrics = list(dict.fromkeys(name for result in results for name in result["scores"]))
    lines = [
        f"# {study.title}",
        "",
        f"Made by `python -m labeltree.studies {path}`; {len(study.seeds)} seeds a method "
        f"({', '.join(map(str, study.seeds))}), mean ± standard deviation (n − 1). Each method had "
        f"{len(study.methods[0].trials)} trials, chosen by `{study.select}` on the validation split with "
        f"seed {study.trial_seed}; the test split was read after that. The best mean of each column is bold.",
        "",
        "Shared settings: " + ", ".join(f"`{key}={value}`" for key, value in study.shared.items()) + ".",
        "",
    ]
    notes = path.parent / "FINDINGS.md"
    if notes.is_file():
        lines += [notes.read_text("utf-8").strip(), ""]
    for role in dict.fromkeys(name.split("/")[0] for name in metrics):
        columns = [name for name in metrics if name.startswith(f"{role}/")]
        lines += [f"## {role.capitalize()}", "", *_rows(methods, columns, results), ""]
    lines += ["## Trials", "", "| method | settings | validation | chosen |", "|---|---|---:|---|"]
    for method, choice in choices.items():
        for number, trial in enumerate(choice["trials"]):
            settings = ", ".join(f"{k}={v}" for k, v in trial["settings"].items()) or "defaults"
            mark = "yes" if number == choice["chosen"] else ""
            lines.append(f"| {method} | {settings} | {trial[study.select]:.4f} | {mark} |")
    seconds = [result["train_seconds"] for result in results if "train_seconds" in result]
    if seconds:
        lines += ["", f"Training took {min(seconds):.0f} to {max(seconds):.0f} seconds a run (wall clock)."]
    return "\n".join(lines) + "\n"


def _rows(methods: list[str], columns: list[str], results: list[dict[str, Any]]) -> list[str]:
    cells: dict[tuple[str, str], tuple[float, float] | None] = {}
    for method in methods:
        for column in columns:
            values = [r["scores"].get(column) for r in results if r["method"] == method]
            known = [value for value in values if value is not None]
            if known:
                cells[method, column] = (
                    statistics.mean(known),
                    statistics.stdev(known) if len(known) > 1 else 0.0,
                )
    best = {}
    for column in columns:
        means = [round(cell[0], 4) for (_, c), cell in cells.items() if c == column and cell is not None]
        if means:
            best[column] = min(means) if any(word in column for word in LOWER_IS_BETTER) else max(means)
    arrows = ["↓" if any(word in c for word in LOWER_IS_BETTER) else "↑" for c in columns]
    names = [f"{c.split('/')[1].replace('_', ' ')} {arrow}" for c, arrow in zip(columns, arrows, strict=True)]
    lines = ["| method | " + " | ".join(names) + " |", "|---" + "|---:" * len(columns) + "|"]
    for method in methods:
        row = []
        for column in columns:
            cell = cells.get((method, column))
            if cell is None:
                row.append("–")
                continue
            text = f"{cell[0]:.4f} ± {cell[1]:.4f}"
            row.append(f"**{text}**" if round(cell[0], 4) == best[column] else text)
        lines.append(f"| {method} | " + " | ".join(row) + " |")
    return lines
