"""The splits of the emoji: fixed, and no drawing or class on two sides."""

import itertools
from collections import Counter, defaultdict

import pytest
import torch

from labeltree.data import make_splits, open_source
from labeltree.studies.named_data import emoji as splits
from labeltree.studies.named_data.emoji_drawings import EmojiImages
from labeltree.studies.named_data.emoji_icons import STYLES, Emoji, family_of

pytestmark = pytest.mark.slow

NAMES = ["emoji", "emoji-near", "emoji-far", "emoji-other", "emoji-unseen", "emoji-seen"]
NAMES += [f"emoji-few-{count}" for count in splits.FEW]


@pytest.fixture
def images(tmp_path, monkeypatch) -> EmojiImages:
    """60 emoji, some missing in some styles, two in noto and the test styles alone."""
    emoji = [
        Emoji(f"{0x1F900 + n:x}", f"thing {n}", f"group {n % 3}", f"subgroup {n % 6}") for n in range(56)
    ]
    runner = ("1f3c3", "1f3c3-200d-2640", "1f3c3-200d-2642", "1f3c3-200d-27a1")
    emoji += [Emoji(code, f"runner {code}", "group 0", "subgroup 0") for code in runner]
    pairs = [
        (style.name, number)
        for style in STYLES
        for number in range(len(emoji))
        if not (number < 2 and style.family not in ("noto", splits.NEAR, splits.FAR))
        and not (style.name == "fxemoji" and number % 3)
    ]
    failed = {next(i for i, pair in enumerate(pairs) if pair == ("noto", 0)): "it fell down"}
    path = tmp_path / "images.bin"
    path.write_bytes(bytes(len(pairs) * 3 * 64 * 64))
    made = EmojiImages(path, emoji, [s for s, _ in pairs], [n for _, n in pairs], failed, "")
    monkeypatch.setattr(splits, "read_images", lambda folder: made)
    monkeypatch.setattr("labeltree.data.opening_sources.require_files", lambda entry, path: None)
    return made


def parts(name):
    source = open_source(name)
    return {split: source.of_split(split) for split in ("train", "val", "test")}


def styles_of(source):
    return {path.split("/")[0] for path in source.paths(range(len(source)))}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_on_two_sides(images, name):
    source = open_source(name)
    assert make_splits(source).split.tolist() == source.split.tolist()  # which refuses groups that are parted
    sides = parts(name)
    assert all(len(side) for side in sides.values())
    families = {side: {family_of(style) for style in styles_of(part)} for side, part in sides.items()}
    assert not families["train"] & families["val"]
    if name != "emoji-unseen":
        assert not families["test"] & (families["train"] | families["val"])
        assert set(sides["test"].nodes.tolist()) <= set(sides["train"].nodes.tolist())
        assert set(sides["val"].nodes.tolist()) <= set(sides["train"].nodes.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_every_data_set_numbers_and_labels_the_images_alike(images, name):
    whole, source = open_source("emoji"), open_source(name)
    label = dict(zip(whole.instances.tolist(), whole.nodes.tolist(), strict=True))
    for instance, node, path in zip(
        source.instances.tolist(), source.nodes.tolist(), source.paths(range(len(source))), strict=True
    ):
        assert path == images.name(instance)
        assert label.get(instance, node) == node
        assert source.taxonomy.names[node] == path.split(" ", 1)[1]


@pytest.mark.parametrize("name", NAMES)
def test_validation_images_have_something_to_find(images, name):
    counts = Counter(parts(name)["val"].nodes.tolist())
    assert sum(count == 2 for count in counts.values()) > len(counts) / 4


def test_near_and_far_make_up_the_test(images):
    whole, near, far = parts("emoji"), parts("emoji-near"), parts("emoji-far")
    assert styles_of(near["test"]) == {"twemoji"}
    assert styles_of(far["test"]) == {"openmoji"}
    both = torch.cat([near["test"].instances, far["test"].instances])
    assert sorted(both.tolist()) == whole["test"].instances.tolist()
    for part in (near, far):
        assert torch.equal(part["train"].instances, whole["train"].instances)
        assert torch.equal(part["val"].instances, whole["val"].instances)


def test_other_styles_are_tested_on_than_those_of_emoji(images):
    whole, other = parts("emoji"), parts("emoji-other")
    assert styles_of(other["test"]) == {"noto", "emojione-v1"}
    assert styles_of(other["test"]) <= styles_of(whole["train"])
    assert styles_of(whole["test"]) <= styles_of(other["train"])
    assert torch.equal(other["val"].instances, whole["val"].instances)


def test_classes_without_training_images_are_not_tested_on(images):
    # Of "thing 0" noto's drawing failed, and there was no other to learn from.
    source = open_source("emoji")
    labels = {source.taxonomy.names[node] for node in source.nodes.tolist()}
    assert labels == {one.label for one in images.emoji} - {"thing 0"}


def test_few_styles_are_nested_and_as_many_as_wanted(images):
    whole = parts("emoji")
    available = Counter(whole["train"].nodes.tolist())
    smaller: set[int] = set()
    for count in splits.FEW:
        few = parts(f"emoji-few-{count}")
        assert torch.equal(few["test"].instances, whole["test"].instances)
        chosen = set(few["train"].instances.tolist())
        assert smaller <= chosen <= set(whole["train"].instances.tolist())
        smaller = chosen
        counts = Counter(few["train"].nodes.tolist())
        assert counts == {node: min(count, there) for node, there in available.items()}
    four = parts("emoji-few-4")["train"]
    families = defaultdict(set)
    for node, path in zip(four.nodes.tolist(), four.paths(range(len(four))), strict=True):
        families[node].add(family_of(path.split("/")[0]))
    everywhere = [n for n in available if available[n] == 8]
    assert everywhere
    assert all(len(families[node]) == 4 for node in everywhere)


def test_one_style_is_not_the_same_for_all(images):
    assert len(styles_of(parts("emoji-few-1")["train"])) > 4


def test_unseen_and_seen_emoji(images):
    unseen, seen = parts("emoji-unseen"), parts("emoji-seen")
    tested, learned = set(unseen["test"].nodes.tolist()), set(unseen["train"].nodes.tolist())
    assert not tested & (learned | set(unseen["val"].nodes.tolist()))
    assert torch.equal(unseen["train"].instances, seen["train"].instances)
    assert set(seen["test"].nodes.tolist()) <= learned
    # One style of each family, so that nothing has a near-copy beside it.
    families = Counter(family_of(style) for style in styles_of(unseen["test"]))
    assert set(families.values()) == {1}
    assert len(families) == len({style.family for style in STYLES})
    taxonomy = open_source("emoji").taxonomy
    above = Counter(taxonomy.parent[list(tested)].tolist())
    for subgroup, size in Counter(taxonomy.parent[taxonomy.leaves].tolist()).items():
        assert above[subgroup] <= round(0.2 * size)
    assert 0.15 <= len(tested) / taxonomy.num_leaves <= 0.25


def test_variants_of_a_person_are_one_concept(images):
    runners = {one.code for one in images.emoji if one.label.startswith("runner")}
    unseen = splits.unseen_emoji(images.emoji)
    assert len(unseen & runners) in (0, len(runners))
    same = [
        ["1f468-200d-1f3eb", "1f469-200d-1f3eb", "1f9d1-200d-1f3eb"],
        ["1f468", "1f469", "1f9d1"],
        ["1f466", "1f467", "1f9d2"],
        ["1f550", "1f55c", "1f567"],
        ["1f46b", "1f46c", "1f9d1-200d-1f91d-200d-1f9d1"],
        ["1f9d1-200d-1f9bd", "1f469-200d-1f9bd-200d-27a1"],
        ["1f935", "1f935-200d-2642"],
    ]
    concepts = [{splits.concept(Emoji(code, "", "", "")) for code in codes} for codes in same]
    assert all(len(one) == 1 for one in concepts)
    assert not any(a & b for a, b in itertools.combinations(concepts, 2))


def test_the_draws_never_change():
    # Whoever changes these numbers makes other data sets of the same name.
    styles = [style.name for style in STYLES if splits.split_of_style(style.name) == "train"]
    assert splits.few_styles("1f600", styles, 4) == [
        "fluent-emoji",
        "emojione-monotone",
        "noto",
        "emojione-v1",
    ]
    emoji = [Emoji(f"{0x1F600 + n:x}", str(n), "g", f"s{n % 4}") for n in range(40)]
    unseen = "1f610 1f612 1f615 1f61a 1f61d 1f623 1f624 1f627"
    assert sorted(splits.unseen_emoji(emoji)) == unseen.split()
    sides = {style.name: splits.split_of_style(style.name) for style in STYLES}
    assert {name for name, side in sides.items() if side != "train"} == {
        "noto-v1",
        "fxemoji",
        "twemoji",
        "openmoji",
    }
