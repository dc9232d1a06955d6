"""WordNet's data files, on a miniature in the same format that the test writes."""

from pathlib import Path

import pytest

from labeltree.data import wordnet_dag, wordnet_taxonomy
from labeltree.data.wordnet_files.wordnet_files import WordNetNouns
from labeltree.errors import TaxonomyError

# offset: words, pointers (@ hypernym, @i instance hypernym, ~ hyponym, # part), gloss
SYNSETS: dict[int, tuple[list[str], list[tuple[str, int]], str]] = {
    1740: (["entity"], [("~", 1930)], "that which is"),
    1930: (["animal", "beast"], [("@", 1740), ("+", 1930)], "a living organism; \"he | she\""),
    2000: (["domestic_animal"], [("@", 1930)], "kept by people"),
    2100: (["canine"], [("@", 1930)], "a fissiped mammal"),
    2200: (["dog", "domestic_dog"], [("@", 2100), ("@", 2000), ("#m", 2100)], "Canis familiaris"),
    2300: (["dog"], [("@", 1740)], "an andiron"),
    2400: (["Lassie"], [("@i", 2200)], "a dog in films"),
    2500: (["wolf"], [("@", 2100)], "a wild canine"),
    2600: (["crane"], [("@", 1930)], "a bird"),
    2700: (["crane"], [("@", 1740)], "a machine"),
}  # fmt: skip
SENSES = {"dog": [2200, 2300], "crane": [2700, 2600]}


def write_wordnet(folder: Path) -> Path:
    licence = "  1 This software and database is being provided to you, the LICENSEE, by  \n"
    data, senses = [licence], dict(SENSES)
    for offset, (words, pointers, gloss) in SYNSETS.items():
        listed = " ".join(f"{word} 0" for word in words)
        aims = "".join(f"{symbol} {target:08d} n 0000 " for symbol, target in pointers)
        data.append(f"{offset:08d} 05 n {len(words):02x} {listed} {len(pointers):03d} {aims}| {gloss}  \n")
        for word in words:
            senses.setdefault(word.lower(), [offset])
    index = [licence]
    for word in sorted(senses):
        offsets = " ".join(f"{offset:08d}" for offset in senses[word])
        index.append(f"{word} n {len(senses[word])} 2 @ ~ {len(senses[word])} 1 {offsets}  \n")
    folder.mkdir(exist_ok=True)
    (folder / "data.noun").write_text("".join(data))
    (folder / "index.noun").write_text("".join(index))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_wordnet(tmp_path / "dict")


def test_synsets(folder: Path) -> None:
    nouns = WordNetNouns(folder)
    dog = nouns.synsets[2200]
    assert dog.words == ("dog", "domestic_dog")
    assert dog.hypernyms == (2100, 2000)
    assert nouns.synsets[2400].classes == (2200,)
    assert nouns.synsets[1930].gloss == 'a living organism; "he | she"'
    assert [nouns.name(offset) for offset in (2200, 2300, 2400, 2600)] == [
        "dog.n.01", "dog.n.02", "lassie.n.01", "crane.n.02",
    ]  # fmt: skip
    assert nouns.find("Dog") == [2200, 2300]
    assert nouns.find("domestic dog") == nouns.find("dog.n.01") == nouns.find("n00002200") == [2200]
    assert nouns.find("dog.n.03") == nouns.find("n00009999") == nouns.find("cat") == []


def test_the_dag(folder: Path) -> None:
    dag = wordnet_dag(folder)
    assert len(dag) == len(SYNSETS)
    dog = dag.find("dog.n.01")
    assert [dag.names[p] for p in dag.parents(dog)] == ["domestic_animal.n.01", "canine.n.01"]
    assert dag.decode(dag.lca(dog, dag.encode(["wolf.n.01", "crane.n.02", "lassie.n.01"]))) == [
        "animal.n.01/canine.n.01",
        "animal.n.01",
        dag.path_name(dog),
    ]
    assert "lassie.n.01" not in wordnet_dag(folder, instances=False).names
    part = wordnet_dag(folder, root="n00002100")
    assert part.names == ["canine.n.01", "dog.n.01", "lassie.n.01", "wolf.n.01"]
    assert part.parents(part.find("dog.n.01")) == [0]


def test_a_taxonomy_of_class_names(folder: Path) -> None:
    names = ["wolf", "domestic dog", "crane"]
    tree = wordnet_taxonomy(names, folder, senses={"crane": "crane.n.02"})
    assert sorted(tree.decode(tree.encode(names))) == [  # type: ignore[type-var]
        "animal.n.01/canine.n.01/domestic dog", "animal.n.01/canine.n.01/wolf", "animal.n.01/crane",
    ]  # fmt: skip
    assert "domestic_animal.n.01" not in tree.names, "the path over the canines adds fewer nodes"
    whole = wordnet_taxonomy(names, folder, {"crane": "n00002700"}, rule="odir")
    assert whole.path(whole.find("crane")) == ("crane",)
    assert whole.find("domestic_animal.n.01") > 0
    inner = wordnet_taxonomy(["canine", "wolf"], folder)
    assert inner.path_name(inner.find("wolf")) == "animal.n.01/canine/wolf"


def test_what_is_unclear_is_listed_for_the_user_to_decide(folder: Path) -> None:
    with pytest.raises(TaxonomyError) as error:
        wordnet_taxonomy(["dog", "wolf", "wlof", "crane"], folder, senses={"crane": "crane.n.09"})
    text = str(error.value)
    assert text.startswith("3 of 4 names are unknown to WordNet or have several senses")
    assert "\n" not in text
    assert text.count("; ") == 3, "one before each name"
    assert "dog: dog.n.01 (Canis familiaris), dog.n.02 (an andiron)" in text
    assert "wlof: no noun of WordNet (nearest: 'wolf')" in text
    assert "crane: senses says 'crane.n.09', which is not one synset" in text
    with pytest.raises(TaxonomyError, match="'dog' and 'domestic dog' are both dog.n.01"):  # noqa: RUF043
        wordnet_taxonomy(["dog", "domestic dog"], folder, {"dog": "dog.n.01"})
    with pytest.raises(TaxonomyError, match="senses names 'cat', which is not a class"):
        wordnet_taxonomy(["wolf"], folder, {"cat": "dog.n.01"})
    with pytest.raises(TaxonomyError, match="there are no names"):
        wordnet_taxonomy([], folder)


def test_broken_files_and_wrong_roots(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match=r"root='dog' is ambiguous \(it may be dog.n.01, dog.n.02\)"):
        wordnet_dag(folder, root="dog")
    with pytest.raises(TaxonomyError, match=r"root='wlof.n.01' is not a noun of WordNet \(nearest: 'wolf'\)"):
        wordnet_dag(folder, root="wlof.n.01")
    with pytest.raises(TaxonomyError, match=r"data.noun' does not exist; .* wordnet-base"):
        wordnet_dag(tmp_path)
    data = (folder / "data.noun").read_text()
    (folder / "data.noun").write_text(data + "00009999 05 n zz\n")
    with pytest.raises(TaxonomyError, match=r"data.noun, line 12: this is not a line of WordNet's data.noun"):
        wordnet_dag(folder)
    (folder / "data.noun").write_text(data + "00009999 05 v 01 run 0 000 | go fast\n")
    with pytest.raises(TaxonomyError, match=r"line 12: this is not a noun synset"):
        wordnet_dag(folder)
    (folder / "data.noun").write_text(data + "00009999 05 n 01 x 0 001 @ 00008888 n 0000 | x\n")
    with pytest.raises(TaxonomyError, match="synset 00009999 has the hypernym 00008888, which is not there"):
        wordnet_dag(folder)
    (folder / "data.noun").write_text(data)
    (folder / "index.noun").write_text("dog n x\n")
    with pytest.raises(
        TaxonomyError, match=r"index.noun, line 1: this is not a line of WordNet's index.noun"
    ):
        wordnet_dag(folder)
