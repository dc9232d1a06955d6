"""Groups of unequal sizes: the p-values of novelty and the drift test count patients, not images."""

from __future__ import annotations

import torch

from labeltree.decisions import fit_novelty
from labeltree.decisions.drift import NO_GROUPS, DriftRule, fit_drift
from labeltree.decisions.novelty import Distances, nearest_by_node
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a",), ("b",)])


def patients(sizes: list[int], seed: int, spread: float = 0.6, first: int = 0) -> EmbeddingTable:
    """Patients of the given numbers of images; images of a patient are alike, large ones lie elsewhere."""
    draw = torch.Generator().manual_seed(seed)
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    places = torch.randint(0, 2, (len(sizes),), generator=draw)
    points = torch.eye(8)[places][:, :8] * 4
    large = (torch.tensor(sizes) > 5).float()[:, None]
    points = points + (spread + large) * torch.randn(len(sizes), 8, generator=draw)
    points = points[groups] + 0.1 * torch.randn(len(groups), 8, generator=draw)
    return EmbeddingTable(points, TREE.leaves[places][groups], groups=groups + first, geometry="euclidean")


def test_patients_with_many_images_do_not_drown_the_others() -> None:
    """Of a new image of a new patient: an alarm with the promised chance, also if images must be drawn."""
    train = patients([1] * 100, 0)
    alarms = count = 0
    for seed in range(1, 13):
        rule = fit_novelty(train, patients([60] * 100 + [1] * 400, seed), TREE)
        assert rule.known.count == 500
        new = patients([9] * 200 + [1] * 800, 100 + seed)
        one = torch.cat([torch.arange(0, 1800, 9), torch.arange(1800, len(new))])  # an image of each patient
        p = rule.known.p_values(nearest_by_node(new.embeddings[one], rule.reference, TREE)[0][:, 0])
        alarms, count = alarms + int((p <= 0.05).sum()), count + len(p)
    assert 0.03 < alarms / count < 0.07


def test_the_draw_does_not_hang_on_the_order() -> None:
    train, held = patients([1] * 50, 0), patients([8] * 600, 1)
    new, paths = patients([1] * 300, 2), TREE.leaves[:1].expand(300, 1)
    paths = torch.cat([torch.zeros(300, 1, dtype=torch.int64), paths], 1)
    mixed = held.rows(torch.randperm(len(held), generator=torch.Generator().manual_seed(3)))
    first, second = (fit_novelty(train, each, TREE).fit(new, paths) for each in (held, mixed))
    assert torch.equal(first.p_values, second.p_values)


def test_nineteen_patients_are_enough_for_five_percent() -> None:
    sizes = [1, 3, 6, 7, 10, 12, 3, 3, 7, 11, 13, 6, 6, 7, 9, 3, 14, 17, 19]
    groups = torch.repeat_interleave(torch.arange(19), torch.tensor(sizes))
    known = Distances.of(torch.rand(len(groups), generator=torch.Generator().manual_seed(0)), groups)
    assert known.count == 19
    assert float(known.p_values(torch.tensor([9.0]))[0]) <= 0.05 + 1e-9


def test_patients_count_within_a_node_too() -> None:
    rule = fit_novelty(patients([1] * 100, 0), patients([9] * 10 + [1] * 12, 1), TREE)
    for distances in (rule.within[0], rule.by_depth[0]):
        assert distances.count == 22
        assert sorted(set(distances.weights.tolist())) == [1 / 9, 1]


def drift_rule(held: EmbeddingTable) -> DriftRule:
    return fit_drift(patients([1] * 100, 0), held, chances(held))


def chances(table: EmbeddingTable) -> torch.Tensor:
    return table.embeddings[:, :2].double().softmax(1)


def test_fewer_images_a_patient_are_no_drift() -> None:
    alarms = dict.fromkeys((1, 3, 5), 0)
    for seed in range(40):
        rule = drift_rule(patients([5] * 60, 1000 + seed))
        for size in alarms:
            batch = patients([size] * 60, 2000 + seed)
            found = rule.test(rule.seen(batch, chances(batch)))
            assert found is not None
            assert (found.count, found.unit) == (60, "groups")
            alarms[size] += found.alarms()
    assert all(count <= 6 for count in alarms.values()), alarms  # 2 of 40 are expected at most


def test_images_of_nobody_are_not_compared_with_patients() -> None:
    rule = drift_rule(patients([5] * 60, 1))
    batch = patients([10] * 20, 2)
    nobody = EmbeddingTable(batch.embeddings, batch.nodes, geometry="euclidean")
    seen = rule.seen(nobody, chances(nobody))
    assert rule.test(seen) is None
    assert rule.cannot_test(seen) == NO_GROUPS
    few = rule.seen(batch.rows(torch.arange(50)), chances(batch)[:50])
    assert "5 samples (or groups of them) are too few" in rule.cannot_test(few)
