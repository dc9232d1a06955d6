"""Comparison of run folders or embeddings tables, written as JSON, Markdown and CSV."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.atomic import write_text
from labeltree.errors import DataError, LabeltreeError, RunError, typed
from labeltree.evaluation.chosen_samples import with_usual_splits
from labeltree.evaluation.comparing.compare_outcomes import BY_STRATUM, compare
from labeltree.evaluation.comparing.comparison import Comparison
from labeltree.evaluation.comparing.corrected_runs import commands_on_corrected
from labeltree.evaluation.comparing.gate import Gate, Verdict, gate_text
from labeltree.evaluation.comparing.pair_test_samples import name_sample, pair_samples
from labeltree.evaluation.comparing.paired_estimates import OtherLabelsError
from labeltree.evaluation.comparing.result_text import comparison_csv, comparison_text
from labeltree.evaluation.evaluate_table import evaluate
from labeltree.evaluation.outcomes import Outcomes, load_outcomes
from labeltree.evaluation.result import EvaluationResult
from labeltree.evaluation.statistics.sampling_units import SharedUnits, share_units
from labeltree.notebooks import html_sentences, html_table
from labeltree.options.comparison_options import CompareOptions
from labeltree.options.evaluation import EvaluationSettings
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.runs.embedding_table import RAW_VECTORS, STANDARDISED_VECTORS
from labeltree.runs.table_taxonomies import taxonomy_of_tables
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, load_taxonomy
from labeltree.taxonomy.naming import some

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Compared", "compare_paths", "write_comparison"]

_HALF = (
    "There is no split: half of the samples was set aside for the classifiers to learn from, and answers and "
    "violations are measured on the other half. Retrieval searches all samples."
)
_EVERY = "all numbers: .to_pandas(); as text: .text"


@dataclass(frozen=True, repr=False)
class Compared:
    """A comparison, its files, and for each method the evaluation results of its runs that could be read.

    Attributes:
        page: The page, if it was written.
        gate: The gate, if there was one.
        verdicts: What it says.
        verdict: Sentences: which is better, by how much, and where; empty if nothing was to compare.
        shown: The main numbers as rows of texts below a row of heads, as notebooks show them.
        short: The same as a table of text with the notes below it, as the terminal prints it.
    """

    result: Comparison
    text: str
    json: Path
    markdown: Path
    table: Path
    results: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    page: Path | None = None
    gate: Gate | None = None
    verdicts: tuple[Verdict, ...] | None = None
    verdict: tuple[str, ...] = ()
    shown: tuple[tuple[str, ...], ...] = ()
    short: str = ""

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric, with the columns of `comparison.csv`."""
        import pandas as pd

        return pd.read_csv(io.StringIO(comparison_csv(self.result)))

    def _repr_html_(self) -> str:
        table = html_table(self.shown[0], self.shown[1:]) if self.shown else ""
        level = f"in brackets: {self.result.confidence:.0%} confidence intervals" if table else None
        sentences = [level, *self.result.notes, f"report: {self.page or self.markdown}", _EVERY]
        return str(html_sentences([" ".join(self.verdict)]) + table + html_sentences(sentences))

    def __repr__(self) -> str:
        """The verdict and the main numbers as the terminal prints them, and where all are."""
        if not self.short:
            return f"{self.text.rstrip()}\n\n{self.page or self.markdown}"
        gate = "" if self.gate is None else gate_text(self.gate, self.verdicts or (), self.result)
        said = ["\n".join(self.verdict), self.short, gate, f"report: {self.page or self.markdown}\n{_EVERY}"]
        return "\n\n".join(filter(None, said))


def compare_paths(methods: Mapping[str, Sequence[str | Path]], options: CompareOptions) -> Compared:
    """Compare evaluated runs, or embeddings tables, and write the comparison into a folder.

    Args:
        methods: Method → folders or tables of its runs.
        options: How they are compared, and where the files go; its own methods are not read.

    Raises:
        RunError: If a folder has no outcomes: the run was not evaluated, or by an older version only.
        DataError: If a table cannot be read, runs have different samples under the same ids, or `compare`
            cannot compare.
        ValueError: If two of the folders or tables are the same.
    """
    split, progress, taxonomy = options.split, options.progress, options.taxonomy
    _check_different(methods)
    judge = _judge(methods, taxonomy)
    files = [Path(path) for paths in methods.values() for path in paths if Path(path).is_file()]
    units = share_units(((str(file), _load(file, judge, split)) for file in files), split)
    read = {
        name: [_read(path, judge, units, split, progress) for path in paths]
        for name, paths in methods.items()
    }
    outcomes_of: list[tuple[str | Path, Outcomes]] = []
    for name, paths in methods.items():
        outcomes_of += zip(paths, [outcomes for outcomes, _ in read[name]], strict=True)
    paired, notes = pair_samples(outcomes_of)
    of_runs = iter(paired)
    if progress is not None:
        progress("comparing", 0, 0)
    compared = {name: [next(of_runs) for _ in runs] for name, runs in read.items()}
    try:
        result = compare(
            compared,
            run_names={name: [str(path) for path in paths] for name, paths in methods.items()},
            classifiers={
                name: [None if of_run is None else of_run.main.classifier.name for _, of_run in runs]
                for name, runs in read.items()
            },
            baseline=options.baseline,
            metrics=options.metrics,
            strata_metrics=BY_STRATUM if options.strata_metrics is None else options.strata_metrics,
            min_samples=options.min_samples,
            confidence=options.confidence,
            resamples=options.resamples,
            permutations=options.permutations,
            seed=options.seed,
        )
    except OtherLabelsError as error:
        places = [Path(path) for path, _ in outcomes_of]
        sample = f"sample '{error.named}'" if error.named else name_sample(places[0], error.instance)
        advice = commands_on_corrected(methods)
        if advice is None:
            advice = _advise_same_labels([places[number] for number in error.runs], bool(error.named))
        raise DataError(f"{error.differ(sample)}: {advice}") from None
    result = replace(result, notes=[*result.notes[:1], *notes, *units.notes, *result.notes[1:]])
    results = {name: [of_run for _, of_run in runs if of_run is not None] for name, runs in read.items()}
    result = replace(result, notes=[*result.notes[:1], *_note_preprocessing(results), *result.notes[1:]])
    if any(of_run.split == "half" for runs in results.values() for of_run in runs):
        result = replace(result, notes=[*result.notes[:1], _HALF, *result.notes[1:]])
    return replace(write_comparison(result, options.out), results=results)


def _note_preprocessing(results: Mapping[str, Sequence[EvaluationResult]]) -> list[str]:
    """A note if methods read vectors standardised by column, and others do not: that is no training.

    The evaluation of a run that reads them so has them standardised, without training, beside it.
    """
    scaled = {
        name: next((run for run in runs if STANDARDISED_VECTORS in run.methods), None)
        for name, runs in results.items()
    }
    done = [name for name, run in scaled.items() if run is not None]
    plain = [
        name
        for name, runs in results.items()
        if runs and name not in done and all({*run.methods} <= {run.name, RAW_VECTORS} for run in runs)
    ]
    first = next((run for run in scaled.values() if run is not None), None)
    if first is None or not plain:
        return []
    both = [(name, first.methods.get(name)) for name in (STANDARDISED_VECTORS, RAW_VECTORS)]
    numbers = [
        f"{score:.4f} of the {name}"
        for name, method in both
        if method is not None and not math.isnan(score := method.score("recall_at_1", "embeddings"))
    ]
    alone = f" Without any training, recall@1 is {' and '.join(numbers)}." if len(numbers) == 2 else ""
    read = "reads" if len(done) == 1 else "read"
    return [
        f"{some(done)} {read} vectors standardised by column; whether {some(plain)} "
        f"{'does' if len(plain) == 1 else 'do'}, is not known. A part of the difference may be that of the "
        f"standardisation, not of training.{alone}"
    ]


def _advise_same_labels(places: Sequence[Path], named: bool) -> str:
    """What to type so that two results are judged by the same labels.

    Args:
        places: The runs or tables.
        named: Whether their samples have ids.
    """
    said = "these are not the same samples, or not as labelled. "
    if not named:
        said += (
            "Without ids, samples are paired by their rows: if these are in another order, write a "
            "column 'id' into both. "
        )
    if any(place.is_file() for place in places):
        return f"{said}Give them the same labels, then compare again"
    commands, new_folders = zip(*map(_measure_elsewhere, places), strict=True)
    evaluated, folders = " and ".join(commands), " ".join(map(typed, new_folders))
    return (
        f"{said}To judge both by the same labels, take labelled samples that neither learned from: "
        f"{evaluated}, then 'labeltree compare {folders}'. If corrections are the difference, 'labeltree "
        "evaluate RUN --corrections FILE' has the other run judged by them"
    )


def _measure_elsewhere(place: Path) -> tuple[str, Path]:
    """How to measure the run of a result on other samples, and the folder that this result goes to.

    A result within a run, such as `RUN/on-FILE`, is one of that run, on the version of its taxonomy.
    """
    inside = not RunFolder(place).description.is_file() and RunFolder(place.parent).description.is_file()
    run, file = place.parent if inside else place, RunFolder(place).measured_on
    if not inside or not (file.is_file() or place.name.startswith("on-")):
        return f"'labeltree evaluate {typed(run)} --data FILE.csv'", run / "elsewhere-FILE"
    try:
        version = json.loads(file.read_text("utf-8"))
        known = {name: str(version[name]) for name in ("taxonomy", "mapping") if name in version}
    except (OSError, ValueError, TypeError):
        known = {}
    known = known if "taxonomy" in known else {"taxonomy": "TREE.json", "mapping": "CHANGES.yaml"}
    first = ""
    if _is_dag(known["taxonomy"]):  # on which no run can be measured on other samples
        tree = f"{Path(known['taxonomy']).stem}-tree.json"
        first = f"'labeltree taxonomy project {typed(known['taxonomy'])} --out {tree}', "
        known["taxonomy"] = tree
    words = "".join(f" --{name} {typed(value)}" for name, value in known.items())
    folder = run / f"elsewhere-FILE-on-{Path(known['taxonomy']).stem}"
    return f"{first}'labeltree evaluate {typed(run)} --data FILE.csv{words}'", folder


def _is_dag(file: str) -> bool:
    try:
        return not isinstance(load_taxonomy(file), Taxonomy)
    except LabeltreeError:
        return False


def _judge(methods: Mapping[str, Sequence[str | Path]], taxonomy: str | Path | None) -> AnyTaxonomy | None:
    """The taxonomy that is named, else that of the tables' labels; None where there is no table."""
    tables = [path for paths in methods.values() for path in paths if Path(path).is_file()]
    if taxonomy is not None:
        return load_taxonomy(taxonomy)
    return taxonomy_of_tables(*tables) if tables else None


def _check_different(methods: Mapping[str, Sequence[str | Path]]) -> None:
    """Raise a `ValueError` if a result stands twice among the methods: its differences would be 0 and mean
    nothing."""
    seen: dict[Path, str] = {}
    for name, paths in methods.items():
        for path in paths:
            before = seen.setdefault(Path(path).resolve(), name)
            if before is not name:
                raise ValueError(
                    f"'{before}' and '{name}' are the same result, '{path}', which does not differ from "
                    "itself; to see one run before and after a change of the taxonomy, 'labeltree evaluate "
                    "RUN', then 'labeltree evaluate RUN --taxonomy FILE', which prints both numbers"
                )


def write_comparison(result: Comparison, out: str | Path) -> Compared:
    """Write a comparison into a folder, as JSON, as Markdown, and its metrics as CSV."""
    folder, text = RunFolder(out), comparison_text(result)
    with folder.locked():
        folder.write_json(folder.comparison, result.to_dict())
        write_text(folder.comparison_text, text)
        write_text(folder.comparison_table, comparison_csv(result))
    return Compared(result, text, folder.comparison, folder.comparison_text, folder.comparison_table)


def _load(file: Path, taxonomy: AnyTaxonomy | None, split: str) -> EmbeddingTable:
    """A table with its splits under their usual names, as `evaluate` reads it."""
    assert taxonomy is not None
    return with_usual_splits(EmbeddingTable.load(file, taxonomy), split)


def _read(
    path: str | Path,
    taxonomy: AnyTaxonomy | None,
    units: SharedUnits,
    split: str,
    progress: Progress | None,
) -> tuple[Outcomes, EvaluationResult | None]:
    """The outcomes, and the whole result where it can be read."""
    path = Path(path)
    if path.is_file():
        assert taxonomy is not None
        result = evaluate(
            units.put_into(_load(path, taxonomy, split)),
            taxonomy,
            name=path.stem,
            split=split,
            settings=EvaluationSettings(resamples=0),
            progress=progress,
        )
        return result.outcomes[path.stem], result
    file = RunFolder(path).outcomes
    if not file.is_file():
        what = "" if path.is_dir() else ": the folder does not exist"
        raise RunError(
            f"'{path}' has no {file.name}{what}; run 'labeltree evaluate {typed(path)}' first, then "
            "compare again"
        )
    return next(iter(load_outcomes(file).values())), _result(RunFolder(path).metrics)


def _result(file: Path) -> EvaluationResult | None:
    """The result beside the outcomes; None if another version wrote it. The comparison does not need it."""
    try:
        return EvaluationResult.load(file)
    except DataError:
        return None
