"""The functions behind the commands and behind `import labeltree`: open data, train, load, evaluate, compare.

The package exports these functions; ``import labeltree as lt`` is all that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.atomic import atomic_write
from labeltree.data import open_source as open_data
from labeltree.options.answers import EmbedOptions, PredictOptions
from labeltree.options.evaluation import EvaluateOptions, Subject
from labeltree.options.models import CalibrateOptions, ExportOptions, ExtendOptions, LoadOptions
from labeltree.options.schema import takes
from labeltree.runs import PartFolder, RunFolder

if TYPE_CHECKING:  # each function imports what it needs: a service that loads a model does not train
    from labeltree.curation.suspects import Suspects
    from labeltree.data import DataSummary
    from labeltree.evaluation.comparing.compare_runs import Compared
    from labeltree.inference.bulk import BulkDone
    from labeltree.inference.calibrate_run import Decider
    from labeltree.inference.embed_run import Embedded
    from labeltree.inference.extend import Extension
    from labeltree.inference.model import Model
    from labeltree.inference.predict import Answered
    from labeltree.progress import Progress
    from labeltree.report.evaluate_and_report import Evaluated

__all__ = [
    "calibrate",
    "compare",
    "embed",
    "evaluate",
    "export",
    "extend",
    "load",
    "open_data",
    "predict",
    "suspects",
    "train",
]


def train(
    data: str | Path | None = None,
    objective: str | None = None,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    progress_bar: bool = True,
    folds: int | None = None,
    on_data: Callable[[DataSummary], object] | None = None,
    verify: bool = False,
    **settings: Any,
) -> RunFolder:
    """Train a run, or continue the one in the folder, as ``labeltree train`` does.

    At the end its classifiers are learned and its answers calibrated, so that the run folder alone answers
    from then on, wherever it is taken.

    Args:
        data: a folder of nested folders, a table, or the name of a data set; see `open_data`.
        objective: the training objective, such as ``hwc+lam``; None = the recipe's, or else ``auto``, the one
            that suits the samples.
        out: the run folder; None = ``runs/`` and the name of the data.
        config: a recipe to start from: a YAML file, or the name of a recipe that comes with labeltree.
        progress_bar: show a progress bar.
        folds: cross-validation: train a run for each of so many parts of the samples, which tests it;
            `evaluate` makes one result of all. None = one run.
        on_data: called with a summary of the data, which also lists what cannot be measured on them;
            None = warnings are logged.
        verify: when a run is continued, read all files of its samples again.
        **settings: settings of the recipe, such as ``epochs=20``; settings of a group are given as
            ``optimizer={"lr": 0.1}`` or ``**{"optimizer.lr": 0.1}``.

    Raises:
        RecipeError: if a setting is unknown (the message names the nearest one) or its value is not allowed.
        LabeltreeError: if the data cannot be read, or the folder holds another run.
    """
    from labeltree.inference.finish import finish_run
    from labeltree.training.fit import train as train_recipe
    from labeltree.training.reading import default_folder, make_recipe, with_absolute_paths

    given = {"data": data if data is None else str(data), "objective": objective}
    chosen = {**settings, **{name: value for name, value in given.items() if value is not None}}
    recipe = with_absolute_paths(make_recipe(chosen, config))
    if folds is not None:
        from labeltree.report.cross_validation import train_folds

        where = out or f"{default_folder(recipe)}-{folds}-folds"
        return train_folds(recipe, folds, where, progress_bar=progress_bar, on_data=on_data, verify=verify)
    folder = train_recipe(
        recipe, out or default_folder(recipe), progress_bar=progress_bar, on_data=on_data, verify=verify
    )
    finish_run(folder, progress_bar=progress_bar)
    return folder


@takes(LoadOptions)
def load(options: LoadOptions) -> Model:
    """Load a finished run as a model that embeds samples and predicts their labels.

    Raises:
        RunError: if the folder is not a finished run.
    """
    from labeltree.inference.model import Model

    return Model(
        options.run,
        classifier=options.classifier,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        device=options.device,
    )


@takes(PredictOptions)
def predict(options: PredictOptions) -> Answered | BulkDone:
    """Answer for images or texts with a node of the taxonomy, as fine as is sure.

    With a folder as ``out`` (``FOLDER/``), or with shards as ``data``, the answers of any number of samples
    go to Parquet files in it, and the same call goes on where it was ended. `load` gives a model that answers
    for samples in memory.

    Raises:
        LabeltreeError: if the run, the samples or the costs are missing, unreadable or unsuitable.
        ValueError: if an option is not valid, or does not go with others.
    """
    options = options.with_folder_as_data()
    if (done := _in_bulk(options)) is not None:
        return done
    from labeltree.inference.predict import answer

    form = options.format
    answered = answer(options)
    if options.out is not None:
        _write(options.out, answered.text(form))
    return answered


def _write(file: str | Path, text: str) -> None:
    """Write a text file, as a whole or not at all."""
    with atomic_write(file) as temporary:
        temporary.write_text(text, "utf-8")


@takes(EmbedOptions)
def embed(options: EmbedOptions) -> Embedded | BulkDone:
    """Write the embeddings of a trained run's samples, or of others, to one table or to a folder of parts.

    The taxonomy of the nodes is written beside the table. With a folder as ``out`` (``FOLDER/``), or with
    shards as ``data``, any number of samples go to Parquet files in it.

    Raises:
        LabeltreeError: if the run or the samples are missing, unreadable or unsuitable.
        ValueError: if an option is not valid, or does not go with others.
    """
    if (done := _in_bulk(options)) is not None:
        return done
    from labeltree.inference.embed_run import embed_run

    return embed_run(options)


def _in_bulk(options: PredictOptions | EmbedOptions) -> BulkDone | None:
    """What was done, if the options say that a folder of parts is written; else None."""
    folder = False
    if options.out is not None:
        from labeltree.inference.bulk.job import writes_folder

        folder = writes_folder(options.data, options.out)
    options.require_fit(folder=folder)
    if not folder:
        return None
    from labeltree.inference.bulk import BulkJob, run_bulk

    return run_bulk(BulkJob.of(options), devices=options.devices or 1, progress=options.progress)


@takes(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> Decider:
    """Calibrate the answers of a run, which writes ``decisions.json``.

    Afterwards probabilities match frequencies, and any coverage can be promised.

    Raises:
        RunError: if the folder is not a finished run.
        DataError: if there are no samples to learn from or to calibrate on.
    """
    from labeltree.inference.calibrate_run import calibrate_run

    return calibrate_run(options)


@takes(ExportOptions)
def export(options: ExportOptions) -> Path:
    """Write a trained run as one folder for others: ONNX, weights, labels, and a model card.

    Returns:
        the folder.

    Raises:
        RunError: if the folder is not a finished run, or ``out`` exists.
    """
    model = load(
        options.run,
        classifier=options.classifier,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        device="cpu",
    )
    return model.export(
        options.out,
        options.formats,
        name=options.name,
        with_reference=options.with_reference,
        replace=options.replace,
    )


@takes(ExtendOptions)
def extend(options: ExtendOptions) -> Extension:
    """Let a trained run answer with new classes, from a few samples and without training, or without some.

    `load` gives the extended model from then on; `labeltree.inference.extend.undo_extension` takes it back.

    Raises:
        LabeltreeError: see `labeltree.inference.extend.extend_run`.
    """
    from labeltree.inference.extend import extend_run

    return extend_run(options)


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> Evaluated:
    """Evaluate a run, or any embeddings, and write ``metrics.json`` and ``report.html``.

    For a table in memory, `labeltree.evaluation.evaluate` computes the same and writes nothing.

    Raises:
        LabeltreeError: if the run, the table or the taxonomy is missing, unreadable or invalid.
        ValueError: if the value of a setting is not allowed, or an option does not go with the input.
    """
    subject = _subject(options)
    options.require_fit(subject, options.place)
    if subject == "embeddings":
        from labeltree.report.evaluate_and_report import evaluate_embeddings as measure
    elif subject == "other data":
        from labeltree.report.evaluate_other_data import evaluate_on_data as measure
    elif subject == "folds":
        from labeltree.report.cross_validation import evaluate_folds as measure
    else:
        from labeltree.report.evaluate_and_report import evaluate_run as measure
    return measure(options)


def _subject(options: EvaluateOptions) -> Subject:
    """What an evaluation is of, as the disk says."""
    path = options.place
    if options.embeddings is not None and not (path.is_file() or PartFolder(path).exists()):
        raise options.refusal(f"`embeddings`: there is no file '{path}'")
    table = path.suffix in (".npz", ".parquet") and not path.is_dir()
    if path.is_file() or table or PartFolder(path).exists():
        return "embeddings"
    if options.data is not None:
        return "other data"
    return "folds" if RunFolder(path).folds.is_file() else "run"


def suspects(
    what: str | Path | RunFolder,
    taxonomy: str | Path | None = None,
    *,
    within: str | None = None,
    split: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    verify: bool = False,
    **settings: Any,
) -> Suspects:
    """Find the labels of a run, an index or embeddings that look wrong, as ``labeltree suspects`` does.

    Args:
        what: a run folder, an index (its folder or URL), or a file of embeddings with labels.
        taxonomy: taxonomy file of embeddings; None = the one that ``labeltree embed`` has written beside. A
            run and an index have their own.
        within: name or path of a node: only labels at or below it are listed.
        split: only samples of this split are listed; all are learned from.
        out: a new ``.csv`` file for a person to decide in, which ``corrections`` of `train` and `evaluate`
            read; a ``.json`` file is written beside it. None = nothing is written.
        progress: called as ``progress(message, done, total)``.
        verify: read all files of a run's samples again.
        **settings: ``ranking``, ``k``, ``folds``, ``fewest``, ``least_score`` and ``seed``; see
            `labeltree.curation.suspects.find_suspects`.

    Returns:
        the suspects, most suspicious first: ``found``, the ``scores`` of all samples, and how many labels are
        ``expected`` to be wrong.

    Raises:
        LabeltreeError: if there is nothing of the kind, it cannot be read, or somebody has decided in
            ``out``.
        TaxonomyError: if there is no such node.
        ValueError: if a setting is out of range, or ``out`` does not end in ``.csv``.
    """
    from labeltree.curation.suspects import check_free, find_suspects, write_suspects
    from labeltree.index.opened_tables import open_table

    where = what.path if isinstance(what, RunFolder) else what
    if out is not None:
        check_free(out)  # before samples are embedded
    table = open_table(where, taxonomy=taxonomy, progress=progress, verify=verify)
    listed = find_suspects(
        table.vectors,
        table.embeddings,
        table.nodes,
        table.tree,
        geometry=table.space,
        ids=table.names,
        paths=None if table.paths is None else table.paths.tolist(),
        contents=None if table.contents is None else table.contents.tolist(),
        groups=table.groups,
        split=table.split,
        only_split=split,
        within=None if within is None else table.tree.find(within),
        progress=progress,
        **settings,
    )
    if out is not None:
        write_suspects(listed, out)
    return listed


def compare(
    methods: Mapping[str, str | Path | Sequence[str | Path]],
    *,
    out: str | Path = "comparison",
    report: str | Path | None = None,
    title: str | None = None,
    taxonomy: str | Path | None = None,
    mapping: Mapping[str, str | Path] | None = None,
    **options: Any,
) -> Compared:
    """Compare evaluated runs, or embeddings tables, on the samples that they have in common.

    Writes ``comparison.json``, ``comparison.md``, ``comparison.csv`` and the page ``comparison.html``.

    Args:
        methods: maps the name of each method to its run, or to its runs with different seeds; the first
            method is the baseline.
        out: the folder that the files are written to.
        report: file that the page is written to, instead of ``comparison.html`` in ``out``.
        title: title of the page.
        taxonomy: taxonomy file to compare on, that of the labels of embeddings tables. Runs on another one
            are evaluated on it first, into ``RUN/on-NAME``, as `evaluate` does.
        mapping: maps a run to the file that says what became of the nodes of its taxonomy; for other runs,
            what is certain is used.
        **options: options of `labeltree.evaluation.comparing.compare_runs.compare_paths`, such as
            ``metrics=["top1"]``
            or ``baseline="SupCon"``.

    Raises:
        RunError: if a run was not evaluated.
        DataError: if the runs cannot be compared.
        ValueError: if a mapping is of no run that is compared, or there is no taxonomy that it leads to.
    """
    from labeltree.evaluation.comparing.compare_runs import compare_paths
    from labeltree.report import write_comparison_page

    listed = {name: [runs] if isinstance(runs, str | Path) else list(runs) for name, runs in methods.items()}
    listed = _runs_on(listed, taxonomy, mapping or {}, options)
    folder = RunFolder(out)
    with folder.locked():
        done = compare_paths(listed, out=out, taxonomy=taxonomy, **options)
        write_comparison_page(done.result, report or folder.comparison_page, done.results, title=title)
    return done


def _runs_on(
    methods: Mapping[str, Sequence[str | Path]],
    taxonomy: str | Path | None,
    mapping: Mapping[str, str | Path],
    options: Mapping[str, Any],
) -> dict[str, list[str | Path]]:
    """The evaluations of methods on one taxonomy: runs on another one are evaluated on it."""
    from labeltree.report.evaluate_and_report import evaluate_run
    from labeltree.taxonomy import load_taxonomy
    from labeltree.taxonomy.versions.between_versions import check_version

    files = {Path(run).resolve(): file for run, file in mapping.items()}
    unknown = set(files) - {Path(path).resolve() for paths in methods.values() for path in paths}
    if unknown:
        raise ValueError(f"there is a mapping of '{min(unknown)}', which is not compared")
    if taxonomy is None:
        check_version(taxonomy, mapping or None)
        return {name: list(paths) for name, paths in methods.items()}
    judge = load_taxonomy(taxonomy)
    runs_of: dict[str, list[str | Path]] = {}
    for name, paths in methods.items():
        runs_of[name] = []
        for path in paths:
            run, file = RunFolder(path), files.get(Path(path).resolve())
            if not run.encoder.is_file():  # a table, or an evaluation without its run
                if file is not None:
                    raise ValueError(f"there is a mapping of '{path}', which is no run")
                runs_of[name].append(path)
                continue
            if file is None and run.load_taxonomy() == judge and run.outcomes.is_file():
                runs_of[name].append(path)
                continue
            done = evaluate_run(
                EvaluateOptions(
                    run,
                    taxonomy,
                    mapping=file,
                    split=options.get("split", "test"),
                    progress=options.get("progress"),
                )
            )
            runs_of[name].append(done.metrics.parent)
    return runs_of
