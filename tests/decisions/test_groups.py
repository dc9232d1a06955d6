"""One answer for a group: the aggregation is chosen on held-out groups, and the promise is about groups."""

from __future__ import annotations

import pytest
import torch

from labeltree.decisions import ClassNodes, Promise, fit_rule, holds_truth
from labeltree.decisions.answers_of_groups import fit_group_rule
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.decisions.rule import rule_to_dict
from labeltree.errors import DataError
from labeltree.metrics.functional import group_labels, group_probabilities
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("malignant", "melanoma"), ("malignant", "carcinoma"), ("benign", "naevus")])
CLASSES = ClassNodes(TREE.leaves, TREE)


def patients(
    count: int, seed: int, *, one_is_enough: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Probabilities, labels and patients; if one image is enough, the others of a patient look benign."""
    draw = torch.Generator().manual_seed(seed)
    of_patient = torch.randint(0, 3, (count,), generator=draw)
    groups = torch.arange(count).repeat_interleave(4)
    labels = TREE.leaves[of_patient[groups]]
    shown = of_patient[groups].clone()
    if one_is_enough:
        benign = TREE.leaves.tolist().index(int(TREE.find("naevus")))
        shown[torch.arange(len(groups)) % 4 != 0] = benign
    strength = torch.ones(len(groups), 1)
    noise = torch.randn(len(groups), 3, generator=draw)
    if one_is_enough:  # what shows the disease is sure, what does not says little
        strength = torch.where(shown == of_patient[groups], 5.0, 1.0)[:, None]
        noise = 0.2 * noise
    scores = strength * torch.nn.functional.one_hot(shown, 3) + noise
    return torch.softmax(scores, dim=1).double(), labels, groups


def test_noisy_or_is_its_definition() -> None:
    p = torch.tensor([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]).double()
    found = group_probabilities(p, torch.tensor([3, 3, 5]), "noisy-or")
    first = torch.tensor([1 - 0.5 * 0.8, 1 - 0.5 * 0.2]).double()
    torch.testing.assert_close(found.probabilities[0], first / first.sum())
    torch.testing.assert_close(found.probabilities[1], torch.tensor([1.0, 0.0]).double())
    many = torch.full((4000, 2), 0.5).double()  # a product that underflows
    assert group_probabilities(many, torch.zeros(4000).long(), "noisy-or").probabilities.isfinite().all()


@pytest.mark.parametrize("one_is_enough", [False, True])
def test_the_aggregation_suits_the_data(one_is_enough: bool) -> None:
    chosen = fit_group_rule(*patients(400, 0, one_is_enough=one_is_enough), CLASSES)
    assert set(chosen.accuracies) == {"mean", "logits", "max", "noisy-or"}
    assert chosen.count == 120  # the others give the thresholds
    assert chosen.accuracies[chosen.how] == max(chosen.accuracies.values())
    if one_is_enough:
        assert chosen.how in ("max", "noisy-or")
    probabilities, labels, groups = patients(120, 1, one_is_enough=one_is_enough)
    names, scores = chosen.combine(probabilities, groups)
    assert names.tolist() == list(range(120))
    truth = group_labels(labels, groups, TREE)
    right = (CLASSES.nodes[scores.argmax(1)] == truth).double().mean()
    single = (CLASSES.nodes[probabilities.argmax(1)] == labels).double().mean()
    assert right > single
    assert chosen.sentence().startswith("The samples of a group are combined by the")


def test_thresholds_are_of_the_way_that_answers() -> None:
    given = patients(400, 0, one_is_enough=True)
    chosen = fit_group_rule(*given, CLASSES)
    assert chosen.how != "logits"
    same = fit_rule(chosen.combine(given[0], given[2])[1], group_labels(*given[1:], TREE), CLASSES)
    assert rule_to_dict(same) == rule_to_dict(chosen.rule)


def test_lesions_of_a_patient_are_not_independent() -> None:
    """Ten lesions of each of four patients, and one of each of the others: a patient counts once."""
    probabilities, labels, lesions = patients(80, 0)
    owners = torch.cat([torch.arange(4).repeat_interleave(10), torch.arange(4, 44)])
    found = fit_group_rule(probabilities, labels, lesions, CLASSES, within=owners[lesions])
    assert (found.rule.fitted.num_groups, len(found.rule.fitted)) == (44, 80)
    mixed = torch.randperm(len(lesions), generator=torch.Generator().manual_seed(0))
    unordered = fit_group_rule(
        probabilities[mixed], labels[mixed], lesions[mixed], CLASSES, within=owners[lesions[mixed]]
    )
    assert torch.equal(unordered.rule.fitted.groups, found.rule.fitted.groups)  # type: ignore[arg-type]


def test_few_groups_promise_as_much_as_there_are() -> None:
    """A part for the temperature would leave nine patients seven: a coverage of 0.9 could not be promised."""
    probabilities, labels, patient = patients(240, 0)
    patient = patient // 4  # 16 samples each
    for count, left in ((9, 9), (11, 11), (12, 9), (20, 14)):
        rows = patient < count
        scores, nodes, groups = probabilities[rows].log(), labels[rows], patient[rows]
        rule = fit_rule(scores, nodes, CLASSES, groups=groups)
        assert rule.fitted.num_groups == left
        assert (len(rule.fitted) == len(nodes)) == (left == count)
        answers = rule.answer(scores, Promise(0.9))
        assert float(holds_truth(answers.nodes, nodes, TREE).double().mean()) >= 0.9
        shared = rule.counts["for the probabilities"] + rule.counts["for the thresholds"] > len(nodes)
        assert shared == PromiseSamples.of(rule, "val").softened == (left == count)


@pytest.mark.long
def test_the_promise_is_about_groups() -> None:
    """Over draws of everything, the share of new groups whose answer holds the truth is as promised."""
    held = 0.0
    for seed in range(25):
        chosen = fit_group_rule(*patients(60, 2 * seed), CLASSES)
        probabilities, labels, groups = patients(40, 2 * seed + 1)
        answers = chosen.rule.answer(chosen.combine(probabilities, groups)[1], Promise(0.8))
        held += float(holds_truth(answers.nodes, group_labels(labels, groups, TREE), TREE).double().mean())
    assert held / 25 > 0.76  # 0.8 less three standard errors of 25 draws


def test_contradicting_and_missing_labels() -> None:
    probabilities, labels, groups = patients(30, 0)
    labels[0] = -1
    labels[4] = TREE.find("naevus") if labels[5] != TREE.find("naevus") else TREE.find("melanoma")
    found = fit_group_rule(probabilities, labels, groups, CLASSES)
    assert (found.count, found.conflicts) == (8, 1)  # three tenths of 29
    with pytest.raises(DataError, match="no group of held-out samples has a label"):
        fit_group_rule(probabilities, torch.full_like(labels, -1), groups, CLASSES)
    with pytest.raises(DataError, match="labels that agree"):
        fit_group_rule(probabilities[:2], TREE.leaves[:2], torch.zeros(2).long(), CLASSES)
