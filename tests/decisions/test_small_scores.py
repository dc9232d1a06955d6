"""Scores that hardly differ, such as distances to class means that lie close together."""

import math

import pytest
import torch

from labeltree.decisions import ClassNodes
from labeltree.decisions.answers import answer_scores
from labeltree.decisions.calibration_check import check_calibration, soften_few
from labeltree.decisions.calibrators import fit_calibrator, mean_label_loss, smoothed_temperature
from labeltree.decisions.classifiers import PrototypeScores, classify, merging_temperature, remap_classes
from labeltree.decisions.ridge_scores import ridge_scores_from
from labeltree.decisions.rule import fit_rule
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(a, a + b) for a in "pq" for b in "rst"])


def test_their_temperature_is_found():
    draw = torch.Generator().manual_seed(0)
    classes = ClassNodes(TREE.leaves, TREE)
    labels = TREE.leaves[torch.arange(300) % 6]
    scores = torch.randn(300, 6, generator=draw).double() + 1.5 * torch.eye(6)[torch.arange(300) % 6]
    usual = fit_calibrator(scores, labels, classes, "temperature")
    small = fit_calibrator(1e-6 * scores, labels, classes, "temperature")
    assert small.temperatures[0] == pytest.approx(1e-6 * usual.temperatures[0], rel=1e-4)


def test_samples_whose_labels_say_nothing_support_no_certainty():
    """Neither missing labels nor the root make ten samples, all answered rightly, look like forty."""
    classes = ClassNodes(TREE.leaves, TREE)
    places = torch.arange(10) % 6
    scores, labels = 9.0 * torch.eye(6)[places], TREE.leaves[places]
    more = torch.cat([scores, torch.zeros(30, 6)])
    silent = torch.cat([labels, torch.tensor([-1, 0]).repeat(15)])
    assert smoothed_temperature(more, silent, classes) == smoothed_temperature(scores, labels, classes)
    for kind in ("temperature", "vector", "depth"):
        same = fit_calibrator(scores, labels, classes, kind)
        assert fit_calibrator(more, silent, classes, kind) == same
    softened, check = soften_few(more, silent, classes, "temperature")
    assert (softened, check.samples) == (soften_few(scores, labels, classes, "temperature")[0], 10)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6])
def test_a_merged_class_does_not_take_the_samples_of_others(scale):
    draw = torch.Generator().manual_seed(0)
    means = scale * torch.eye(6).double()
    nodes = TREE.leaves.repeat(50)
    points = means.float().repeat(50, 1) + 0.4 * scale * torch.randn(300, 6, generator=draw)
    table = EmbeddingTable(points, nodes, geometry="euclidean")
    scores = PrototypeScores(TREE.leaves, means, "euclidean")
    right = (classify(scores, table) == nodes).double().mean()
    places = TREE.leaves.clone()
    places[1] = places[0]
    merged = remap_classes(scores, places, merging_temperature(scores, table, TREE))
    truth = torch.where(nodes == TREE.leaves[1], TREE.leaves[0], nodes)
    assert (classify(merged, table) == truth).double().mean() >= right


def test_without_samples_the_temperature_is_one():
    table = EmbeddingTable(torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64), geometry="euclidean")
    scores = PrototypeScores(TREE.leaves, torch.eye(6).double(), "euclidean")
    assert merging_temperature(scores, table, TREE) == 1


def test_a_few_right_answers_do_not_make_a_classifier_certain():
    classes = ClassNodes(TREE.leaves, TREE)
    labels = TREE.leaves.repeat(2)
    scores = 0.05 * torch.eye(6).repeat(2, 1).double()
    tempered = (scores / smoothed_temperature(scores, labels, classes)).softmax(1).amax(1)
    assert torch.allclose(tempered, torch.full((12,), 1 - 1 / 14 * 5 / 6, dtype=torch.float64), atol=1e-4)
    many = smoothed_temperature(scores.repeat(100, 1), labels.repeat(100), classes)
    assert ((scores / many).softmax(1).amax(1) > 0.999).all()


def test_labels_that_leave_every_class_possible_or_none_change_no_temperature():
    """Such as the root, which samples have whose labels share nothing else; they are no evidence."""
    tree = Taxonomy.from_paths([("all", a, a + b) for a in "pq" for b in "rst"] + [("other",)])
    classes = ClassNodes(tree.leaves[:-1], tree)
    draw = torch.Generator().manual_seed(0)
    labels = classes.nodes.repeat(2)
    for noise in (0.0, 3.0):  # all are right, or some are wrong
        scores = 2.0 * torch.eye(6).repeat(2, 1).double() + noise * torch.randn(12, 6, generator=draw)
        useless = torch.tensor([0, -1, tree.find("all"), tree.find("other")]).repeat(5)
        more = torch.cat([scores, torch.randn(20, 6, generator=draw)]), torch.cat([labels, useless]), classes
        alone = smoothed_temperature(scores, labels, classes)
        assert smoothed_temperature(*more) == pytest.approx(alone, rel=1e-6)
        expected = fit_calibrator(scores, labels, classes, "temperature").temperatures[0]
        assert fit_calibrator(*more, "temperature").temperatures[0] == pytest.approx(expected, rel=1e-6)
        counts = [
            check_calibration(*given, "temperature").samples for given in ((scores, labels, classes), more)
        ]
        assert counts == [12, 12]
        assert soften_few(*more, "temperature")[0] == soften_few(scores, labels, classes, "temperature")[0]
    assert smoothed_temperature(more[0][12:], useless, classes) == 1
    one = ClassNodes(classes.nodes[:1], tree).narrows(torch.tensor([int(labels[0]), tree.find("p"), 0, -1]))
    assert one.tolist() == [True, True, False, False], "one class is left out by nothing but the root"
    two = ClassNodes(classes.nodes[:2], tree).narrows(torch.tensor([int(labels[0]), tree.find("p"), 0, -1]))
    assert two.tolist() == [True, False, False, False]


def test_right_answers_are_certain_to_one_less_the_share_that_is_smoothed():
    """Of two classes, n right labels are certain to 1 − 1/(n + 2), or to half of that more."""
    classes = ClassNodes(TREE.leaves[:2], TREE)
    labels = TREE.leaves[torch.arange(8) % 2]
    scores = math.log(9) * torch.eye(2)[torch.arange(8) % 2].double()  # 0.9 to 0.1
    found = fit_calibrator(scores, labels, classes, "temperature").temperatures[0]
    assert found == pytest.approx(1, rel=1e-5)  # 1 − 1/10
    three = smoothed_temperature(scores[:4], torch.cat([labels[:3], torch.tensor([-1])]), classes)
    assert three == pytest.approx(1, rel=1e-5)  # 1 − 1/5 + 1/10


def test_slopes_and_offsets_are_the_most_likely_with_their_prior():
    """Nothing moves the mean loss and the squares of slopes less 1 and of offsets, over twice the samples."""
    draw = torch.Generator().manual_seed(0)
    classes = ClassNodes(TREE.leaves, TREE)
    labels = TREE.leaves[torch.randint(0, 6, (60,), generator=draw)]
    scores = torch.log_softmax(3 * torch.randn(60, 6, generator=draw).double(), 1)
    found = fit_calibrator(scores, labels, classes, "vector")
    given = torch.tensor([found.slopes, found.offsets], dtype=torch.float64).requires_grad_()
    change = given - torch.tensor([[1.0], [0.0]])
    loss = mean_label_loss(scores * given[0] + given[1], labels, classes) + change.square().sum() / 120
    loss.backward()
    assert given.grad.abs().max() < 1e-4
    quick = fit_calibrator(scores, labels, classes, "vector", quick=True)
    assert quick.slopes != found.slopes


def test_classes_that_are_merged_again_keep_their_temperature():
    scores = PrototypeScores(TREE.leaves[:3], torch.eye(3).double(), "euclidean")
    merged = remap_classes(scores, TREE.leaves[[0, 1, 1]], 2.0)
    again = remap_classes(merged, TREE.leaves[[4, 4]], 3.0)
    assert (again.temperature, again.classes.tolist()) == (2.0, [int(TREE.leaves[4])])
    assert again.columns.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "scale"),
    [*(("temperature", scale) for scale in (1e-6, 1.0, 1e6)), ("depth", 1e-6), ("depth", 1.0)],
)
def test_temperatures_follow_the_size_of_scores(kind, scale):
    """No limit is met by scores that tell the classes apart, however small or large they are."""
    draw = torch.Generator().manual_seed(0)
    classes = ClassNodes(TREE.leaves, TREE)
    places = torch.arange(300) % 6
    scores = torch.randn(300, 6, generator=draw).double() + 1.5 * torch.eye(6)[places]
    usual = fit_calibrator(scores, TREE.leaves[places], classes, "temperature")
    fitted = fit_calibrator(scale * scores, TREE.leaves[places], classes, kind)
    assert fitted.uninformative == ()
    assert max(fitted.temperatures) > 0.3 * scale * usual.temperatures[0]
    if kind == "temperature":
        assert fitted.temperatures[0] == pytest.approx(scale * usual.temperatures[0], rel=1e-4)


@pytest.mark.parametrize("kind", ["temperature", "depth", "vector"])
@pytest.mark.parametrize("count", [12, 240])
def test_scores_without_information_are_no_calibration_that_works(kind, count):
    """The highest score is of a wrong class: a temperature goes to its limit, and slopes go below 0."""
    draw = torch.Generator().manual_seed(0)
    classes = ClassNodes(TREE.leaves, TREE)
    places = torch.randperm(count, generator=draw) % 6
    scores = torch.randn(count, 6, generator=draw).double() - 4 * torch.eye(6)[places]
    rule = fit_rule(scores, TREE.leaves[places], classes, calibration=kind)
    check = rule.check
    assert check.uninformative
    assert "is applied" not in check.sentence
    assert (
        f"carry no information on these {check.samples} labelled calibration samples" in check.sentence
        or (kind == "depth" and "carry no information at depth" in check.sentence)
    )
    assert check.to_dict()["warning"] == check.sentence, "what predict and info say"


def test_the_depth_without_information_is_named():
    draw = torch.Generator().manual_seed(0)
    classes = ClassNodes(TREE.leaves, TREE)
    places = torch.arange(240) % 6
    scores = 3.0 * (places[:, None] // 3 == torch.arange(6) // 3) + torch.randn(240, 6, generator=draw)
    scores[torch.arange(240), places] -= 2
    check = fit_rule(scores.double(), TREE.leaves[places], classes, calibration="depth").check
    assert check.uninformative == (2,)
    assert f"carry no information at depth 2 on these {check.samples} labelled" in check.sentence


def test_a_class_beyond_the_scores_of_a_ridge_head_is_refused() -> None:
    tensors = {
        "classes": torch.tensor([1, 2]), "columns": torch.tensor([0, 2]),
        "weight": torch.zeros(4, 3, dtype=torch.float64), "bias": torch.zeros(3, dtype=torch.float64),
        "calibration": torch.ones(2, 3, dtype=torch.float64),
    }  # fmt: skip
    assert ridge_scores_from(tensors).columns.tolist() == [0, 2]
    for column in (3, -1):
        with pytest.raises(DataError, match="do not go together"):
            ridge_scores_from(tensors | {"columns": torch.tensor([0, column])})


def test_an_answer_at_an_inner_label_is_the_label() -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b"])
    inner, leaf = tree.encode(["a", "a/x"]).tolist()
    scores = answer_scores(torch.tensor([inner, leaf, inner]), torch.tensor([inner, leaf, leaf]), tree)
    assert scores["right_leaf"] == pytest.approx(2 / 3)
    assert scores["coverage"] == 1
