"""What is known of a model: data, training, classifier, calibration and metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labeltree.decisions.conformal import Promise, samples_needed
from labeltree.errors import DataError, LabeltreeError
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.public_settings import public_data, public_encoder
from labeltree.runs import RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.split_names import CALIB
from labeltree.training.recipe import what_is_trained

__all__ = [
    "CONFIG",
    "COVERAGES",
    "EXPORT_FORMAT",
    "EXPORT_VERSION",
    "Facts",
    "folder_facts",
    "model_facts",
    "model_sentence",
]

Facts = dict[str, Any]

CONFIG = "config.json"
EXPORT_FORMAT = "labeltree export"
EXPORT_VERSION = 1
COVERAGES = (0.8, 0.9, 0.95, 0.99)

_METRICS = {  # of the classifier that answers, then of embeddings without one
    "top1": "top-1",
    "hierarchical_f1": "hierarchical F1",
    "tree_accuracy": "tree accuracy",
}
_RETRIEVAL = {"recall_at_1": "recall@1", "map_at_r": "MAP@R"}  # of the space that is searched
_KEPT = (
    "data",
    "training",
    "metrics",
    "metrics_before",
    "extension",
)  # what an exported model knows from its run alone
_LIBRARIES = ("python", "labeltree", "torch", "torchvision", "lightning", "timm", "numpy")


def folder_facts(path: str | Path) -> Facts:
    """The facts of the run or exported model in a folder; nothing is calibrated or changed.

    Raises:
        RunError: If the folder holds no finished run.
    """
    run = load_run(path, own_data=False, device="cpu")
    decider = open_decider(run) if run.folder.decisions.is_file() else None
    return model_facts(run, decider)


def model_facts(run: TrainedRun, decider: Decider | None, *, public: bool = False) -> Facts:
    """The facts of a model as plain values.

    Args:
        run: The run, or the exported model.
        decider: Its classifier and decision rule; None if it does not answer yet.
        public: Leave out what does not leave with an export: the name and place of the user's own data.
    """
    network, taxonomy, recipe = run.network, run.taxonomy, run.recipe
    kept = _kept(run.folder.home)
    facts: Facts = {
        "model": {
            "objective": recipe.objective,
            "encoder": recipe.encoder,
            "reads": network.encoder.modality,
            "image_shape": network.image_shape,
            **(
                {
                    "vector_width": network.encoder.without_adapter.feature_dim,
                    "vector_columns": list(run.columns.get("vectors", ())),
                }
                if network.modality == "vector"
                else {}
            ),
            "cut": None if network.preprocessing is None else str(network.preprocessing),
            "trained": what_is_trained(recipe),
            "sentence": model_sentence(run),
            "parameters": sum(p.numel() for p in network.parameters()),
            "encoder_parameters": sum(p.numel() for p in network.encoder.parameters()),
            "features": network.encoder.feature_dim,
            "embeddings": network.objective.dim,
            "geometry": network.objective.geometry.name,
        },
        "data": _data(run.folder.home, recipe.data) if kept is None else kept.get("data"),
        "training": _training(run) if kept is None else kept.get("training"),
        "metrics": _metrics(run, kept),
        "metrics_before": _metrics_before(run, kept),
        "classifier": None,
        "calibration": None,
        "taxonomy": {
            "nodes": taxonomy.num_nodes,
            "leaves": len(taxonomy.leaves),
            "depth": taxonomy.max_depth,
        },
        "digests": {"weights": run.weights_digest, "taxonomy": taxonomy.digest},
        "labeltree": version("labeltree"),
        "extension": _extension(run.folder, kept),
    }
    if decider is not None:
        facts["classifier"] = {"name": decider.chosen.name, "sentence": decider.chosen.sentence}
        facts["calibration"] = _calibration(decider, public=public)
        facts["digests"]["model"] = decider.digest
        if isinstance(decider.record.get("mapping"), str):
            facts["digests"]["mapping"] = decider.record["mapping"]
    if public:
        facts["model"]["encoder"] = public_encoder(recipe.encoder)
        del facts["model"]["sentence"]  # it names the encoder as the user has it
        if facts["data"] is not None:
            facts["data"] = {**facts["data"], "name": public_data(recipe.data), "place": None}
    return facts


def model_sentence(run: TrainedRun) -> str:
    """The encoder of a run, what it reads, what of it was trained, and why it was chosen, if it was."""
    network = run.network
    shape, how = network.image_shape, network.preprocessing
    reads = "" if shape is None else f" at {shape[1]} × {shape[2]} pixels"
    cut = "" if how is None else f" ({how})"
    notes = (_read(run.folder.home.data) or {}).get("notes")
    chosen = [note for note in notes or () if isinstance(note, str) and note.startswith("encoder: ")]
    why = chosen[0].partition(": ")[2].partition(": ")[2].partition("; change it")[0] if chosen else ""
    return f"The encoder is {run.recipe.encoder}{reads}{cut}; trained: {what_is_trained(run.recipe)}." + (
        f" It was chosen because {why}." if why else ""
    )


def what_it_reads(model: Mapping[str, Any], times: str = "×") -> str:
    """What a model reads, by its facts `model`, in words."""
    shape = model["image_shape"]
    if shape is not None:
        return f"images of {shape[1]} {times} {shape[2]} pixels"
    return f"vectors of {model['vector_width']:,} numbers" if "vector_width" in model else "texts"


def _kept(folder: RunFolder) -> Facts | None:
    """The facts that an exported model brought from its run; None for a run."""
    file = folder.path / CONFIG
    if not file.is_file():
        return None
    content = read_json(file, Reader("the configuration of an exported model", "export it again"))
    facts = content.get("facts")
    return {name: facts.get(name) for name in _KEPT} if isinstance(facts, dict) else {}


def _extension(folder: RunFolder, kept: Facts | None) -> Facts | None:
    """What extensions added and retired, up to the one that answers; None for a run without one.

    Those of a run that was exported are in `kept`; the exported model may have been extended, too.
    """
    before = (kept or {}).get("extension")
    number, added, retired = 0, list[str](), list[str]()
    if before is not None:
        number, added, retired = before["number"], [*before["added"]], [*before["retired"]]
    for each in folder.home.extensions if folder.home.path != folder.path else ():
        record = _read(each.extension) or {}
        gone = record.get("retired", [])
        added = [name for name in added if name not in gone]
        retired += [name for name in gone if name not in retired]
        for name in (one["class"] for one in record.get("added", ()) if one.get("new")):
            added += [name] if name not in added else []
            retired = [other for other in retired if other != name]
        number += 1
    return {"number": number, "added": added, "retired": retired} if number else None


def _read(file: Path) -> dict[str, Any] | None:
    """A JSON file of a run that is for information only: None if it is missing or damaged."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _data(folder: RunFolder, place: str) -> Facts | None:
    content = folder.read_summary()
    if not content:
        return None
    splits = content.get("splits")
    split_facts = {
        name: {key: split.get(key) for key in ("samples", "classes", "groups")}
        for name, split in (splits.items() if isinstance(splits, dict) else ())
    }
    return {"name": content.get("name"), "place": place, "splits": split_facts}


def _training(run: TrainedRun) -> Facts:
    folder = run.folder.home
    sessions = folder.read_versions()
    last = sessions[-1] if sessions else {}
    try:
        history = folder.read_history()
    except LabeltreeError:
        history = []
    return {
        "epochs": len({int(row["epoch"]) for row in history}) or None,
        "best_epoch": _best_epoch(folder),
        "seconds": sum(row.get("seconds", 0.0) for row in history) if history else None,
        "began": sessions[0].get("began") if sessions else None,
        "device": last.get("device"),
        "devices": last.get("devices"),
        "precision": last.get("precision"),
        "versions": {name: last[name] for name in _LIBRARIES if name in last},
    }


def _best_epoch(folder: RunFolder) -> int | None:
    """The epoch whose weights were chosen, counted from 0."""
    from safetensors import safe_open

    try:
        with safe_open(folder.encoder, framework="numpy") as file:
            return int((file.metadata() or {})["epoch"])
    except (OSError, KeyError, ValueError):
        return None


def _calibration(decider: Decider, *, public: bool) -> Facts:
    rule, record = decider.rule, decider.record
    thresholds = {}
    for coverage in COVERAGES:
        promise = Promise(coverage)
        enough = rule.fitted.num_groups >= samples_needed(promise)
        thresholds[f"{coverage:g}"] = float(rule.bars(promise)[0]) if enough else None
    on = str(record.get("calibrated_on", "validation samples"))
    if public and on != "validation samples":
        on = "other samples"
    if record.get("set_aside") is True:
        on = f"samples of the split {CALIB}"
    check = record.get("calibration_check")
    return {
        "kind": rule.calibrator.kind,
        "descent": rule.descent,
        "on": on,
        "samples": len(rule.fitted),
        "groups": None if rule.fitted.groups is None else rule.fitted.num_groups,
        "sentence": check.get("sentence") if isinstance(check, dict) else None,
        "warning": decider.doubt or None,
        "thresholds": thresholds,
        "rests_on": _rests_on(decider, public),
        "unpromised": list(decider.promise_samples.unpromised),
    }


def _rests_on(decider: Decider, public: bool) -> str:
    known = replace(decider.promise_samples, unpromised=())
    return (replace(known, source="") if public else known).sentence


def _metrics(run: TrainedRun, kept: Facts | None) -> Facts | None:
    """The headline numbers of the evaluation in the folder; None if there is none that can be read.

    A run that is seen on another version of its taxonomy has none: those in its folder are of its own. An
    extension has none: those of its run are of the run without it.
    """
    folder = run.folder
    if run.base is not None:
        return None
    if kept is not None:
        return kept.get("metrics") if folder.path == folder.home.path else None
    if not folder.metrics.is_file():
        return None
    from labeltree.evaluation.result import EvaluationResult

    try:
        result = EvaluationResult.from_dict(
            read_json(folder.metrics, Reader("the result of an evaluation", "evaluate again"))
        )
    except DataError:
        return None
    main = result.main
    space = main.classifier.space.name
    numbers = [
        _number(metric, title, main.answer_score(metric), main.answer_interval(metric))
        for metric, title in _METRICS.items()
    ]
    numbers += [
        _number(metric, title, main.score(metric, space), main.interval(metric, space))
        for metric, title in _RETRIEVAL.items()
    ]
    return {
        "split": result.split,
        "samples": main.errors.samples,
        "classifier": main.classifier.name,
        "confidence": result.settings.confidence,
        "numbers": numbers,
        "by_depth": [None if math.isnan(value) else value for value in main.answer_by_depth],
    }


def _metrics_before(run: TrainedRun, kept: Facts | None) -> Facts | None:
    """The headline numbers of the version of the taxonomy that the model was on before; None without one."""
    measured = None if run.base is None else _metrics(run.base, kept)
    return kept.get("metrics_before") if measured is None and kept is not None else measured


def _number(metric: str, title: str, value: float, ends: tuple[float, float]) -> Facts:
    plain = [None if math.isnan(number) else number for number in (value, *ends)]
    return {"metric": metric, "name": title, "value": plain[0], "low": plain[1], "high": plain[2]}
