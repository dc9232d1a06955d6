"""Splits: groups never part, labels are balanced, and nothing but seed and ids decides."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree.data import ArrayStore, Source, make_splits, split_by_group
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([(f"c{i % 3}", f"leaf{i}") for i in range(12)])


def source_of(nodes, groups=None, split=None, instances=None):
    n = len(nodes)
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=torch.as_tensor(nodes, dtype=torch.int64),
        instances=torch.arange(n) if instances is None else torch.as_tensor(instances),
        store=ArrayStore(np.zeros((n, 2, 2), np.uint8)),
        rows=torch.arange(n),
        groups=None if groups is None else torch.as_tensor(groups, dtype=torch.int64),
        split=None if split is None else np.array(split),
    )


def of(source, split):
    return set(source.instances[torch.from_numpy(source.split == split)].tolist())


def counts(source, split):
    return torch.bincount(source.of_split(split).nodes + 1, minlength=TREE.num_nodes + 1)


@settings(max_examples=60)
@given(
    samples=st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 6)), min_size=3, max_size=60),
    val=st.sampled_from([0.0, 0.1, 0.4]),
    test=st.sampled_from([0.0, 0.2, 0.6]),
    seed=st.integers(0, 3),
    limit=st.sampled_from([None, 1, 7, 1000]),
)
def test_groups_never_part(samples, val, test, seed, limit):
    nodes, groups = zip(*samples, strict=True)
    source = source_of(nodes, groups)
    if len({g for g in groups if g >= 0}) + sum(g < 0 for g in groups) < 3:
        return  # too few groups to make three splits
    result = make_splits(source, val=val, test=test, seed=seed, limit=limit)
    assert set(result.split.tolist()) <= {"train", "val", "test"}
    assert len(result.instances.unique()) == len(result)
    sides = {}
    for group, split in zip(result.groups.tolist(), result.split.tolist(), strict=True):
        if group >= 0:
            assert sides.setdefault(group, split) == split
    whole = make_splits(source, val=val, test=test, seed=seed)
    assert len(whole) == len(source)
    for name, share in (("train", 1), ("val", val), ("test", test)):
        assert (len(of(whole, name)) > 0) == (share > 0)
    # A limit takes samples away, and never from the test split.
    assert of(result, "test") == of(whole, "test")
    assert of(result, "val") <= of(whole, "val")
    assert of(result, "train") <= of(whole, "train")
    left = len(source) - len(of(whole, "test"))
    assert len(result) - len(of(result, "test")) == min(left, limit or left)


@settings(max_examples=40)
@given(
    nodes=st.lists(st.integers(-1, 15), min_size=2, max_size=80),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 5),
)
def test_labels_get_their_share(nodes, share, seed):
    labels = np.array(nodes)
    n = len(labels)
    held_out = split_by_group(labels, np.arange(n), np.arange(n), share, seed)
    wanted = min(max(1, round(share * n)), n - 1)
    assert len(held_out) == wanted
    assert (np.diff(held_out) > 0).all()
    several = [label for label in set(nodes) if nodes.count(label) > 1]
    candidates = sum(nodes.count(label) for label in several)
    if candidates > wanted and candidates >= min(2 * share, 0.5) * n:
        for label in set(nodes):
            exact = nodes.count(label) * wanted / candidates if label in several else 0
            assert abs((labels[held_out] == label).sum() - exact) < 1


def test_shares_of_a_balanced_source():
    nodes = np.repeat(TREE.leaves.numpy(), 100)
    result = make_splits(source_of(nodes), val=0.1, test=0.2)
    assert [len(of(result, split)) for split in ("train", "val", "test")] == [864, 96, 240]
    assert counts(result, "test")[TREE.leaves + 1].unique().tolist() == [20]
    assert counts(result, "val")[TREE.leaves + 1].tolist() == [8] * 12
    limited = make_splits(source_of(nodes), val=0.1, test=0.2, limit=480)
    assert [len(of(limited, split)) for split in ("train", "val", "test")] == [432, 48, 240]
    assert counts(limited, "train")[TREE.leaves + 1].tolist() == [36] * 12


@pytest.mark.parametrize(
    ("samples", "held"), [(80, 9), (180, 19), (182, 19), (190, 20), (200, 20), (170, 17)]
)
def test_one_more_sample_is_held_out_where_answers_can_promise_more_then(samples, held):
    """9 samples for a coverage of 0.9, 19 for unknown classes at 0.05, 20 for drift."""
    nodes = np.resize(TREE.leaves.numpy(), samples)
    whole = make_splits(source_of(nodes), val=0.1, test=0.0)
    assert len(of(whole, "val")) == held
    aside = make_splits(source_of(nodes), val=0.0, test=0.0, calib=0.1)
    assert len(of(aside, "calib")) == held
    pairs = make_splits(source_of(nodes, groups=np.arange(samples) // 2), val=0.1, test=0.0)
    assert len(of(pairs, "val")) % 2 == 0, "groups stay whole"


def test_groups_keep_the_labels_balanced():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), rng.integers(1, 9, 300))
    nodes = TREE.leaves.numpy()[(groups + (rng.random(len(groups)) < 0.2)) % 12]
    result = make_splits(source_of(nodes, groups), val=0.2, test=0.25)
    n = len(nodes)
    assert abs(len(of(result, "test")) / n - 0.25) < 0.02
    assert abs(len(of(result, "val")) / (n - len(of(result, "test"))) - 0.2) < 0.02
    share = counts(result, "test")[TREE.leaves + 1] / torch.bincount(torch.from_numpy(nodes))[TREE.leaves]
    assert (share - 0.25).abs().max() < 0.06


def test_order_of_samples_does_not_matter():
    nodes = np.tile(TREE.leaves.numpy(), 20)
    groups = np.arange(240) // 3
    order = np.random.default_rng(1).permutation(240)
    for given_groups in (None, groups):
        one = make_splits(source_of(nodes, given_groups), limit=100)
        other = make_splits(
            source_of(nodes[order], None if given_groups is None else groups[order], instances=order),
            limit=100,
        )
        for split in ("train", "val", "test"):
            assert of(one, split) == of(other, split)


def test_seeds_differ_and_repeat():
    source = source_of(np.tile(TREE.leaves.numpy(), 20))
    assert of(make_splits(source, seed=1), "test") == of(make_splits(source, seed=1), "test")
    assert of(make_splits(source, seed=1), "test") != of(make_splits(source, seed=2), "test")
    # The test split does not move when the validation share or the limit does.
    assert of(make_splits(source, val=0.3, limit=50), "test") == of(make_splits(source), "test")


def test_splits_of_the_data_set_are_kept():
    nodes = np.tile(TREE.leaves.numpy(), 10)
    official = ["test" if i < 30 else "train" for i in range(120)]
    result = make_splits(source_of(nodes, split=official), val=0.1)
    assert of(result, "test") == set(range(30))
    assert len(of(result, "val")) == 9
    complete = [["test", "val", "train", ""][i % 4] for i in range(120)]
    result = make_splits(source_of(nodes, split=complete), val=0.5, test=0.5)
    assert of(result, "val") == set(range(1, 120, 4))
    assert of(result, "train") == set(range(2, 120, 4)) | set(range(3, 120, 4))
    # A validation split without a test split: the test is drawn from the training samples.
    only_val = ["val" if i % 4 == 0 else "train" for i in range(120)]
    result = make_splits(source_of(nodes, split=only_val), test=0.2)
    assert of(result, "val") == set(range(0, 120, 4))
    assert len(of(result, "test")) == 18


def test_given_splits_that_part_a_group():
    source = source_of([1, 2, 3, 4], [0, 1, 1, -1], ["train", "test", "train", "train"])
    with pytest.raises(DataError, match=r"divide 1 group.*sample 1 lies in test and train"):
        make_splits(source)
    fine = source_of([1, 2, 3, 4, 5], [0, 1, 1, -1, -1], ["train", "test", "test", "train", "train"])
    assert of(make_splits(fine, val=0.3), "test") == {1, 2}
    with pytest.raises(DataError, match="has a split 'holdout'"):
        make_splits(source_of([1, 2], split=["holdout", "train"]))


@pytest.mark.parametrize("groups", [None, [4]])
def test_too_few_to_split(groups):
    with pytest.raises(DataError, match="cannot be split"):
        make_splits(source_of([1], groups))
    with pytest.raises(DataError, match="cannot be split"):
        make_splits(source_of([1, 2, 3], [4, 4, 4]))


@pytest.mark.parametrize("wrong", [{"val": 1.0}, {"test": -0.1}, {"limit": 0}])
def test_arguments_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make_splits(source_of([1, 2, 3]), **wrong)


def test_single_samples_of_a_label_stay_in_training():
    nodes = np.concatenate([np.repeat(TREE.leaves.numpy()[:2], 50), TREE.leaves.numpy()[2:]])
    result = make_splits(source_of(nodes), val=0.2, test=0.2)
    assert of(result, "train") >= set(range(100, 110))


def test_limits_of_one_split_leave_the_others():
    nodes = TREE.leaves[torch.arange(480) % 12]
    whole = make_splits(source_of(nodes))
    few = make_splits(source_of(nodes), train_limit=36, test_limit=24)
    assert of(few, "val") == of(whole, "val")
    assert of(few, "train") < of(whole, "train")
    assert of(few, "test") < of(whole, "test")
    # Drawn evenly over the labels.
    assert counts(few, "train")[1:][TREE.leaves].tolist() == [3] * 12
    assert counts(few, "test")[1:][TREE.leaves].tolist() == [2] * 12
    smaller = make_splits(source_of(nodes), limit=120, train_limit=36)
    assert len(of(smaller, "train")) == 36
    assert len(of(smaller, "val")) == 12
    for name in ("train_limit", "test_limit"):
        with pytest.raises(ValueError, match=f"{name} is 0; it must be 1 or more"):
            make_splits(source_of(nodes), **{name: 0})


def shop(per_product=4, products=504, departments=3, categories=12):
    """Products below categories below departments; each product is one group of images."""
    tree = Taxonomy.from_paths(
        [(f"d{i % departments}", f"c{i % categories}", f"p{i}") for i in range(products)]
    )
    nodes = tree.leaves.repeat_interleave(per_product)
    return tree, nodes, torch.arange(products).repeat_interleave(per_product)


def split_of(tree, nodes, groups, **options):
    n = len(nodes)
    source = Source(
        "shop",
        tree,
        torch.as_tensor(nodes),
        torch.arange(n),
        ArrayStore(np.zeros((n, 1, 1), np.uint8)),
        torch.arange(n),
        groups=None if groups is None else torch.as_tensor(groups),
    )
    return make_splits(source, **options)


def shares(source, depth, split="test"):
    """The share of each node of a depth that is in a split."""
    tree = source.taxonomy
    at = tree.ancestors[source.nodes, depth]
    here = tree.ancestors[source.of_split(split).nodes, depth]
    names = at[at >= 0].unique()
    return torch.stack([(here == name).sum() / (at == name).sum() for name in names])


@pytest.mark.parametrize("seed", [0, 1])
def test_products_that_are_one_group_each_are_held_out_whole(seed):
    """Of 2,016 images of 504 products, four each, the test gets its share, evenly below each category."""
    result = split_of(*shop(), seed=seed)
    assert abs(len(of(result, "test")) / 2016 - 0.2) < 0.01
    assert abs(len(of(result, "val")) / (2016 - len(of(result, "test"))) - 0.1) < 0.01
    for depth in (1, 2):
        assert (shares(result, depth) - 0.2).abs().max() < 0.03
        assert (shares(result, depth, "val") - 0.08).abs().max() < 0.04
    products = [set(result.of_split(split).nodes.tolist()) for split in ("train", "val", "test")]
    assert sum(map(len, products)) == 504  # no product is parted


def test_categories_of_two_products_are_balanced_by_their_department():
    """No category of two can give a fifth; the departments above them can."""
    result = split_of(*shop(products=480, categories=240))
    assert (shares(result, 1) - 0.2).abs().max() < 0.03


def test_labels_of_two_groups_give_their_share_together():
    tree = Taxonomy.from_paths([(f"c{i}",) for i in range(100)])
    nodes = tree.leaves.repeat_interleave(6)
    result = split_of(tree, nodes, torch.arange(200).repeat_interleave(3))
    assert abs(len(of(result, "test")) / 600 - 0.2) < 0.06  # none gives a fifth, some give a half
    assert set(result.of_split("test").nodes.tolist()) <= set(result.of_split("train").nodes.tolist())


def test_a_flat_shop_is_split_at_the_root():
    tree = Taxonomy.from_paths([(f"p{i}",) for i in range(50)])
    result = split_of(tree, tree.leaves.repeat_interleave(4), torch.arange(50).repeat_interleave(4))
    assert len(of(result, "test")) == 40
    assert len(of(result, "val")) == 16


def test_few_labels_of_one_group_stay_in_training():
    """Rare diagnoses with one patient each are no reason to test on what training has not seen."""
    tree = Taxonomy.from_paths([("common", "a"), ("common", "b")] + [("rare", f"r{i}") for i in range(10)])
    nodes = torch.cat(
        [tree.encode(["a", "b"]).repeat_interleave(120), tree.encode([f"r{i}" for i in range(10)]).repeat(3)]
    )
    groups = torch.cat([torch.arange(80).repeat_interleave(3), 80 + torch.arange(10).repeat(3)])
    result = split_of(tree, nodes, groups)
    assert set(result.of_split("test").nodes.tolist()) == set(tree.encode(["a", "b"]).tolist())


def test_products_of_several_groups_are_parted_and_the_others_held_out_whole():
    tree, nodes, groups = shop(per_product=8, products=120)
    few = nodes < nodes.median()  # a department and a half has two groups a product, the rest one
    groups = torch.where(few, 1000 + 2 * groups + torch.arange(8).repeat(120) % 2, groups)
    result = split_of(tree, nodes, groups, test=0.3)
    assert abs(len(of(result, "test")) / 960 - 0.3) < 0.02
    learned = set(result.of_split("train").nodes.tolist()) | set(result.of_split("val").nodes.tolist())
    tested = result.of_split("test").nodes
    several = tested < nodes.median()
    assert 0 < several.sum() < len(tested)
    assert sum(node not in learned for node in set(tested[~several].tolist())) == len(
        tested[~several].unique()
    )


def test_groups_across_labels_stay_whole():
    """A family of products is one group of several labels."""
    tree, nodes, groups = shop(products=240)
    result = split_of(tree, nodes, groups // 3)
    assert abs(len(of(result, "test")) / 960 - 0.2) < 0.02
    families = [set((result.of_split(s).groups).tolist()) for s in ("train", "val", "test")]
    assert sum(map(len, families)) == 80


def test_samples_without_a_group_are_their_own():
    tree, nodes, groups = shop(products=60)
    groups[::2] = -1  # each product is one group and two samples alone
    result = split_of(tree, nodes, groups)
    assert abs(len(of(result, "test")) / 240 - 0.2) < 0.03
    assert set(result.of_split("test").nodes.tolist()) <= set(result.of_split("train").nodes.tolist())


def test_one_sample_a_class_is_held_out_below_every_parent():
    tree, nodes, _ = shop(per_product=1, products=120)
    for seed in range(3):
        result = split_of(tree, nodes, None, seed=seed)
        assert len(of(result, "test")) == 24
        assert shares(result, 2).tolist() == pytest.approx([0.2] * 12)


def test_classes_with_few_samples_are_held_out_all_over_the_tree():
    """Four samples a class, a fifth to hold out: the classes that give none are not the last of the tree."""
    tree, nodes, _ = shop(per_product=4, products=120)
    result = split_of(tree, nodes, None)
    assert len(of(result, "test")) == 96
    assert (shares(result, 2) - 0.2).abs().max() < 0.03
    limited = split_of(tree, nodes, None, train_limit=60)
    left = tree.ancestors[limited.of_split("train").nodes, 2].bincount()
    assert left[left > 0].tolist() == pytest.approx([5] * 12, abs=1)
    others = split_of(tree, nodes, None, seed=1)
    assert of(result, "test") != of(others, "test")


@pytest.mark.parametrize(("groups", "least"), [(1, 3), (2, 3)])
def test_too_few_groups_say_what_to_do(groups, least):
    tree, nodes, _ = shop(products=12)
    with pytest.raises(
        DataError, match=f"48 samples in {groups} group.*{least} groups are the least. Give the"
    ):
        split_of(tree, nodes, torch.arange(48) % groups)
    parted = split_of(tree, nodes, torch.arange(48) % 3)
    assert [len(of(parted, split)) for split in ("train", "val", "test")] == [16, 16, 16]


def test_samples_set_aside_for_promises_come_from_training_alone():
    nodes, groups = torch.arange(600) % 12 + 4, torch.arange(600) // 4
    source = source_of(nodes.clamp(max=15), groups)
    plain, result = make_splits(source), make_splits(source, calib=0.25)
    for split in ("val", "test"):
        assert of(result, split) == of(plain, split)
    assert of(result, "train") | of(result, "calib") == of(plain, "train")
    assert len(of(result, "calib")) == pytest.approx(0.25 * len(of(plain, "train")), abs=8)
    sides = {int(group): set() for group in groups.unique()}
    for group, split in zip(result.groups.tolist(), result.split.tolist(), strict=True):
        sides[group].add(split)
    assert all(len(side) == 1 for side in sides.values())
    small = make_splits(source, calib=0.25, limit=100)
    assert len(small) == 100 + len(of(result, "test"))
    for split in ("train", "val", "calib"):
        assert 0 < len(of(small, split)) < len(of(result, split))
    kept = source_of([4, 5, 6, 7], split=["calib", "train", "val", "test"])
    assert make_splits(kept, calib=0.5).split.tolist() == ["calib", "train", "val", "test"]
    with pytest.raises(ValueError, match=r"calib is 1\.0; it must be a share"):
        make_splits(source, calib=1.0)
