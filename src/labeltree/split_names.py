"""The splits of samples: their names, how sentences call them, and which of them teaches most."""

from __future__ import annotations

__all__ = ["CALIB", "MOST_TAUGHT_FIRST", "SPLITS", "SPLIT_NAMES", "SPLIT_WORDS", "UNSEEN", "most_taught"]

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"training": "train", "valid": "val", "validation": "val", "dev": "val", "testing": "test"}
"""Other names of the splits, in lower case."""
CALIB = "calib"  # samples set aside for the promises of answers, which nothing else reads
UNSEEN = "unseen"  # samples outside the test split whose classes training does not see
SPLIT_WORDS = {
    "train": "training",
    "val": "validation",
    "test": "test",
    CALIB: "calibration",
    UNSEEN: "unseen",
    "": "no split",
}
"""What a sentence calls the samples of a split."""
MOST_TAUGHT_FIRST = ("train", "val", CALIB, "test")
"""From the samples that weights come from to those that nothing reads."""


def most_taught(*splits: str) -> str:
    """Of the splits that a sample had, the one in which it taught most; `""` if none of them is known."""
    known = (split for split in splits if split in MOST_TAUGHT_FIRST)
    return min(known, key=MOST_TAUGHT_FIRST.index, default="")
