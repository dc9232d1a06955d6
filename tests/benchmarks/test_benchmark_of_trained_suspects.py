"""What the benchmark of suspects after training tells of a cell."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import torch

from labeltree.curation.judged_samples import JudgedSamples
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def test_a_cell_tells_what_each_space_finds() -> None:
    script = importlib.import_module("trained_suspects")
    tree = Taxonomy.from_paths([(f"branch {leaf // 2}", f"leaf {leaf}") for leaf in range(4)])
    truth, wrong = torch.arange(80) % 4, torch.arange(80) % 20 == 0
    given = torch.where(wrong, (truth + 2) % 4, truth)
    split = np.where(np.arange(80) % 5 == 1, "test", "train")
    memory, words = torch.eye(4)[given], torch.eye(4)[truth]
    memory[split == "test"] = 0.25  # it knows nothing else
    table = EmbeddingTable(
        memory, tree.leaves[given], split=split, features=memory, taxonomy=tree, learned_features=True
    )
    samples = replace(
        JudgedSamples.of(table),
        label_free={"raw": replace(table, embeddings=words, features=words)},
        names={"raw": "the raw words"},
    )
    told = script.judge(samples, wrong)
    assert (told["planted"], told["samples"], told["space"]) == (4, 80, "raw")
    assert told["chosen"] == told["raw"]
    assert told["raw"] == {"precision": 1.0, "recall": 1.0, "listed": 4, "fit": 1.0}
    assert told["encoder"]["recall"] == 0
    assert told["encoder"]["fit"] < 0.9
