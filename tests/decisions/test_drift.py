"""Batches of another source are told; batches of the same one seldom are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from labeltree.data.held_out_sizes import FEWEST_FOR_DRIFT
from labeltree.decisions.drift import _PERMUTATIONS, Drift, _permutation_p, fit_drift
from labeltree.errors import DataError
from labeltree.geometry import Euclidean
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b",)])
CENTRES = torch.nn.functional.normalize(torch.tensor([[4.0, 1, 0], [4.0, -1, 0], [0.0, 0, 4]]), dim=1)


def samples(
    count: int, seed: int, *, shift: float = 0.0, patients: int | None = None
) -> tuple[EmbeddingTable, torch.Tensor]:
    """Samples of three classes and their probabilities; patients differ, and so does another site."""
    draw = torch.Generator().manual_seed(seed)
    places = torch.randint(0, 3, (count,), generator=draw)
    groups = None
    noise = 0.2 * torch.randn(count, 3, generator=draw)
    if patients is not None:
        groups = torch.arange(count) % patients
        places = torch.randint(0, 3, (patients,), generator=draw)[groups]
        noise = 0.05 * noise + 0.2 * torch.randn(patients, 3, generator=draw)[groups]
    points = CENTRES[places] + noise + shift * torch.tensor([0.0, 0.3, 0.3])
    points = torch.nn.functional.normalize(points, dim=1)
    table = EmbeddingTable(embeddings=points, nodes=TREE.leaves[places], groups=groups)
    return table, torch.softmax(8 * points @ CENTRES.T, dim=1)


def rule_of(patients: int | None = None):  # type: ignore[no-untyped-def]
    reference = samples(200, 1)[0]
    held, probabilities = samples(240, 2, patients=patients)
    return fit_drift(reference, held, probabilities)


def test_clean_batches_seldom_alarm_and_another_site_does() -> None:
    rule = rule_of()
    clean = [rule.test(rule.seen(*samples(60, 100 + seed))) for seed in range(60)]
    assert sum(found.alarms() for found in clean) <= 9  # at 5 % ten or more have probability 0.1 %
    other = [rule.test(rule.seen(*samples(60, 500 + seed, shift=2.0))) for seed in range(10)]
    assert all(found.alarms() for found in other)
    said = other[0].sentence()
    assert "are not like the held-out samples" in said
    assert "(p < 0.001; they lie farther from the training samples)" in said
    assert set(other[0].p_values) == {"distance", "certainty", "embeddings"}


def test_patients_count_as_one() -> None:
    """Four images a patient: by images clean batches would alarm far too often, by patients they do not."""
    rule = rule_of(60)
    clean = [samples(120, 100 + seed, patients=30) for seed in range(40)]
    by_patient = [rule.test(rule.seen(*each)) for each in clean]
    assert {(found.count, found.unit) for found in by_patient} == {(30, "groups")}
    assert sum(found.alarms() for found in by_patient) <= 7
    other = [rule.test(rule.seen(*samples(120, 500 + seed, shift=3.0, patients=30))) for seed in range(8)]
    assert all(found.alarms() for found in other)


def test_few_samples_are_not_tested() -> None:
    rule = rule_of()
    assert rule.test(rule.seen(*samples(FEWEST_FOR_DRIFT - 1, 3))) is None
    assert rule.test(rule.seen(*samples(FEWEST_FOR_DRIFT, 3))) is not None
    assert rule_of(10).test(rule.seen(*samples(60, 3, patients=30))) is None  # ten patients held out
    empty = EmbeddingTable(embeddings=torch.zeros(0, 3), nodes=torch.zeros(0, dtype=torch.int64))
    with pytest.raises(DataError, match="no samples to compare"):
        fit_drift(empty, empty, torch.zeros(0, 3))


def test_a_test_of_the_same_samples_gives_the_same_answer() -> None:
    rule = rule_of()
    batch = rule.seen(*samples(80, 7, shift=0.5))
    assert rule.test(batch) == rule.test(batch)


def repeat(table: EmbeddingTable, chances: torch.Tensor, times: int) -> tuple[EmbeddingTable, torch.Tensor]:
    """The first five samples several times each, copies in one group, as equal files are."""
    rows = torch.cat([torch.arange(5).repeat(times), torch.arange(5, len(table))])
    groups = torch.where(rows < 5, rows, -1)
    return EmbeddingTable(table.embeddings[rows], table.nodes[rows], groups=groups), chances[rows]


def ranks(found: Drift) -> list[float]:
    """The p-values of the two tests that draw nothing, to which the order of the samples is the same."""
    return [found.p_values[name] for name in ("distance", "certainty")]


@pytest.mark.parametrize("where", ["held", "reference"])
def test_copies_are_no_patients(where: str) -> None:
    """Equal files among the samples of a run: batches that tell of no groups are tested as before."""
    reference, held = samples(200, 1)[0], samples(240, 2)
    plain = fit_drift(reference, *held)
    if where == "held":
        rule = fit_drift(reference, *repeat(*held, 3))
    else:  # all groups of the held-out samples are of one sample
        table = EmbeddingTable(held[0].embeddings, held[0].nodes, groups=torch.full((240,), -1))
        rule = fit_drift(repeat(*samples(200, 1), 2)[0], table, held[1])
    assert rule.held.groups is None
    assert len(rule.held) == 240  # copies count once
    batch = rule.seen(*samples(60, 100))
    assert ranks(rule.test(batch)) == ranks(plain.test(batch))
    shifted = rule.test(rule.seen(*samples(60, 500, shift=2.0)))
    assert shifted.alarms()
    assert shifted.unit == "samples"


def test_copies_in_a_batch_count_once() -> None:
    rule = rule_of()
    found = rule.test(rule.seen(*repeat(*samples(60, 100), 8)))
    assert (found.count, found.unit) == (60, "samples")
    assert ranks(found) == ranks(rule.test(rule.seen(*samples(60, 100))))


def test_groups_that_a_column_names_stay_groups() -> None:
    """Of each patient one sample was held out: a batch that tells of none may be of few patients."""
    held, chances = samples(240, 2)
    alone = EmbeddingTable(held.embeddings, held.nodes, groups=torch.full((240,), -1))
    rule = fit_drift(samples(200, 1)[0], alone, chances, named_groups=True)
    assert "patients" in rule.cannot_test(rule.seen(*samples(60, 100)))
    assert rule_of(60).held.groups is not None


@pytest.mark.parametrize("apart", [0.0, 0.7, 5.0])
def test_the_permutation_test_of_points_is_that_of_its_definition(apart: float) -> None:
    """The share of partitions, the first included, whose energy distance is at least that of the samples."""
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    second = torch.randn(14, 2, generator=generator, dtype=torch.float64) + apart
    points = torch.cat([first, second])

    def energy(rows: Tensor) -> float:
        ours = torch.zeros(23, dtype=torch.bool)
        ours[rows] = True
        a, b = points[ours], points[~ours]
        means = [torch.cdist(x, y).mean() for x, y in ((a, b), (a, a), (b, b))]
        return float(2 * means[0] - means[1] - means[2])

    observed, again = energy(torch.arange(9)), torch.Generator().manual_seed(5)
    drawn = [energy(torch.randperm(23, generator=again)[:9]) for _ in range(_PERMUTATIONS)]
    expected = (1 + sum(one >= observed - 1e-9 for one in drawn)) / (1 + _PERMUTATIONS)
    found = _permutation_p(first, second, Euclidean(), torch.Generator().manual_seed(5))
    assert found == pytest.approx(expected, abs=1e-12)
    assert (found <= 1 / (1 + _PERMUTATIONS)) == (apart == 5)
