"""What stands beside an exported graph: labels, thresholds, preprocessing, and a script that reads it all."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from labeltree.data.images.decode import MAX_PIXELS, REDUCING_GAP, draft_side
from labeltree.decisions.conformal import threshold_steps
from labeltree.errors import RunError
from labeltree.inference.decider import Decider
from labeltree.inference.export.model_graph import LEAST_TOKENS, most_tokens
from labeltree.models.text_encoders.small_text import SmallTextEncoder
from labeltree.models.text_encoders.text_transformer import TransformerEncoder
from labeltree.training.network import Network

__all__ = ["VERSION", "labels", "preprocessing", "script", "tokenizer_text"]

VERSION = 1

_READS = {
    "image": "image files",
    "text": "texts",
    "vector": "files of vectors (.npy), or tables of them (.csv)",
}


def labels(decider: Decider) -> dict[str, Any]:
    """The content of `labels.json`: taxonomy, classes, and what turns probabilities into answers.

    Nodes are numbers, 0 the root, and children come after their parents. `classes` are the nodes of the
    columns of the graph's `log_probabilities`; these are calibrated already, `calibrator` says how. For
    `thresholds` see `ThresholdSteps`.
    """
    rule, taxonomy = decider.rule, decider.run.taxonomy
    document = taxonomy.to_dict()
    steps = threshold_steps(rule.fitted.scores, rule.fitted.groups)
    nodes = range(taxonomy.num_nodes)
    return {
        "format": "labeltree labels",
        "version": VERSION,
        "taxonomy": taxonomy.digest,
        "names": document["names"],
        "parents": document["parents"],
        "paths": [taxonomy.path_name(node) for node in nodes],
        "children": [rule.classes.children(node).tolist() for node in nodes],
        "classes": rule.classes.nodes.tolist(),
        "coarse_classes": decider.coarse_classes.tolist(),
        "descent": rule.descent,
        "calibrator": {
            "kind": rule.calibrator.kind,
            "temperatures": list(rule.calibrator.temperatures),
            "slopes": list(rule.calibrator.slopes),
            "offsets": list(rule.calibrator.offsets),
        },
        "thresholds": {
            "total": steps.total,
            "tolerance": steps.tolerance,
            "steps": [list(step) for step in zip(steps.reached, steps.thresholds, strict=True)],
        },
    }


def preprocessing(network: Network, columns: Sequence[str] = ()) -> dict[str, Any]:
    """The content of `preprocess.json`: how a sample becomes the input of the graph.

    Args:
        network: The network.
        columns: The columns of a table that training read vectors from, in their order; empty without one.

    Raises:
        RunError: If the encoder's tokens cannot be made without it.
    """
    head = {
        "format": "labeltree preprocessing",
        "version": VERSION,
        "reads": _READS[network.encoder.modality],
    }
    if network.image_shape is not None:
        channels, size, _ = network.image_shape
        how = network.preprocessing
        mean, std = network.normalisation
        return head | {
            "inputs": f"uint8 (n, {channels}, {size}, {size})",
            "size": size,
            "channels": channels,
            "orientation": "turned as the EXIF tag says",
            "transparency": "laid on white",
            "bits": "16 bits and real numbers are reduced to 8 bits",
            "crop": how.crop if how else "largest centred square",
            "squash": how is not None and how.squash,
            "resize": how.interpolation if how else "bicubic",
            "reducing_gap": REDUCING_GAP,
            "jpeg_draft": 2 * draft_side(size, how),
            "most_pixels": MAX_PIXELS,
            "within_the_graph": {
                "scale": 1 / 255,
                "mean": None if mean is None else mean.tolist(),
                "std": None if std is None else std.tolist(),
            },
        }
    encoder = network.encoder.without_adapter
    if network.modality == "vector":
        return head | {
            "inputs": f"float32 (n, {encoder.feature_dim})",
            "width": encoder.feature_dim,
            "columns": list(columns) if len(columns) == encoder.feature_dim else [],
            "within_the_graph": "standardised",
        }
    head |= {"inputs": "int64 (n, t), filled up with -1", "least_tokens": LEAST_TOKENS}
    if isinstance(encoder, SmallTextEncoder):
        return head | {
            "tokens": "crc32 of each word in lower case, modulo buckets",
            "buckets": encoder.buckets,
            "most_tokens": most_tokens(network),
        }
    if isinstance(encoder, TransformerEncoder):
        return head | {
            "tokens": "tokenizer.json",
            "most_tokens": most_tokens(network),
            "truncation_side": encoder.tokenizer.truncation_side,
            "prompt": encoder.prompt,
        }
    raise RunError(f"the tokens of encoder '{encoder.name}' cannot be made without labeltree: export no onnx")


def tokenizer_text(network: Network) -> str | None:
    """The content of `tokenizer.json`; None for images and for words without a tokenizer.

    Raises:
        RunError: If the tokenizer is not one of the library tokenizers.
    """
    encoder = network.encoder.without_adapter
    if not isinstance(encoder, TransformerEncoder):
        return None
    backend = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise RunError(
            f"the tokenizer of encoder '{encoder.name}' is none of the library tokenizers, so that nothing "
            "but labeltree can read texts for it: export no onnx"
        )
    text: str = backend.to_str()
    return text


def script(network: Network) -> str:
    """The content of `predict.py`: answers with numpy and onnxruntime, for some Pillow or tokenizers."""
    kinds = {SmallTextEncoder: "read_words.txt", TransformerEncoder: "read_texts.txt"}
    usual = "read_vectors.txt" if network.modality == "vector" else "read_images.txt"
    reader = kinds.get(type(network.encoder.without_adapter), usual)
    place = files("labeltree.inference.export") / "resources"
    head, body = (place / "predict.txt").read_text("utf-8").split("# READER\n")
    lines = (place / reader).read_text("utf-8").splitlines(keepends=True)
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    rest = "".join(line for line in lines if line not in imports)
    own = [line for line in imports if line.startswith("import ")]
    head = head.replace("import json\n", f"import json\n{''.join(own)}")
    head = head.replace(
        "import onnxruntime\n", "import onnxruntime\n" + "".join(line for line in imports if line not in own)
    )
    rest = rest.lstrip()
    gap = "\n\n\n" if rest.startswith("def ") else "\n\n"
    return f"{head.rstrip()}{gap}{rest}{body}"
