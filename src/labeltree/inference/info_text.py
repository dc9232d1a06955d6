"""The facts of a model on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeltree.counted_nouns import say_count
from labeltree.decisions.promise_samples import say_unpromised
from labeltree.errors import typed
from labeltree.inference.model_facts import CONFIG, Facts, what_it_reads
from labeltree.metrics.catalogue import metric_name
from labeltree.runs import RunFolder

__all__ = ["file_sizes", "info_text", "number_name", "number_text", "size_text", "threshold_text"]

_WIDTH = 100
_NAME = 13
_MOST_FILES = 8


def info_text(facts: Facts, folder: Path) -> str:
    """At most 40 lines of 100 columns: what a model is, how it came about, how good and how large it is."""
    lines = [line for title, text in _parts(facts, folder) for line in _lines(title, text)]
    return "\n".join(lines) + "\n"


def _lines(title: str, text: str) -> list[str]:
    head, rest = f"{title:<{_NAME}}", " " * _NAME
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=rest, max_lines=3, placeholder=" …"
    )


def _parts(facts: Facts, folder: Path) -> list[tuple[str, str]]:
    model, digests = facts["model"], facts["digests"]
    shape, reads = model["image_shape"], what_it_reads(model, "x")
    reads += "" if shape is None else f", {shape[0]} channel(s)"
    tree = facts["taxonomy"]
    parts = [
        ("model", f"{folder}: {model['objective']} with encoder {model['encoder']}, reads {reads}"),
        *([("encoder", model["sentence"])] if model.get("sentence") else []),
        (
            "size",
            f"{model['parameters']:,} parameters ({model['encoder_parameters']:,} of the encoder), features "
            f"of {model['features']}, embeddings of {model['embeddings']} dimensions ({model['geometry']})",
        ),
        ("taxonomy", f"{tree['nodes']:,} nodes, {tree['leaves']:,} leaves, depth {tree['depth']}"),
        *_extension_parts(facts.get("extension"), folder),
        *_data_parts(facts["data"]),
        *_training_parts(facts["training"]),
    ]
    if facts["classifier"] is None:
        parts.append(("answers", f"none yet: 'labeltree calibrate {typed(folder)}' fits how it answers"))
    else:
        parts += [("answers", facts["classifier"]["sentence"]), *_calibration_parts(facts["calibration"])]
    parts += _metric_parts(facts, folder)
    parts += [("digests", f"{name} {digest[:16]}") for name, digest in digests.items()]
    parts += [("files", text) for text in file_sizes(folder)]
    return [
        ("" if place and parts[place - 1][0] == title else title, text)
        for place, (title, text) in enumerate(parts)
    ]


def _extension_parts(extension: Facts | None, folder: Path) -> list[tuple[str, str]]:
    if extension is None:
        return []
    added, retired = extension["added"], extension["retired"]
    text = f"{say_count(extension['number'], 'extension')} after the training: "
    text += say_count(len(added), "new class", "new classes")
    text += f" ({', '.join(added)})" if added else ""
    text += f", {len(retired):,} retired" if retired else ""
    if RunFolder(folder).extensions:
        text += f"; 'labeltree extend {typed(folder)}' tells more, --undo removes the last one"
    return [("extension", text)]


def _data_parts(data: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if data is None:
        return [("data", "not recorded")]
    place = f" ({data['place']})" if data.get("place") and data["place"] != data["name"] else ""
    splits = "; ".join(
        f"{name} {split['samples']:,} samples of {split['classes']:,} classes"
        + (f" in {split['groups']:,} groups" if split.get("groups") else "")
        for name, split in data["splits"].items()
    )
    return [("data", f"{data['name']}{place}"), ("splits", splits or "not recorded")]


def _training_parts(training: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if training is None:
        return [("training", "not recorded")]
    known = [
        say_count(training["epochs"], "epoch") if training["epochs"] else "",
        f"best {training['best_epoch'] + 1}" if training["best_epoch"] is not None else "",
        f"{training['seconds']:,.0f} s" if training["seconds"] is not None else "",
        f"began {training['began']}" if training["began"] else "",
        f"on {training['device']}" if training["device"] else "",
        f"precision {training['precision']}" if training["precision"] else "",
    ]
    versions = ", ".join(f"{name} {value}" for name, value in training["versions"].items())
    return [
        ("training", ", ".join(filter(None, known)) or "not recorded"),
        ("versions", versions or "not recorded"),
    ]


def _calibration_parts(calibration: Mapping[str, Any]) -> list[tuple[str, str]]:
    groups = "" if calibration["groups"] is None else f" in {calibration['groups']:,} groups"
    bars = ", ".join(
        f"{float(coverage):.0%}: " + threshold_text(value, "too few samples", 4)
        for coverage, value in calibration["thresholds"].items()
    )
    return [
        (
            "calibration",
            f"{calibration['kind']}, path by {calibration['descent']}, thresholds from "
            f"{calibration['samples']:,} samples{groups} ({calibration['on']})",
        ),
        ("thresholds", f"a node is answered if it is more probable than, by coverage, {bars}"),
        *([("warning", calibration["warning"])] if calibration.get("warning") else []),
        *([("promises", calibration["rests_on"])] if calibration.get("rests_on") else []),
        *([("promises", say_unpromised(names))] if (names := calibration.get("unpromised")) else []),
    ]


def _metric_parts(facts: Facts, folder: Path) -> list[tuple[str, str]]:
    metrics = facts["metrics"]
    if metrics is None:
        here = " on this version of the taxonomy" if facts.get("metrics_before") is not None else ""
        return [("metrics", f"not evaluated{here}: {_how_to_measure(facts, folder)}")]
    head = (
        f"{metrics['samples']:,} samples of split {metrics['split']}, classifier {metrics['classifier']}, "
        f"{metrics['confidence']:.0%} intervals"
    )
    rows = [f"{number_name(number)} {number_text(number)}" for number in metrics["numbers"]]
    depths = ", ".join("–" if value is None else f"{value:.3f}" for value in metrics["by_depth"])
    return [
        ("metrics", head),
        ("metrics", "; ".join(rows)),
        *([("metrics", f"accuracy at depth 1, 2, …: {depths}")] if depths else []),
    ]


def _how_to_measure(facts: Facts, folder: Path) -> str:
    """The command that measures a model: without its run, or with an extension, on other samples."""
    exported, here = (folder / CONFIG).is_file(), typed(folder)
    if not exported and not facts.get("extension"):
        return f"'labeltree evaluate {here}' measures it on its test samples"
    how = f"'labeltree predict {here} --data DATA --labelled'"
    if not exported or RunFolder(folder).reference.is_file():
        how = f"'labeltree evaluate {here} --data DATA'"
    how += " measures it on labelled samples that it has not seen"
    if facts.get("extension"):
        return f"{how}; 'labeltree evaluate' on its test samples measures the run without the extension"
    return f"{how}, and 'labeltree evaluate' on its run, before the export, puts numbers here"


def threshold_text(value: float | None, missing: str, digits: int) -> str:
    """A threshold of the answers; `missing` if there is none, and in words if no answer can be coarser."""
    if value is None:
        return missing
    return f"{value:.{digits}f}" if value > 0 else "0 (no answer is coarser than a class)"


def number_name(number: Mapping[str, Any]) -> str:
    """The name of a number of the evaluation; exports of earlier versions have but a title of it."""
    return metric_name(number["metric"]) if "metric" in number else str(number["name"])


def number_text(number: Mapping[str, Any]) -> str:
    """A number with its interval; a number that is not defined says so."""
    if number["value"] is None:
        return "not defined for these samples"
    ends = "" if number["low"] is None else f" [{number['low']:.3f}, {number['high']:.3f}]"
    return f"{number['value']:.3f}{ends}"


def file_sizes(folder: Path) -> list[str]:
    """The largest files of a folder with their sizes, and the size of all together, as a few texts."""
    sizes = {file.relative_to(folder): file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    largest = sorted(sizes, key=lambda file: (-sizes[file], str(file)))
    named = ", ".join(f"{file} {size_text(sizes[file])}" for file in largest[:_MOST_FILES])
    rest = f" and {len(sizes) - _MOST_FILES} more" if len(sizes) > _MOST_FILES else ""
    return [f"{size_text(sum(sizes.values()))} in {len(sizes)} files: {named}{rest}"]


def size_text(size: int) -> str:
    """A number of bytes: `640 kB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
