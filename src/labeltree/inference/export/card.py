"""The model card of an exported model: `README.md` with the front matter that hubs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labeltree.counted_nouns import say_count
from labeltree.decisions.promise_samples import say_unpromised
from labeltree.inference.info_text import number_name, number_text, threshold_text
from labeltree.inference.model_facts import Facts, what_it_reads
from labeltree.inference.public_settings import EXPORTED

__all__ = ["model_card"]

_TASK = {
    "image": "image-classification",
    "text": "text-classification",
    "vector": "tabular-classification",
}
_MOST_COLUMNS = 40  # of vectors, that are listed
_SAMPLE = {"image": "image.jpg", "text": "a text to classify", "vector": "vector.npy"}
_FILES = {
    "model.onnx": ("onnx", "the graph, from samples to features, embeddings and class log-probabilities"),
    "labels.json": ("onnx", "taxonomy, classes, calibration and thresholds"),
    "preprocess.json": ("onnx", "how a sample becomes an input of the graph"),
    "predict.py": ("onnx", "answers with onnxruntime and numpy"),
    "encoder.safetensors": ("safetensors", "the weights of encoder and head"),
    "model.json": ("safetensors", "the settings that rebuild the network"),
    "taxonomy.json": ("safetensors", "the taxonomy"),
    "classifier.safetensors": ("safetensors", "linear probe and class means"),
    "classifier.json": ("safetensors", "which classifier answers, and why"),
    "decisions.json": ("safetensors", "the calibration, and what thresholds are computed from"),
    "model.pt2": ("torch", "the graph as a program of torch.export"),
}

_LIMITS = (
    "For samples like those it was trained and calibrated on. For samples of another kind (another "
    "camera, site, population or language) neither the metrics nor the coverage hold; calibrate it anew "
    "on labelled samples of that kind: `labeltree calibrate . --data DATA`, then `labeltree export . "
    "--out NEW` for a `predict.py` with that calibration. It knows no class outside its taxonomy, and "
    "answers for a sample of an unknown class as if it were one of its own. Do not use it alone where a "
    "wrong answer does harm."
)


def model_card(facts: Facts, config: Mapping[str, Any], name: str, formats: Sequence[str]) -> str:
    """The card as Markdown.

    Args:
        facts: What is known of the model, without what must not leave.
        config: The content of `config.json`.
        name: Title of the card.
        formats: The formats that were exported.
    """
    parts = [
        _front_matter(facts, formats),
        f"# {name}",
        _summary(facts),
        "## How to use it",
        *_usage(facts, formats),
        "## Training data",
        _data(facts["data"]),
        "## Training",
        _training(facts["training"]),
        *([_extension(facts["extension"])] if facts.get("extension") else []),
        "## Evaluation",
        _evaluation(facts),
        "## Answers and their certainty",
        _certainty(facts),
        "## Intended use and limits",
        _LIMITS,
        "## Classes",
        _classes(config["id2label"]),
        "## Files",
        "\n".join(f"- `{file}`: {what}" for file, (form, what) in _FILES.items() if form in formats)
        + "\n- `config.json`: names of the classes, and the facts of this card",
        "## Origin",
        "\n".join(f"- {kind}: `{digest}`" for kind, digest in facts["digests"].items())
        + f"\n- exported by labeltree {facts['labeltree']}",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(facts: Facts, formats: Sequence[str]) -> str:
    task = _TASK[facts["model"]["reads"]]
    tags = ["labeltree", "taxonomy", "hierarchical-classification", *(["onnx"] if "onnx" in formats else [])]
    listed = "\n".join(f"- {tag}" for tag in tags)
    return (
        f"---\nlibrary_name: labeltree\npipeline_tag: {task}\ntags:\n{listed}\n"
        "# license: name one, such as apache-2.0; that of the data and of pretrained weights counts, too\n---"
    )


def _summary(facts: Facts) -> str:
    model, tree = facts["model"], facts["taxonomy"]
    reads = what_it_reads(model)
    reads += f" ({model['cut']})" if model["cut"] else ""
    return (
        f"Reads {reads} and answers with a node of a taxonomy of {tree['nodes']:,} nodes ({tree['leaves']:,} "
        f"leaves, depth {tree['depth']}): as specific as it is sure. Encoder `{model['encoder']}` "
        f"({model['encoder_parameters']:,} parameters); trained with objective `{model['objective']}`: "
        f"{model['trained']}; "
        f"features have {model['features']}, embeddings {model['embeddings']} dimensions "
        f"(geometry: {model['geometry']})."
    )


def _usage(facts: Facts, formats: Sequence[str]) -> list[str]:
    reads = facts["model"]["reads"]
    sample = _SAMPLE[reads]
    needs = {"text": " tokenizers", "vector": ""}.get(reads, " pillow")
    given = 'data="features.npz"' if reads == "vector" else f'["{sample}"]'
    parts = _columns(facts["model"])
    if "onnx" in formats:
        parts += [
            f"Without labeltree (`pip install onnxruntime numpy{needs}`):",
            f'```console\n$ python predict.py "{sample}" --coverage 0.9\n```',
            f'```python\nfrom predict import predict\n\nprint(predict(["{sample}"], coverage=0.9))\n```',
        ]
    if "safetensors" in formats:
        parts += [
            "With labeltree:",
            f'```python\nimport labeltree as lt\n\nmodel = lt.load(".")\nprint(model.predict({given}, '
            f'coverage=0.9).text("json"))\nvectors = model.embed({given}).embeddings\n```',
        ]
    if "torch" in formats:
        parts += [
            "With PyTorch alone:",
            '```python\nimport torch\n\ngraph = torch.export.load("model.pt2").module()\n'
            "# features, embeddings, log_probabilities = graph(inputs)\n```",
        ]
    return parts


def _columns(model: Mapping[str, Any]) -> list[str]:
    """What the numbers of a vector are, if training read them from columns of a table."""
    names = model.get("vector_columns", ())
    if len(names) < 2:
        return []
    listed = ", ".join(f"`{name}`" for name in names[:_MOST_COLUMNS])
    rest = f" … `{names[-1]}` (all are in `preprocess.json` and `model.json`)" * (len(names) > _MOST_COLUMNS)
    return [
        "A vector holds these numbers, in this order. From a table they are read by these names, wherever "
        f"the columns stand: {listed}{rest}."
    ]


def _data(data: Mapping[str, Any] | None) -> str:
    if data is None:
        return "Not recorded."
    named = "Own data, not named here." if data["name"] == EXPORTED else f"Data set `{data['name']}`."
    rows = ["| split | samples | classes | groups |", "|---|---|---|---|"]
    for name, split in data["splits"].items():
        groups = "–" if split.get("groups") is None else f"{split['groups']:,}"
        rows.append(f"| {name} | {split['samples']:,} | {split['classes']:,} | {groups} |")
    whole = " A group (such as a patient) is never in two splits."
    grouped = any(split.get("groups") is not None for split in data["splits"].values())
    return f"{named}{whole if grouped else ''}\n\n" + "\n".join(rows)


def _training(training: Mapping[str, Any] | None) -> str:
    if training is None:
        return "Not recorded."
    rows = {
        "epochs": training["epochs"],
        "best epoch": None if training["best_epoch"] is None else training["best_epoch"] + 1,
        "seconds": None if training["seconds"] is None else round(training["seconds"]),
        "began": training["began"],
        "device": training["device"],
        "precision": training["precision"],
        "versions": ", ".join(f"{name} {value}" for name, value in training["versions"].items()) or None,
    }
    return "\n".join(
        f"- {name}: {'not recorded' if value is None else value}" for name, value in rows.items()
    )


def _extension(extension: Facts) -> str:
    """What was added to the model and taken away after its training."""
    changes = [
        f"{say_count(len(names), 'class was', 'classes were')} {what}: {_listed(names)}"
        for what, names in (("added", extension["added"]), ("retired", extension["retired"]))
        if names
    ] or ["classes learned from further samples"]
    return (
        "The model was extended after the training, by `labeltree extend`: the encoder stayed as it was, and "
        f"{'; '.join(changes)}. The training data above are those of the training alone."
    )


def _evaluation(facts: Facts) -> str:
    metrics, before = facts["metrics"], facts.get("metrics_before")
    if metrics is None and facts.get("extension"):
        return (
            "This model has not been evaluated since it was extended: there are no numbers to judge it by. "
            "`labeltree evaluate` on the test samples of its run measures the run without the extension; "
            "`labeltree evaluate RUN --data DATA` measures what the extended run answers for other labelled "
            "samples, and `labeltree predict . --data DATA --labelled` what this model does."
        )
    if metrics is None and before is not None:
        return (
            "On this version of the taxonomy the model has not been evaluated: `labeltree predict . --data "
            "DATA --labelled` measures it on labelled samples that it has not seen. The numbers below are "
            f"those of the version that it was trained on.\n\n{_numbers(before)}"
        )
    if metrics is None:
        return (
            "This model has not been evaluated: there are no numbers to judge it by. `labeltree evaluate` on "
            "the run, before the export, puts them here."
        )
    return _numbers(metrics)


def _numbers(metrics: Facts) -> str:
    """The numbers of an evaluation, and what they were measured on."""
    rows = [f"| metric | value [{metrics['confidence']:.0%} interval] |", "|---|---|"]
    rows += [f"| {number_name(number)} | {number_text(number)} |" for number in metrics["numbers"]]
    rows += [
        f"| accuracy at depth {depth} | {number_text({'value': value, 'low': None})} |"
        for depth, value in enumerate(metrics["by_depth"], 1)
    ]
    return (
        f"On {metrics['samples']:,} samples of the split `{metrics['split']}`, with classifier "
        f"`{metrics['classifier']}`:\n\n" + "\n".join(rows)
    )


def _certainty(facts: Facts) -> str:
    calibration = facts["calibration"]
    rows = ["| coverage | a node is answered if its probability exceeds |", "|---|---|"]
    for coverage, value in calibration["thresholds"].items():
        shown = threshold_text(value, "not possible: too few calibration samples", 6)
        rows.append(f"| {float(coverage):.0%} | {shown} |")
    groups = ""
    if calibration["groups"] not in (None, calibration["samples"]):
        groups = f" in {calibration['groups']:,} groups (such as patients, or copies of one sample)"
    check = f" {calibration['sentence']}" if calibration["sentence"] else ""
    names = calibration.get("unpromised", [])
    apart, nothing = (" of the other classes", f" **{say_unpromised(names)}**") if names else ("", "")
    return (
        f"{facts['classifier']['sentence']}{check} The thresholds come from {calibration['samples']:,} "
        f"{calibration['on']}{groups}: for new samples of the same kind{apart}, the share of answers that "
        "hold the truth (the true node or one above it) is at least the coverage, on average over draws of "
        f"calibration samples (split conformal prediction).{nothing}\n\n" + "\n".join(rows)
    )


def _classes(names: Mapping[str, str]) -> str:
    return _listed(list(names.values()))


def _listed(names: Sequence[str]) -> str:
    rest = f" … and {len(names) - 50:,} more in `config.json`" if len(names) > 50 else ""
    return ", ".join(f"`{name}`" for name in names[:50]) + rest
