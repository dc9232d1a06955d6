"""The page of a study: the verdict, figures, and folded below them tables, settings and trials."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labeltree.report.pages.document import Block, Cell, Fold, Heading, Notes, Table, Text
from labeltree.studies.comparison_sentences import comparison_blocks
from labeltree.studies.score_names import find_score, missing_scores
from labeltree.studies.settings_blocks import listed, settings_blocks
from labeltree.studies.shortfall import shortfall_blocks
from labeltree.studies.study_figures import difference_blocks, measured_baselines, study_figures
from labeltree.studies.study_plan import Axis, PaperTable, Study
from labeltree.studies.study_statistics import Entry, Summary, is_larger_better_in, metric_title, significance

__all__ = ["study_blocks"]

_DEFAULT_COLUMNS = (
    "features/top1",
    "features/hierarchical_f1",
    "embeddings/ahp",
    "embeddings/h_ap",
    "embeddings/pair_violations",
)


def study_blocks(
    path: Path,
    study: Study,
    results: Sequence[dict[str, Any]],
    choices: dict[str, Any],
    failures: Sequence[dict[str, Any]] = (),
) -> list[Block]:
    """The parts of the page, in order.

    Args:
        path: Path of the study file; a `FINDINGS.md` in the same folder is included, its first paragraph
            above the figures.
        study: Plan of the study.
        results: One entry per run: `method`, `seed`, `scores` and, if trained, `train_seconds`.
        choices: For each method, its trials with their validation values and the index of the chosen one;
            empty if each method has one setting.
        failures: Dictionaries with `run` and `error` for each failed run.
    """
    summary = Summary(results)
    columns = study_columns(study, summary)
    blocks: list[Block] = [Heading(study.title, 1)]
    if study.claim:
        kind = "Question" if "?" in study.claim else "Claim to test"
        blocks.append(Text(f"{kind}: {study.claim}"))
    blocks += _missing(study, results)
    blocks += [Text(f"Warning: {said}") for said in missing_scores(study.columns, summary.columns)]
    notes = path.parent / "FINDINGS.md"
    verdict, more = _split_notes(notes.read_text("utf-8")) if notes.is_file() else ("", "")
    blocks += [Notes(verdict)] if verdict else []
    compared = comparison_blocks(study, summary, columns) if study.columns and not study.grid else []
    if compared and not notes.is_file():
        blocks += [Heading("What came out"), *compared]
    if study.grid:
        blocks += study_figures(study, summary, columns)
    else:
        blocks += difference_blocks(study, summary, columns)
    blocks += [Notes(more)] if more else []
    blocks += [Heading("All numbers"), Text(_credits(path, study))]
    if study.grid:
        blocks += _grid_blocks(study, summary, columns)
    else:
        if study.columns:
            blocks.append(Fold("Main scores", [_main(summary, columns)]))
        if compared and notes.is_file():
            blocks.append(Fold("Differences in the main scores", compared))
        elsewhere = [role for role in summary.roles if study.columns and role in _protocols(study)]
        for role in summary.roles:
            own = [column for column in summary.columns if column.startswith(f"{role}/")]
            if role not in elsewhere:
                blocks.append(Fold(role.capitalize(), [_flat(summary, own)]))
        if elsewhere:
            blocks.append(Text(f"All numbers of {', '.join(elsewhere)}: `table.csv`."))
    if study.margins:
        own = [method.name for method in study.methods if method.name in summary.methods]
        blocks += shortfall_blocks(summary, own, study.margins)
    blocks += [*_paper_blocks(study, summary), *_likeness(study, summary)]
    if not study.grid:
        blocks += _losses(results)
    blocks += [Heading("Settings"), *_settings(study), *settings_blocks(study, results, choices)]
    blocks += [*_trials(study, choices), *_failures(failures), *_time(results)]
    return blocks


def _split_notes(markdown: str) -> tuple[str, str]:
    """The headings and the first paragraph of notes, and the rest; what begins otherwise is not divided."""
    parts = markdown.strip().split("\n\n")
    first = next((place for place, part in enumerate(parts) if not part.startswith("#")), 0)
    if not re.match(r"[*_`\w]", parts[first]) or re.match(r"\d+[.)] |\* |```", parts[first]):
        return markdown, ""
    return "\n\n".join(parts[: first + 1]), "\n\n".join(parts[first + 1 :])


def study_columns(study: Study, summary: Summary) -> list[str]:
    """The measured columns among those that the study names, or among the default columns."""
    columns = [find_score(column, summary.columns) for column in study.columns or _DEFAULT_COLUMNS]
    return [column for column in columns if column is not None]


def _protocols(study: Study) -> list[str]:
    """The additional protocols of the study; of their many columns, only those named are shown."""
    return [*study.evaluation.get("protocols", ())]


def _typed_path(path: Path) -> Path:
    """The path of the study file as typed, without folders above the working directory."""
    if not path.is_absolute():
        return path
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else Path(path.parent.name, path.name)


def _program(study: Study) -> str:
    """The program that makes the study: a script if that registers an objective, else `labeltree`."""
    alone = [entry for entry in study.own_objectives(study.methods) if not entry.origin.is_found]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return f"python {Path(script).name}" if alone and script else "labeltree"


def _credits(path: Path, study: Study) -> str:
    several = "s" * (len(study.seeds) > 1)
    seeds = f"{len(study.seeds)} seed{several} per method ({', '.join(map(str, study.seeds))})"
    trials = len(study.methods[0].trials)
    choice = (
        "Every method has the settings that are listed below, and nothing was chosen."
        if trials == 1
        else f"Each method had {trials} trials. The best by `{study.select}` on the validation split, with "
        f"seed {study.trial_seed}, was chosen. The test split was read after that."
    )
    best = "of each column"
    if study.grid:
        best = "of each table" if study.is_map else "within each point of the grid"
    return (
        f"Made by `{_program(study)} study {_typed_path(path)}`, with {seeds}. Numbers are mean ± standard "
        f"deviation (n − 1). {choice} The best mean {best} is bold. {significance(len(study.seeds))}."
    )


def _settings(study: Study) -> list[Block]:
    blocks: list[Block] = [Text(f"Shared settings: {listed(study.shared)}.")]
    if study.evaluation:
        blocks.append(Text(f"Every method is measured with {listed(study.evaluation)}."))
    if study.transfer:
        blocks.append(
            Text(
                "Columns named transfer measure the frozen encoder on another data set: "
                f"{listed(study.transfer)}."
            )
        )
    return blocks


def _missing(study: Study, results: Sequence[dict[str, Any]]) -> list[Block]:
    known = {(result["method"], result["seed"]) for result in results}
    wanted = [(method.name, seed) for method in study.methods for seed in study.seeds]
    done = sum(run in known for run in wanted)
    if done == len(wanted):
        return []
    return [Text(f"Not finished: {done} of {len(wanted)} runs are in these tables.")]


def _main(summary: Summary, columns: Sequence[str]) -> Table:
    """The scores that the study names, possibly of several roles."""
    table = _flat(summary, columns)
    return Table(["method", *(f"{c.split('/')[0]} {metric_title(c)}" for c in columns)], table.rows)


def _flat(summary: Summary, columns: Sequence[str]) -> Table:
    entries = {column: summary.entries(column, summary.methods) for column in columns}
    rows = [
        [Cell(method), *(_cell(entries[column].get(method)) for column in columns)]
        for method in summary.methods
    ]
    return Table(["method", *map(metric_title, columns)], rows)


def _likeness(study: Study, summary: Summary) -> list[Block]:
    """Sentences about columns that are equal throughout."""
    blocks: list[Block] = []
    pairs = [(f"{role}/hierarchical_f1", f"{role}/tree_accuracy") for role in summary.roles]
    known = [pair for pair in pairs if {*pair} <= {*summary.columns}]
    if known and all(summary.are_equal(name, *pair) for pair in known for name in summary.methods):
        blocks.append(
            Text(
                "Hierarchical F1 and tree accuracy are the same number in every row, as they are where all "
                "leaves lie at one depth."
            )
        )
    alike = []
    for name in (method.name for method in study.methods if method.name in summary.methods):
        metrics = {c.split("/", 1)[1] for c in summary.columns if c.startswith("features/")}
        pairs = [(f"features/{m}", f"embeddings/{m}") for m in metrics]
        both = [pair for pair in pairs if all(summary.values(name, column) for column in pair)]
        if both and all(summary.are_equal(name, *pair) for pair in both):
            alike.append(name)
    if alike:
        blocks.append(
            Text(
                f"Features and embeddings are the same for {'; '.join(alike)}: without a projection head "
                "that their losses share, the features are the embeddings."
            )
        )
    return blocks


def _losses(results: Sequence[dict[str, Any]]) -> list[Block]:
    """The training loss by epoch, mean over seeds."""
    curves: dict[str, list[list[float]]] = {}
    for result in results:
        if "train_loss" in result:
            curves.setdefault(result["method"], []).append(result["train_loss"])
    if not curves:
        return []
    rows = []
    for method, runs in curves.items():
        epochs = zip(*runs, strict=False)  # the epochs that all runs have: some may have stopped early
        rows.append([Cell(method), Cell(" → ".join(f"{statistics.mean(values):.4g}" for values in epochs))])
    return [
        Fold(
            "Training loss",
            [
                Text("The mean over the seeds, by epoch. Losses of different methods cannot be compared."),
                Table(["method", "loss"], rows, words=True),
            ],
        )
    ]


def _trials(study: Study, choices: dict[str, Any]) -> list[Block]:
    rows = []
    for method, choice in choices.items():
        for number, trial in enumerate(choice["trials"]):
            settings = ", ".join(f"{k}={v}" for k, v in trial["settings"].items()) or "defaults"
            mark = "yes" if number == choice["chosen"] else ""
            rows.append([Cell(text) for text in (method, settings, f"{trial[study.select]:.4f}", mark)])
    if not rows:
        return []
    return [Fold("Trials", [Table(["method", "settings", "validation", "chosen"], rows, words=True)])]


def _failures(failures: Sequence[dict[str, Any]]) -> list[Block]:
    if not failures:
        return []
    rows = [[Cell(failure["run"]), Cell(failure["error"])] for failure in failures]
    return [Heading("Runs that failed"), Table(["run", "error"], rows, words=True)]


def _time(results: Sequence[dict[str, Any]]) -> list[Block]:
    seconds = [result["train_seconds"] for result in results if "train_seconds" in result]
    if not seconds:
        return []
    return [Text(f"Training took {min(seconds):.0f} to {max(seconds):.0f} seconds per run (wall clock).")]


def _grid_blocks(study: Study, summary: Summary, columns: Sequence[str]) -> list[Block]:
    """For every column its tables, folded.

    Methods are compared with the best method at each point; in a map, all cells with the best cell.
    """
    blocks: list[Block] = []
    for column in columns:
        tables = [_map(study, summary, column)] if study.is_map else _grid_tables(study, summary, column)
        blocks.append(Fold(f"{column.split('/')[0].capitalize()}: {metric_title(column)}", tables))
    return blocks


def _grid_tables(study: Study, summary: Summary, column: str) -> list[Text | Table]:
    """A table for each point of all axes except the last."""
    outer, last = study.grid[:-1], study.grid[-1]
    baselines = measured_baselines(study, summary)
    blocks: list[Text | Table] = []
    for before in _points(outer):
        rows: dict[str, list[Cell]] = {name: [Cell(name)] for name in [*study.families, *baselines]}
        for label in last.points:
            point = {**before, last.name: label}
            names = {family: study.method_at(family, point) for family in study.families}
            here = {family: method.name for family, method in names.items() if method}
            entries = summary.entries(column, [*here.values(), *baselines])
            for name, row in rows.items():
                row.append(_cell(entries.get(here.get(name, name))))
        if before:
            blocks.append(Text(f"**{', '.join(f'{axis} = {label}' for axis, label in before.items())}**"))
        blocks.append(Table(_header(last), list(rows.values())))
    return blocks


def _map(study: Study, summary: Summary, column: str) -> Table:
    """A table with a row per point of the first axis and a column per point of the second.

    Methods that do not vary along the first axis are left out.
    """
    first, last = study.grid
    entries = summary.entries(column, summary.methods)
    rows: list[list[Cell]] = []
    for family in study.families:
        varies = any(first.name in dict(m.point) for m in study.methods if m.family == family)
        for label in first.points if varies else list(first.points)[:1]:
            row = [Cell(f"{family}, {first.name} = {label}" if varies else family)]
            for other in last.points:
                method = study.method_at(family, {first.name: label, last.name: other})
                row.append(_cell(entries.get(method.name) if method else None))
            rows.append(row)
    for name in measured_baselines(study, summary):
        rows.append([Cell(name), *[_cell(entries.get(name))] * len(last.points)])
    return Table(_header(last), rows)


def _header(axis: Axis) -> list[str]:
    return ["method", *(f"{axis.name} = {label}" for label in axis.points)]


def _points(axes: Sequence[Axis]) -> list[dict[str, str]]:
    points: list[dict[str, str]] = [{}]
    for axis in axes:
        points = [{**point, axis.name: label} for point in points for label in axis.points]
    return points


def _paper_blocks(study: Study, summary: Summary) -> list[Block]:
    """A heading, a sentence and a table for each table of a paper."""
    blocks: list[Block] = []
    for table in study.paper:
        ours = summary.entries(table.column, table.rows)
        blocks += [
            Heading(f"Beside the paper: {table.source}"),
            Text(
                f"The paper's figures are of {table.data}; ours are of this study's data and budget. So the "
                f"values do not compare; which method is ahead may.{_agreement(table, ours)}"
            ),
            _side_by_side(table, ours),
        ]
    return blocks


def _side_by_side(table: PaperTable, ours: dict[str, Entry]) -> Table:
    best = (min if table.lower else max)(table.rows.values())
    rows = []
    for name, value in table.rows.items():
        entry = ours.get(name)
        spread = f" ± {entry.sd:.4f}" if entry and entry.sd is not None else ""
        cell = Cell(f"{entry.mean:.4f}{spread}", entry.best) if entry else Cell("not run")
        rows.append([Cell(name), Cell(f"{value:g}", value == best), cell])
    return Table(
        ["method", "paper", f"ours: {table.column.split('/')[0]} {metric_title(table.column)}"], rows
    )


def _agreement(table: PaperTable, ours: dict[str, Entry]) -> str:
    """A sentence with Kendall's τ-b of the two orders, if there are three methods or more."""
    names = [name for name in table.rows if name in ours]
    if len(names) < 3:
        return ""
    from scipy.stats import kendalltau

    sign = -1 if is_larger_better_in(table.column) == table.lower else 1  # larger here, lower there
    tau = sign * float(kendalltau([table.rows[n] for n in names], [ours[n].mean for n in names]).statistic)
    if tau != tau:
        return ""
    pairs = len(names) * (len(names) - 1) // 2
    return (
        f" Of the {pairs} pairs of methods, Kendall's τ of the two orders is {tau:.2f} (1 = the same order)."
    )


def _cell(entry: Entry | None) -> Cell:
    """The table cell of an entry; a dash if there is none."""
    if entry is None:
        return Cell("–")
    spread = f" ± {entry.sd:.4f}" if entry.sd is not None else ""
    mark = "≈" if entry.close else "(one seed)" if not spread else ""
    return Cell(f"{entry.mean:.4f}{spread}", entry.best, mark)
