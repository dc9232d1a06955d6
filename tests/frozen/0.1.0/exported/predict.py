"""Answers of this model without labeltree: python predict.py SAMPLE ... --coverage 0.9"""

import argparse
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

HERE = Path(__file__).parent
LABELS, READ = (json.loads((HERE / f"{name}.json").read_text("utf-8")) for name in ("labels", "preprocess"))
SESSION = onnxruntime.InferenceSession(HERE / "model.onnx")


def read(sample):
    """Pixels (c, s, s) uint8 of an image file or a PIL image."""
    image, size = sample, READ["size"]
    if not isinstance(sample, Image.Image):
        image = Image.open(sample)
    tags = getattr(image, "tag_v2", {})
    if image.format in ("EPS", "WMF") or (tags.get(284) == 2 and image.mode[0] in "IF"):
        raise ValueError(f"{image.format} of this kind is not read")
    if image.width * image.height > READ["most_pixels"]:
        raise ValueError(f"it has more than {READ['most_pixels']} pixels")
    if image is not sample:
        image.draft(None, (2 * size, 2 * size))  # JPEG decodes faster to a half, quarter or eighth
    image.load()
    white_is_zero = tags.get(262) == 0
    image = ImageOps.exif_transpose(image)
    if image.mode[0] in "IF":  # 16 bits or real numbers
        values = np.nan_to_num(np.asarray(image).astype(float))
        largest, tops = values.max(initial=0), {"F": (1, 255, 65535), "I": (255, 65535)}
        if values.min(initial=0) < min(0, -1e-3 * largest) or largest > 65535:
            raise ValueError("its values must be in [0, 65535], [0, 255] or, as real numbers, [0, 1]")
        values = values * (255 / next(top for top in tops.get(image.mode, (65535,)) if largest <= top))
        values = (255 - values if white_is_zero else values).clip(0, 255).round().astype(np.uint8)
        image = Image.fromarray(values)
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    image = image.convert("L" if READ["channels"] == 1 else "RGB")
    if image.size != (size, size):
        side = min(image.size)
        left, top = ((length - side) / 2 for length in image.size)
        box = (left, top, left + side, top + side)
        image = image.resize((size, size), Image.Resampling.BICUBIC, box, reducing_gap=READ["reducing_gap"])
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


stack = np.stack


def bar(coverage):
    """The probability that an answer must exceed so that this share of the answers hold the truth."""
    known, share = LABELS["thresholds"], Fraction(str(coverage))
    for reached, value in known["steps"]:
        if reached >= share * Fraction(known["total"]) - Fraction(known["tolerance"]):
            return value
    raise ValueError(f"too few samples were calibrated on for a coverage of {coverage}: ask for less")


def answer(log_probabilities, at, top=3):
    """The answer for one sample: the node where its path down the tree is no longer sure enough."""
    own = np.exp(log_probabilities.astype(float))
    parents, classes, children = LABELS["parents"], LABELS["classes"], LABELS["children"]
    alone, path = np.full(len(parents), -1.0), [0]
    alone[classes] = own
    mass = alone.clip(0)
    for node in reversed(range(1, len(parents))):  # children come after their parents
        mass[parents[node]] += mass[node]
    if LABELS["descent"] == "leaf":  # to the most probable class
        path = [classes[int(own.argmax())]]
        while path[0]:
            path.insert(0, parents[path[0]])
    while LABELS["descent"] == "child" and children[path[-1]]:  # to the most probable child, step by step
        best = max(children[path[-1]], key=mass.__getitem__)
        if alone[path[-1]] >= mass[best]:
            break
        path.append(best)
    end = next((place for place, node in enumerate(path[1:]) if not mass[node] > at), len(path) - 1)
    guesses = np.argsort(-own, kind="stable")[:top]
    return {
        "answer": LABELS["paths"][path[end]],
        "probability": round(float(min(mass[path[: end + 1]])), 6),
        "cut": end < len(path) - 1,
        "guesses": [
            {"class": LABELS["paths"][classes[k]], "probability": round(float(own[k]), 6)} for k in guesses
        ],
    }


def predict(samples, coverage=0.9, top=3, at_once=64):
    """A dictionary for each sample; one that cannot be read has a `problem` instead of an answer."""
    at, rows = bar(coverage), []
    for start in range(0, len(samples), at_once):
        names, inputs = samples[start : start + at_once], []
        for name in names:
            rows.append({"sample": str(name), "problem": None})
            try:
                inputs.append((rows[-1], read(name)))
            except Exception as error:  # whatever a broken file leads to
                rows[-1]["problem"] = str(error)
        found = (
            SESSION.run(["log_probabilities"], {"inputs": stack([x for _, x in inputs])})[0] if inputs else []
        )
        for (row, _), scores in zip(inputs, found, strict=True):
            row.update(answer(scores, at, top))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", nargs="+", help=READ["reads"])
    parser.add_argument("--coverage", type=float, default=0.9, help="share of answers that hold the truth")
    given = parser.parse_args()
    print(json.dumps(predict(given.samples, given.coverage), indent=2, ensure_ascii=False))
