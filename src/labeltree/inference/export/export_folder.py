"""`labeltree export`: a trained run as one folder that others can use, with labeltree and without."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from labeltree.cache import new_folder
from labeltree.checks import check_choice
from labeltree.decisions.rule import rule_to_dict
from labeltree.errors import RunError, typed
from labeltree.inference.decider import Decider
from labeltree.inference.export.card import model_card
from labeltree.inference.export.export_labels import labels, preprocessing, script, tokenizer_text
from labeltree.inference.export.graph_files import need_onnx, write_onnx, write_program
from labeltree.inference.model_facts import CONFIG, EXPORT_FORMAT, EXPORT_VERSION, Facts, model_facts
from labeltree.inference.public_settings import EXPORTED, public_description, public_encoder, public_json
from labeltree.inference.reference import save_unordered
from labeltree.inference.run_classifiers import run_classifiers, save_classifiers
from labeltree.options.choices import ExportFormat
from labeltree.options.model_options import ExportOptions
from labeltree.options.schema import describes
from labeltree.runs import RunFolder
from labeltree.runs.run_folder import plain_json

__all__ = ["FORMATS", "check_target", "export_model", "is_exported"]

_log = logging.getLogger("labeltree.inference")
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


@describes(ExportOptions)
def export_model(
    decider: Decider,
    out: str | Path,
    formats: Sequence[ExportFormat] = ("onnx", "safetensors"),
    *,
    name: str | None = None,
    with_reference: bool = False,
    replace: bool = False,
) -> Path:
    """Write a run as a folder that needs neither its data nor, with ONNX, labeltree.

    The folder appears as a whole or not at all.

    Args:
        decider: The run with its classifier and decision rule.
        out: The folder.

    Returns:
        The folder.

    Raises:
        ValueError: If a format is unknown, none is given, or the reference samples are asked for without
            safetensors.
        RunError: If the folder exists, if the run needs files that are missing, or if a part of it cannot be
            exported.
        ImportError: If a format needs a library that is missing.
    """
    target = Path(out)
    _check_formats(formats, with_reference)
    check_target(target, replace)
    if "onnx" in formats:
        need_onnx()
    if decider.run.network.encoder.modality == "both":
        raise RunError(
            "a run on images and texts cannot be exported yet, because an exported model has one encoder; "
            "the run folder itself answers without its data"
        )
    facts = model_facts(decider.run, decider, public=True)
    with new_folder(target) as folder:
        if "safetensors" in formats:
            _write_run(decider, folder, with_reference)
        if "onnx" in formats:
            _write_graph(decider, folder)
        if "torch" in formats:
            write_program(decider, folder / "model.pt2")
        config = _config(decider, facts, formats)
        _write(folder / CONFIG, config)
        (folder / "README.md").write_text(
            model_card(facts, config, name or target.resolve().name, formats), "utf-8"
        )
    if not with_reference and decider.novelty is not None:
        _log.warning(
            "the exported model cannot tell samples of unknown classes, as the run can: it names them like "
            "known ones. Nor can it answer for groups (--per), test for drift, or be calibrated again. With "
            "--with-reference (embeddings of samples, without names) it can, in labeltree"
        )
    return target


def _check_formats(formats: Sequence[str], with_reference: bool) -> None:
    for form in formats:
        check_choice("format", form, FORMATS)
    if not formats:
        raise ValueError(f"no format is named; choose among {', '.join(FORMATS)}")
    if with_reference and "safetensors" not in formats:
        raise ValueError("the reference samples go with the format 'safetensors'; name it, too")


def check_target(target: Path, replace: bool) -> None:
    """Raise a RunError if there is a folder, unless it is empty or an exported model that may be replaced."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not is_exported(target):
        raise RunError(f"'{target}' exists and holds no exported model; name another folder")
    if not replace:
        raise RunError(f"'{target}' holds an exported model already; name another folder, or --replace it")


def is_exported(folder: Path) -> bool:
    """Whether a folder holds an exported model, by its `config.json`."""
    try:
        content = json.loads((folder / CONFIG).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == EXPORT_FORMAT


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(plain_json(content), indent=1, ensure_ascii=False) + "\n", "utf-8")


def _write_graph(decider: Decider, folder: Path) -> None:
    network = decider.run.network
    _write(folder / "labels.json", labels(decider))
    _write(folder / "preprocess.json", preprocessing(network, decider.run.columns.get("vectors", ())))
    tokenizer = tokenizer_text(network)
    if tokenizer is not None:
        (folder / "tokenizer.json").write_text(tokenizer, "utf-8")
    (folder / "predict.py").write_text(script(network), "utf-8")
    write_onnx(decider, folder / "model.onnx")


def _write_run(decider: Decider, folder: Path, with_reference: bool) -> None:
    """The files of the run that `load_run` and `open_decider` read, without what names its samples."""
    run, new = decider.run.folder, RunFolder(folder)
    if not run.description.is_file():
        raise RunError(
            f"run '{run.path}' was trained by a version before 0.1.0 and has no {run.description.name}; "
            f"'labeltree calibrate {typed(run.path)}' completes it"
        )
    public_description(decider.run.description).save(new.description)
    decider.run.taxonomy.save(new.taxonomy)
    copied: list[Callable[[RunFolder], Path]] = [lambda one: one.encoder, lambda one: one.word_vectors]
    if decider.run.base is None:
        copied += [
            lambda one: one.training_taxonomy,
            lambda one: one.classifier,
            lambda one: one.chosen_classifier,
        ]
    for place in copied:
        if place(run).is_file():
            shutil.copyfile(place(run), place(new))
    if decider.run.base is not None:
        assert decider.run.training_taxonomy is not None
        decider.run.training_taxonomy.save(new.training_taxonomy)
        save_classifiers(
            decider.run,
            run_classifiers(decider.run.base),
            decider.chosen,
            decider.record["merging_temperatures"],
            new,
        )
    if with_reference:
        save_unordered(decider.run, new)
    if run.encoder_config.is_dir():
        _copy_config(run.encoder_config, new.encoder_config)
    record = {**decider.record, **rule_to_dict(decider.rule)}
    if record.get("calibrated_on") != "validation samples":
        record["calibrated_on"] = EXPORTED
    new.write_json(new.decisions, record)


def _copy_config(config: Path, target: Path) -> None:
    for file in sorted(file for file in config.rglob("*") if file.is_file()):
        place = target / file.relative_to(config)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".json":
            place.write_text(public_json(file.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(file, place)


def _config(decider: Decider, facts: Facts, formats: Sequence[str]) -> dict[str, Any]:
    """`config.json` in the manner of Hugging Face: names of the classes, and the facts of the model."""
    taxonomy, classes = decider.run.taxonomy, decider.rule.classes.nodes.tolist()
    names = {str(place): taxonomy.path_name(node) for place, node in enumerate(classes)}
    return {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "model_type": "labeltree",
        "objective": decider.run.recipe.objective,
        "encoder": public_encoder(decider.run.recipe.encoder),
        "image_size": None if decider.run.network.image_shape is None else decider.run.network.image_shape[1],
        "num_labels": len(classes),
        "id2label": names,
        "label2id": {name: int(place) for place, name in names.items()},
        "formats": list(formats),
        "facts": facts,
    }
