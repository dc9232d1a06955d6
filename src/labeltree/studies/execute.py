"""Running a study: trials chosen on validation, then every seed; what is done already is not done again."""

from __future__ import annotations

import gc
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.evaluation import evaluate
from labeltree.models import encoder_modality
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.studies.plan import Method, Study, read_study, slug
from labeltree.studies.table import study_table
from labeltree.training.baselines import RAW_NAMES, raw_table, start_name
from labeltree.training.checkpoints import best_row
from labeltree.training.embed import embed_source, load_run
from labeltree.training.fit import train
from labeltree.training.reading import read_recipe
from labeltree.training.settled import settle
from labeltree.training.trainee import open_recipe_source, prepare

__all__ = ["execute"]


def execute(path: str | Path, *, progress_bar: bool = False) -> Path:
    """Do all runs of a study that are not done yet, and write its table beside its file.

    Runs go to ``runs/`` beside the study file, one folder each; their test results to ``results.json``, the
    table to ``README.md``. Test samples are looked at once a run, after every choice is made.

    Returns:
        The path of the table.
    """
    path = Path(path)
    study = read_study(path)
    runs = path.parent / "runs"
    results: list[dict[str, Any]] = []
    choices: dict[str, Any] = {}
    for method in study.methods:
        best = 0
        if len(method.trials) > 1:
            values = [
                _trial(study, method, trial, number, runs, progress_bar)
                for number, trial in enumerate(method.trials)
            ]
            best = max(range(len(values)), key=values.__getitem__)
            pairs = zip(method.trials, values, strict=True)
            choices[method.name] = {
                "trials": [{"settings": settings, study.select: value} for settings, value in pairs],
                "chosen": best,
            }
        for seed in study.seeds:
            recipe = study.recipe(method, method.trials[best], seed)
            # The chosen trial is the run of its seed; nothing is trained twice.
            tried = len(method.trials) > 1 and seed == study.trial_seed
            name = study.run_name(method, f"trial{best}" if tried else f"seed{seed}")
            folder = train(recipe, runs / name, progress_bar=progress_bar)
            results.append({"method": method.name, "seed": seed, **_evaluated(study, folder)})
            _let_go(folder)
            _write(path, study, results, choices)
    results += _baselines(study, runs)
    return _write(path, study, results, choices)


def _trial(
    study: Study, method: Method, trial: dict[str, Any], number: int, runs: Path, progress_bar: bool
) -> float:
    """The best validation value of one trial."""
    recipe = study.recipe(method, trial, study.trial_seed)
    folder = train(recipe, runs / study.run_name(method, f"trial{number}"), progress_bar=progress_bar)
    _let_go(folder)
    value = best_row(folder.read_history(), study.select)[study.select]
    print(f"{method.name}, trial {number} {trial}: {study.select} {value:.4f}", flush=True)
    return value


def _let_go(folder: RunFolder) -> None:
    """Free what a finished run held, on disk and in memory: hundreds of training states would fill a disk.

    A trainer and its module refer to each other. Python looks for such circles among old objects only when a
    quarter as many new ones have come, which takes many runs; each keeps its weights and a mapping of all
    images till then.
    """
    folder.drop_checkpoints()
    gc.collect()


def _evaluated(study: Study, folder: RunFolder) -> dict[str, Any]:
    """The test metrics of a finished run; computed once."""
    metrics = folder.metrics
    if not metrics.is_file() or metrics.stat().st_mtime < folder.encoder.stat().st_mtime:
        trainee = load_run(folder.path)
        table = embed_source(trainee.module, trainee.source, trainee.labels)
        result = evaluate(table, trainee.source.taxonomy, settings=study.evaluation_settings)
        folder.write_json(folder.metrics, result.to_dict())
        print(f"{folder.path.name}: evaluated", flush=True)
    history = folder.read_history()
    return {
        "scores": _scores(folder),
        "train_seconds": round(sum(row["seconds"] for row in history), 1),
        "train_loss": [row["train_loss"] for row in history],
    }


def _scores(folder: RunFolder) -> dict[str, float | None]:
    """Metric values by ``role/metric``, and the accuracies by ``protocol/accuracy at depth d``."""
    (method,) = json.loads(folder.metrics.read_text("utf-8"))["methods"].values()
    scores = {f"{role}/{name}": v for role, part in method["scores"].items() for name, v in part.items()}
    for protocol, values in method["by_depth"].items():
        scores |= {f"{protocol}/accuracy at depth {d}": v for d, v in enumerate(values, 1)}
    return scores


def _baselines(study: Study, runs: Path) -> list[dict[str, Any]]:
    """The raw samples (the seed is the split's alone) and the encoder before training, for every seed.

    What is the same for several seeds, as with fixed splits and published weights, is measured once.
    """
    rows, measured = [], dict[str, dict[str, Any]]()
    for seed in study.seeds if study.baselines else ():
        recipe = study.recipe(study.methods[0], study.methods[0].trials[0], seed)
        source = open_recipe_source(recipe)
        settled = settle(recipe, source)
        modality = encoder_modality(settled.encoder)
        names = {"raw": RAW_NAMES[modality], "start": start_name(settled)}
        for kind in study.baselines:
            name = names[kind]
            folder = RunFolder(runs / f"{slug(name)}-seed{seed}")
            known = read_recipe(folder.recipe) if folder.recipe.is_file() else None
            if not folder.metrics.is_file() or known != recipe:
                if kind == "raw":
                    table = raw_table(source, modality)
                else:
                    table = embed_source(prepare(recipe, source).module, source, adapted=False)
                key = _digest(table)
                if key not in measured:
                    result = evaluate(table, source.taxonomy, settings=study.evaluation_settings)
                    measured[key] = result.to_dict()
                folder.write_json(folder.metrics, measured[key])
                recipe.save(folder.recipe)
            rows.append({"method": name, "seed": seed, "scores": _scores(folder)})
    return rows


def _digest(table: EmbeddingTable) -> str:
    """Of everything that an evaluation reads of a table of samples without an objective."""
    digest = hashlib.sha256("".join(np.asarray(table.split, dtype=str).tolist()).encode())
    for column in (table.embeddings, table.features, table.nodes, table.aspects):
        if column is not None:
            digest.update(column.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _write(path: Path, study: Study, results: list[dict[str, Any]], choices: dict[str, Any]) -> Path:
    with atomic_write(path.parent / "results.json") as temporary:
        temporary.write_text(json.dumps({"results": results, "choices": choices}, indent=1) + "\n", "utf-8")
    table = path.parent / "README.md"
    with atomic_write(table) as temporary:
        temporary.write_text(study_table(path, study, results, choices), "utf-8")
    return table
