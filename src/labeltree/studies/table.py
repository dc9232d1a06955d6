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
        choices: by method, the trials with their validation values and the index of the chosen one; empty
            where each method has one setting.
    """
    methods = list(dict.fromkeys(result["method"] for result in results))
    metrics = list(dict.fromkeys(name for result in results for name in result["scores"]))
    lines = [
        f"# {study.title}",
        "",
        f"Made by `python -m labeltree.studies {path}`; {len(study.seeds)} seeds a method "
        f"({', '.join(map(str, study.seeds))}), mean ± standard deviation (n − 1). {_choice(study)} "
        "The best mean of each column is bold.",
        "",
        "Shared settings: " + ", ".join(f"`{key}={value}`" for key, value in study.shared.items()) + ".",
        *_measured(study),
        "",
    ]
    notes = path.parent / "FINDINGS.md"
    if notes.is_file():
        lines += [notes.read_text("utf-8").strip(), ""]
    for role in dict.fromkeys(name.split("/")[0] for name in metrics):
        columns = [name for name in metrics if name.startswith(f"{role}/")]
        lines += [f"## {role.capitalize()}", "", *_rows(methods, columns, results), ""]
    lines += _losses(results)
    if choices:
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


def _measured(study: Study) -> list[str]:
    if not study.evaluation:
        return []
    chosen = ", ".join(f"`{key}={value}`" for key, value in study.evaluation.items())
    return ["", f"Every method is measured with {chosen}."]


def _losses(results: list[dict[str, Any]]) -> list[str]:
    """How the training loss went, epoch by epoch, mean over seeds."""
    curves: dict[str, list[list[float]]] = {}
    for result in results:
        if "train_loss" in result:
            curves.setdefault(result["method"], []).append(result["train_loss"])
    if not curves:
        return []
    lines = [
        "## Training loss",
        "",
        "By epoch, mean over the seeds; losses of different methods do not compare.",
    ]
    lines += ["", "| method | loss |", "|---|---|"]
    for method, runs in curves.items():
        epochs = zip(*runs, strict=False)  # of runs that stopped early, the epochs that all have
        lines.append(f"| {method} | {' → '.join(f'{statistics.mean(values):.4g}' for values in epochs)} |")
    return [*lines, ""]


def _choice(study: Study) -> str:
    trials = len(study.methods[0].trials)
    if trials == 1:
        return "Every method has the settings that the file names; nothing was chosen."
    return (
        f"Each method had {trials} trials, chosen by `{study.select}` on the validation split with seed "
        f"{study.trial_seed}; the test split was read after that."
    )


def _rows(methods: list[str], columns: list[str], results: list[dict[str, Any]]) -> list[str]:
    """A table with a row a method and a column a metric."""
    values: dict[tuple[str, str], list[float]] = {}
    for result in results:
        for column in columns:
            value = result["scores"].get(column)
            if value is not None:
                values.setdefault((result["method"], column), []).append(value)
    means = {key: round(statistics.mean(known), 4) for key, known in values.items()}
    lower = {column for column in columns if any(word in column for word in LOWER_IS_BETTER)}
    best = {
        column: (min if column in lower else max)(means[m, column] for m in methods if (m, column) in means)
        for column in {column for _, column in means}
    }
    names = [f"{c.split('/')[1].replace('_', ' ')} {'↓' if c in lower else '↑'}" for c in columns]
    lines = ["| method | " + " | ".join(names) + " |", "|---" + "|---:" * len(columns) + "|"]
    for method in methods:
        cells = []
        for column in columns:
            if (method, column) not in means:
                cells.append("–")
                continue
            known, text = values[method, column], f"{means[method, column]:.4f}"
            spread = f" ± {statistics.stdev(known):.4f}" if len(known) > 1 else ""
            cell = f"**{text}{spread}**" if means[method, column] == best[column] else text + spread
            cells.append(cell if spread else f"{cell} (one seed)")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines
