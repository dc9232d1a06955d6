"""Shares are in per cent, and what a class is most often taken for is the most frequent."""

from labeltree.report.charts.training_curves import history_groups
from labeltree.report.tables.confusions import taken_for
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])


def test_shares_are_per_cent_and_losses_are_not() -> None:
    rows = [
        {"epoch": 0, "val_top1": 0.9, "train_loss": 2.5},
        {"epoch": 1, "val_top1": 0.955, "train_loss": 0.25},
    ]
    charts = {chart["name"]: chart for _, several in history_groups(rows) for chart in several}
    assert (charts["Loss"]["start"], charts["Loss"]["end"]) == ("2.5", "0.25")
    (share,) = (chart for name, chart in charts.items() if name != "Loss")
    assert (share["start"], share["end"]) == ("90.0%", "95.5%")


def test_the_most_frequent_mistake_is_named() -> None:
    x, y, z, w = (int(TREE.find(name)) for name in "xyzw")
    pairs = [(x, y, 2), (x, z, 5), (x, w, 1), (z, x, 3), (z, w, 3)]
    found = taken_for(pairs, TREE)
    a, b = int(TREE.parent[x]), int(TREE.parent[z])
    assert found[x] == (z, 5)
    assert found[a] == (b, 6)
    assert found[b] == (a, 3)
    assert found[z] == (min(x, w), 3), "the first in a tie"
