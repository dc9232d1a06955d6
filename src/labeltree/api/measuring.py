"""Evaluate and compare models, and embeddings of any model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.options.choices import Subject
from labeltree.options.comparison_options import CompareOptions
from labeltree.options.evaluation import EvaluateOptions
from labeltree.options.schema import as_place, takes

if TYPE_CHECKING:
    from labeltree.evaluation.comparing.compare_runs import Compared
    from labeltree.report.evaluation_case import Evaluated

__all__ = ["compare", "evaluate"]


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> Evaluated:
    """Evaluate a run, or any embeddings, and write `metrics.json` and `report.html`.

    For a table in memory, `labeltree.evaluation.evaluate` computes the same and writes nothing.

    Raises:
        LabeltreeError: If the run, the table or the taxonomy is missing, unreadable or invalid.
        ValueError: If the value of a setting is not allowed, or an option does not go with the input.
    """
    options = _fetched(options)
    subject = _subject(options)
    options.require_fit(subject)
    if subject == "other data":
        from labeltree.report.evaluate_other_data import evaluate_on_data as measure
    elif subject == "folds":
        from labeltree.report.cross_validation import evaluate_folds as measure
    elif subject == "run":
        from labeltree.report.evaluate_run import evaluate_run as measure
    else:
        from labeltree.report.evaluate_embeddings import evaluate_embeddings as measure
    return measure(options)


def _fetched(options: EvaluateOptions) -> EvaluateOptions:
    """The options with embeddings on the disk."""
    from labeltree.data.object_stores import is_remote, local_copy

    if options.embeddings is None or not is_remote(options.embeddings):
        return options
    if options.out is None:
        raise options.refusal("`embeddings` lie in an object store: say where the report is to be, by `out`")
    return replace(options, embeddings=local_copy(options.embeddings))


def _subject(options: EvaluateOptions) -> Subject:
    """What an evaluation is of, as the disk says."""
    from labeltree.runs import PartFolder, RunFolder

    path = options.place
    if options.embeddings is not None and not (path.is_file() or PartFolder(path).exists()):
        raise options.refusal(f"`embeddings`: there is no file '{path}'")
    table = path.suffix in (".npz", ".parquet") and not path.is_dir()
    if path.is_file() or table or PartFolder(path).exists():
        return "embeddings"
    if options.data is not None:
        return "other data"
    return "folds" if RunFolder(path).folds.is_file() else "run"


@takes(CompareOptions)
def compare(options: CompareOptions) -> Compared:
    """Compare evaluated runs, or embeddings tables, on the samples that they have in common.

    Writes `comparison.json`, `comparison.md`, `comparison.csv` and the page `comparison.html`.

    Raises:
        RunError: If a run was not evaluated.
        DataError: If the runs cannot be compared.
        ValueError: If a mapping is of no run that is compared, or there is no taxonomy that it leads to.
    """
    from labeltree.evaluation.comparing.compare_runs import compare_paths
    from labeltree.evaluation.comparing.gate import check_gate, read_gate
    from labeltree.report import write_comparison_page
    from labeltree.report.comparison_words import comparison_verdict, short_comparison, short_rows
    from labeltree.runs import RunFolder

    assert isinstance(options.methods, Mapping)  # names are given to runs without
    methods = {
        name: [as_place(run) for run in ([runs] if isinstance(runs, str | PathLike) else runs)]
        for name, runs in options.methods.items()
    }
    gate = None if options.gate is None else read_gate(options.gate)
    if gate is not None:
        options = replace(
            options,
            baseline=options.baseline or list(methods)[1],
            confidence=gate.confidence,
            strata_metrics=gate.node_metrics or None,
            min_samples=gate.fewest,
        )
    folder = RunFolder(options.out)
    judged = _moved_to_taxonomy(methods, options)
    with folder.locked():
        done = compare_paths(judged, options)
        page = Path(options.report or folder.comparison_page)
        write_comparison_page(done.result, page, done.results, title=options.title)
    done = replace(
        done,
        page=page,
        verdict=tuple(comparison_verdict(done.result)),
        shown=tuple(map(tuple, short_rows(done.result))),
        short=short_comparison(done.result),
    )
    if gate is None:
        return done
    (new,) = (name for name in methods if name != options.baseline)
    return replace(done, gate=gate, verdicts=tuple(check_gate(gate, done.result, new)))


def _moved_to_taxonomy(
    methods: dict[str, list[str | Path]], options: CompareOptions
) -> dict[str, list[str | Path]]:
    """The evaluations of methods on one taxonomy: runs on another one are evaluated on it."""
    from labeltree.report.evaluate_run import evaluate_run
    from labeltree.runs import RunFolder
    from labeltree.taxonomy import load_taxonomy
    from labeltree.taxonomy.versions.between_versions import check_version

    files: dict[Path, str | Path] = {}
    compared = {Path(path).resolve() for paths in methods.values() for path in paths}
    for named, file in options.mapping.items():
        runs = [Path(path).resolve() for path in methods.get(str(named), [named])]
        if not compared.issuperset(runs):
            names = ", ".join(f"'{name}'" for name in methods)
            raise ValueError(f"there is a mapping of '{named}', which is not compared; these are: {names}")
        files |= dict.fromkeys(runs, file)
    if options.taxonomy is None:
        check_version(None, options.mapping or None)
        return methods
    judge = load_taxonomy(options.taxonomy)

    def judged(path: str | Path) -> str | Path:
        run, file = RunFolder(path), files.get(Path(path).resolve())
        if not run.encoder.is_file():  # a table, or an evaluation without its run
            if file is not None:
                raise ValueError(f"there is a mapping of '{path}', which is not a run")
            return path
        if file is None and run.load_taxonomy() == judge and run.outcomes.is_file():
            return path
        done = evaluate_run(
            EvaluateOptions(
                run, options.taxonomy, mapping=file, split=options.split, progress=options.progress
            )
        )
        return done.metrics.parent

    return {name: [judged(path) for path in paths] for name, paths in methods.items()}
