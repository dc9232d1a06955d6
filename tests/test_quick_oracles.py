"""Three oracles that are cheap enough for `make check`; the rooms have the long ones."""

import math
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from labeltree.decisions import Promise
from labeltree.decisions.conformal import threshold
from labeltree.losses import HiMulConLoss
from labeltree.report.charts.svg import Drawing
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])


@pytest.mark.parametrize("count", [9, 10, 20, 99])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_the_rank_counts_the_new_sample(count: int, coverage: float) -> None:
    """The ⌈(n+1)·coverage⌉-th smallest of n scores: of n + 1 exchangeable ones, one is the new sample's."""
    scores = torch.randperm(count, generator=torch.Generator().manual_seed(count)) / count
    rank = math.ceil(Fraction(str(coverage)) * (count + 1))
    assert threshold(scores, Promise(coverage)) == pytest.approx((rank - 1) / count)


def test_himulcon_by_its_equation() -> None:
    """Equation 4 by loops; the weight of the first depth is the first one."""
    generator = torch.Generator().manual_seed(0)
    names = ["x", "x", "y", "z", "z", "w", "y", "w"]
    nodes, weights, temperature = TREE.encode(names), [0.2, 1.7], 0.3
    z = torch.nn.functional.normalize(torch.randn(8, 5, generator=generator, dtype=torch.float64), dim=1)
    s = (z @ z.T / temperature).numpy()
    total = 0.0
    for depth, weight in enumerate(weights, start=1):
        at = TREE.ancestors[nodes, depth].numpy()
        terms = []
        for i in range(8):
            others = [k for k in range(8) if k != i]
            log_sum = np.log(np.exp(s[i, others]).sum())
            terms.append(np.mean([log_sum - s[i, p] for p in others if at[p] == at[i]]))
        total += weight / len(weights) * float(np.mean(terms))
    loss = HiMulConLoss(TREE, weights=weights, temperature=temperature)
    assert float(loss(z, nodes)) == pytest.approx(total, abs=1e-12)
    reversed_weights = HiMulConLoss(TREE, weights=weights[::-1], temperature=temperature)
    assert abs(float(reversed_weights(z, nodes)) - total) > 0.01


def test_names_in_drawings_are_text() -> None:
    """Labels of strangers: nothing of them is markup, in text, titles or attributes."""
    name = "</text><script>alert('1')</script>\" onload=\"x"
    drawing = Drawing(10, 10, name)
    drawing.text(1, 2, name, "label", data=name)
    with drawing.group(name):
        drawing.add("circle", name, r=1)
    page = str(drawing.markup())
    assert "<script" not in page
    assert 'onload="' not in page
    root = ElementTree.fromstring(page)
    assert [one.tag.rpartition("}")[2] for one in root.iter()].count("script") == 0
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert texts == [name]
