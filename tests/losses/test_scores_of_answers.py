"""Every objective that answers gives its classes scores, whose largest is its answer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labeltree import losses
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "rose")])


def made(name: str, folder: Path) -> nn.Module:
    torch.manual_seed(0)
    if name == "devise":
        words = folder / "words.txt"
        words.write_text("dog 1 0 0 0\ncat 0.8 0.6 0 0\noak 0 0 1 0\nplant 0 0 1 1\nanimal 1 1 0 0\n")
        return losses.DeViSELoss(TREE, vectors=str(words))
    return {
        "corr": lambda: losses.CorrelationLoss(TREE),
        "csl": lambda: losses.CSLLoss(TREE, 4),
        "happier": lambda: losses.HAPPIERLoss(TREE, 4),
        "haf": lambda: losses.HAFLoss(TREE, 4),
        "hierarchical-proxies": lambda: losses.HierarchicalProxyLoss(TREE, 4),
        "label-embedding": lambda: losses.LabelEmbeddingLoss(TREE, 4),
        "normalised-softmax": lambda: losses.NormalisedSoftmaxLoss(TREE, 4),
        "haframe": lambda: losses.HAFrameLoss(TREE, 4),
        "hier-cos": lambda: losses.HierCOSLoss(TREE),
        "tree-proxies": lambda: losses.TreeProxyLoss(TREE, 4),
        "mlcl": lambda: losses.MLCLLoss(TREE, feature_dim=4, ce=True, global_head=False),
    }[name]()


NAMES = ["corr", "csl", "devise", "haf", "hierarchical-proxies", "label-embedding", "mlcl"]
NAMES += ["normalised-softmax", "tree-proxies", "haframe", "hier-cos", "happier"]


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_score_is_the_answer(name: str, tmp_path: Path) -> None:
    loss: Any = made(name, tmp_path).eval()
    width = len(TREE) - 1 if name == "hier-cos" else 4
    rows = torch.randn(40, width, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores: Tensor = loss.logits(rows)
        answers = loss.predict(rows)
    assert scores.shape == (40, len(loss.classes))
    assert bool(scores.isfinite().all())
    assert torch.equal(loss.classes[scores.argmax(1)], answers)
    assert len(answers.unique()) > 1
