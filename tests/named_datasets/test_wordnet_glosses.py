"""Glosses below a synset, on a miniature dictionary; splits by hash."""

from pathlib import Path

import numpy as np
import pytest
from official_layouts import check

from labeltree.data import check_layout, get_dataset, make_splits, open_source
from labeltree.datasets import read_glosses
from labeltree.datasets.formats.hash_splits import hash_fraction, hash_splits, stratified_hash_splits
from labeltree.datasets.wordnet import definition
from labeltree.errors import DataError, TaxonomyError

# offset: word, pointers (@ hypernym, @i instance hypernym), gloss
Synsets = dict[int, tuple[str, list[tuple[str, int]], str]]


def animals() -> Synsets:
    """An animal with 12 dogs, of which one is also a pet, 10 cats, 3 fish, one named dog, and a chain."""
    synsets: Synsets = {
        1000: ("entity", [], "that which is"),
        1100: ("animal", [("@", 1000)], "a living organism"),
        1200: ("pet", [("@", 1100)], "an animal that is kept"),
        1300: ("canine", [("@", 1100)], "a fissiped mammal"),
        1400: ("dog", [("@", 1300), ("@", 1200)], 'Canis familiaris; "the dog barked all night"'),
        1500: ("cat", [("@", 1200)], "a feline"),
        1600: ("fish", [("@", 1100)], "with gills"),
        1700: ("lassie", [("@i", 1400)], "a dog in films"),
        1800: ("stone", [("@", 1000)], "no animal"),
    }
    for number in range(12):
        synsets[2000 + number] = (f"hound{number}", [("@", 1400)], f'hunts the {number}; "a hound"; "bark"')
    for number in range(10):
        synsets[3000 + number] = (f"tabby{number}", [("@", 1500)], f"has {number} stripes")
    for number in range(3):
        synsets[4000 + number] = (f"trout{number}", [("@", 1600)], f"swims {number}")
    synsets[2011] = (synsets[2011][0], [("@", 1800), ("@", 1400)], "has 3 stripes")  # as a tabby has
    return synsets


def write_wordnet(folder: Path, synsets: Synsets) -> Path:
    data = ["  1 the licence  \n"]
    index = ["  1 the licence  \n"]
    for offset, (word, pointers, gloss) in synsets.items():
        aims = "".join(f"{symbol} {target:08d} n 0000 " for symbol, target in pointers)
        data.append(f"{offset:08d} 05 n 01 {word} 0 {len(pointers):03d} {aims}| {gloss}  \n")
        index.append(f"{word} n 1 1 @ 1 0 {offset:08d}  \n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.noun").write_text("".join(data))
    (folder / "index.noun").write_text("".join(index))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_wordnet(tmp_path / "wordnet", animals())


def test_classes_are_synsets_with_enough_leaves_below(folder: Path) -> None:
    source = read_glosses(folder)
    tree = source.taxonomy
    # the first hypernym counts: dogs are below canine, not pet; fish have 3 leaves, so they are the animal's
    assert [tree.path_name(node) for node in range(tree.num_nodes)] == [
        "/", "pet.n.01", "pet.n.01/cat.n.01", "canine.n.01", "canine.n.01/dog.n.01",
    ]  # fmt: skip
    assert tree.names[0] == "animal.n.01"
    names = [tree.names[node] for node in source.nodes.tolist()]
    assert {name: names.count(name) for name in names} == {
        "dog.n.01": 12, "cat.n.01": 10, "animal.n.01": 3,
    }  # fmt: skip


def test_texts_are_definitions_alone(folder: Path) -> None:
    source = read_glosses(folder)
    assert source.modalities == ("text",)
    texts = source.read(range(len(source)))
    assert "hunts the 4" in texts
    assert not any('"' in text or "hound" in text or "films" in text for text in texts)


def test_equal_definitions_are_a_group_and_splits_are_fixed(folder: Path) -> None:
    source = read_glosses(folder)
    twins = [i for i, text in enumerate(source.texts or ()) if text == "has 3 stripes"]
    assert len(twins) == 2
    assert source.groups is not None
    assert source.split is not None
    assert source.groups[twins[0]] == source.groups[twins[1]]
    assert source.split[twins[0]] == source.split[twins[1]]
    assert len(set(source.groups.tolist())) == len(source) - 1
    again = make_splits(source).split  # complete, and groups do not part
    assert again is not None
    assert again.tolist() == source.split.tolist()


def test_the_split_goes_by_the_texts(tmp_path: Path) -> None:
    synsets = animals()
    del synsets[2011]  # without the equal texts, which are in the stratum of the first
    sides = []
    for name, reverse in (("forwards", False), ("backwards", True)):
        source = read_glosses(write_wordnet(tmp_path / name, dict(sorted(synsets.items(), reverse=reverse))))
        assert source.split is not None
        sides.append(dict(zip(source.texts or (), source.split.tolist(), strict=True)))
    assert sides[0] == sides[1]
    assert list(sides[0]) != list(sides[1])


def test_the_data_set_is_opened_by_name(folder: Path) -> None:
    assert len(open_source("wordnet-animals", data_path=folder)) == 25
    published = get_dataset("wordnet-animals").published
    assert published is not None
    assert sum(published.splits.values()) == 2_946
    assert sum(count or 0 for count in published.classes) == 190
    (folder / "index.noun").unlink()
    with pytest.raises(DataError, match=r"there is no '.*index.noun' .*labeltree data get wordnet-animals"):
        open_source("wordnet-animals", data_path=folder)


def test_another_dictionary_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'fungus.n.01' is not one synset"):
        read_glosses(folder, root="fungus.n.01")
    with pytest.raises(DataError, match=r"has 0 class\(es\) with 99 leaves or more"):
        read_glosses(folder, least=99)
    synsets = animals()
    synsets[1300] = ("canine", [("@", 1400), ("@", 1100)], "below itself")
    with pytest.raises(TaxonomyError, match="cycle"):
        read_glosses(write_wordnet(tmp_path / "circle", synsets))
    (folder / "data.noun").write_bytes(b"")
    with pytest.raises(DataError, match="is not one synset"):
        read_glosses(write_wordnet(tmp_path / "empty", {}))


@pytest.mark.parametrize(
    ("gloss", "text"),
    [
        ('usually sterile; "a hinny is gentle"; "it is"', "usually sterile"),
        ('known as "the king" of beasts; "a lion"', 'known as "the king" of beasts'),
        ('"an example alone"', ""),
        ("no example; but two parts", "no example; but two parts"),
    ],
)
def test_definition(gloss: str, text: str) -> None:
    assert definition(gloss) == text


def test_hash_splits_do_not_move() -> None:
    assert [round(hash_fraction(key), 6) for key in ("", "apt", "wörter")] == [0.889416, 0.312647, 0.524623]
    keys = [f"package {i}" for i in range(2000)]
    split = hash_splits(keys, val=0.1, test=0.3)
    assert np.array_equal(hash_splits(keys[::-1], val=0.1, test=0.3), split[::-1])
    shares = [(split == side).mean() for side in ("train", "val", "test")]
    assert shares == pytest.approx([0.6, 0.1, 0.3], abs=0.03)


def test_strata_give_their_shares_and_equal_keys_stay_together() -> None:
    keys = [f"text {i}" for i in range(60)]
    strata = ["a"] * 40 + ["b"] * 10 + ["c"] * 9 + ["d"]
    split = stratified_hash_splits([*keys, "text 0"], [*strata, "d"], val=0.1, test=0.3)
    assert split[-1] == split[0]
    for stratum, counts in {"a": [24, 4, 12], "b": [6, 1, 3], "c": [5, 1, 3], "d": [1, 0, 0]}.items():
        own = split[:-1][np.array(strata) == stratum]
        assert [(own == side).sum() for side in ("train", "val", "test")] == counts


def test_check(folder: Path) -> None:
    samples, labels, problems = check("wordnet-animals", folder)
    assert sum(samples.values()) == len(read_glosses(folder))
    assert problems == [f"labels have {len(labels)} depths where 10 are expected"]
    assert not check_layout(get_dataset("wordnet-animals"), folder.parent).samples
