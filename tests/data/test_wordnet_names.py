"""`labeltree taxonomy from-wordnet` on a WordNet of a few synsets that the test writes."""

import doctest
from pathlib import Path

import pytest

from labeltree.cli.main import main
from labeltree.data import wordnet_taxonomy
from labeltree.data.wordnet_files import wordnet_names
from labeltree.data.wordnet_files.wordnet_names import base_forms, read_irregular, read_senses
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy

# offset: words, hypernyms, gloss
SYNSETS: dict[int, tuple[list[str], list[int], str]] = {
    1740: (["entity"], [], "that which is"),
    1930: (["animal"], [1740], "a living organism"),
    2000: (["bird"], [1930], "it has feathers"),
    2100: (["goose"], [2000], "a web-footed bird"),
    2200: (["crane"], [2000], "a long-necked bird"),
    2300: (["thing"], [1740], "an object"),
    2400: (["crane"], [2300], "it lifts heavy things"),
    2500: (["golf_cart", "golfcart"], [2300], "a small vehicle"),
    2600: (["glass"], [2300], "a vessel"),
    2700: (["spectacles", "glasses"], [2300], "they help the eyes"),
    2800: (["wolf"], [1930], "a canine"),
}


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    folder = tmp_path / "dict"
    folder.mkdir()
    lines, senses = [], {"crane": [2400, 2200]}
    for offset, (words, above, gloss) in SYNSETS.items():
        listed = " ".join(f"{word} 0" for word in words)
        aims = "".join(f"@ {target:08d} n 0000 " for target in above)
        lines.append(f"{offset:08d} 05 n {len(words):02x} {listed} {len(above):03d} {aims}| {gloss}  \n")
        for word in words:
            senses.setdefault(word, [offset])
    index = []
    for word, found in sorted(senses.items()):
        offsets = " ".join(f"{offset:08d}" for offset in found)
        index.append(f"{word} n {len(found)} 1 @ {len(found)} 1 {offsets}  \n")
    (folder / "data.noun").write_text("".join(lines))
    (folder / "index.noun").write_text("".join(index))
    (folder / "noun.exc").write_text("geese goose\n")
    return folder


def run(folder: Path, wordnet: Path, names: str, *options: str) -> int:
    (folder / "names.txt").write_text(names)
    arguments = ["taxonomy", "from-wordnet", str(folder / "names.txt"), "-o", str(folder / "out.csv")]
    return main([*arguments, "--wordnet", str(wordnet), *options])


def test_plurals_and_spellings(tmp_path, wordnet, capsys):
    assert run(tmp_path, wordnet, "# birds\ngeese\n\nGolf-Carts\nwolves\n") == 0
    assert "3 classes, 7 nodes, depth 3" in capsys.readouterr().out
    tree = Taxonomy.from_file(tmp_path / "out.csv")
    assert tree.path(tree.find("geese")) == ("animal.n.01", "bird.n.01", "geese")
    assert tree.path(tree.find("Golf-Carts")) == ("thing.n.01", "Golf-Carts")
    assert not (tmp_path / "names.senses.txt").exists()
    python = wordnet_taxonomy(["geese", "Golf-Carts", "wolves"], wordnet)
    assert python == tree


def test_the_user_decides_in_a_file(tmp_path, wordnet, capsys):
    assert run(tmp_path, wordnet, "crane\ngoose\nglasses\nwlof\n") == 2
    said = capsys.readouterr()
    assert "crane: crane.n.01: it lifts heavy things | crane.n.02: a long-necked bird" in said.out
    assert "glasses: spectacles.n.01: they help the eyes | glass.n.01: a vessel" in said.out
    assert "2 names have several senses, 1 are unknown to WordNet: decide in" in said.err
    assert not (tmp_path / "out.csv").exists()
    senses = tmp_path / "names.senses.txt"
    text = senses.read_text()
    assert "#crane = crane.n.02  # a long-necked bird\n" in text
    assert "# wlof: no noun of WordNet; the nearest by spelling are\n#wlof = wolf.n.01  # a canine\n" in text
    decided = text.replace("#crane = crane.n.02", "crane = crane.n.02")
    senses.write_text(decided)
    assert run(tmp_path, wordnet, "crane\ngoose\nglasses\nwlof\n") == 2
    assert senses.read_text() == decided, "what is listed already is not added again"
    decided = decided.replace("#glasses = spec", "glasses = spec").replace("#wlof =", "wlof =")
    senses.write_text(decided)
    assert run(tmp_path, wordnet, "crane\ngoose\nglasses\nwlof\n") == 0
    tree = Taxonomy.from_file(tmp_path / "out.csv")
    assert tree.path(tree.find("crane")) == ("animal.n.01", "bird.n.01", "crane")
    assert tree.path(tree.find("wlof")) == ("animal.n.01", "wlof")


def test_new_names_are_added_to_the_file(tmp_path, wordnet):
    senses = tmp_path / "mine.txt"
    senses.write_text("crane = n00002200")
    assert run(tmp_path, wordnet, "crane\nwolf\n", "--senses", str(senses)) == 0
    assert run(tmp_path, wordnet, "crane\nglasses\n", "--senses", str(senses)) == 2
    text = senses.read_text()
    assert text.startswith("crane = n00002200\n\n# glasses:\n#glasses = spectacles.n.01")


def test_guessing_only_where_asked(tmp_path, wordnet, capsys):
    assert run(tmp_path, wordnet, "crane\nwolf\n", "--rule", "first") == 0
    assert "guessed: crane = crane.n.01  # it lifts heavy things" in capsys.readouterr().out
    assert run(tmp_path, wordnet, "glass\nglasses\n", "--rule", "first", "--senses", str(tmp_path / "s")) == 0
    assert run(tmp_path, wordnet, "goose\ngeese\n", "--rule", "first") == 2
    assert "'goose' and 'geese' are both goose.n.01" in capsys.readouterr().err
    assert run(tmp_path, wordnet, "wlof\nwolf\n", "--rule", "first") == 2
    assert "0 names have several senses, 1 are unknown" in capsys.readouterr().err


def test_nodes_with_one_child_are_left_out(tmp_path, wordnet):
    assert run(tmp_path, wordnet, "goose\ncrane.n.02\nwolf\n", "--collapse") == 0
    tree = Taxonomy.from_file(tmp_path / "out.csv")
    assert tree.names == ["animal.n.01", "bird.n.01", "goose", "crane.n.02", "wolf"]


def test_mistakes_in_files(tmp_path, wordnet, capsys):
    senses = tmp_path / "names.senses.txt"
    for text, sentence in (
        ("crane crane.n.02\n", "line 1: expected 'name = synset', found 'crane crane.n.02'"),
        ("crane = crane.n.01\ncrane = crane.n.02\n", "line 2: 'crane' is crane.n.01 and crane.n.02"),
        ("crane = crane.n.09\n", "says that 'crane' is 'crane.n.09', which is not one synset"),
        ("corvid = crane.n.01\n", "senses names 'corvid', which is not a class"),
    ):
        senses.write_text(text)
        assert run(tmp_path, wordnet, "crane\nwolf\n") == 2
        assert sentence in capsys.readouterr().err
        assert senses.read_text() == text, "the user's file stays as it is"
    senses.unlink()
    assert run(tmp_path, wordnet, "\n# nothing\n") == 2
    assert "there are no names" in capsys.readouterr().err
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaxonomyError, match="is not text in UTF-8"):
        read_senses(tmp_path / "bad.txt")


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("dogs", "dog"),
        ("buses", "bus"),
        ("glasses", "glass"),
        ("boxes", "box"),
        ("churches", "church"),
        ("dishes", "dish"),
        ("ponies", "pony"),
        ("firemen", "fireman"),
        ("leaves", "leaf"),
        ("knives", "knife"),
        ("potatoes", "potato"),
        ("waltzes", "waltz"),
        ("houses", "house"),
        ("golf_carts", "golf_cart"),
    ],
)
def test_regular_plurals(plural, singular):
    assert singular in base_forms(plural)


def test_what_is_no_plural(tmp_path):
    assert base_forms("glass") == base_forms("bus") == base_forms("axis") == base_forms("dog") == []
    assert base_forms("wild_geese", {"geese": ["goose"]}) == ["wild_goose"]
    assert base_forms("men-of-war", {"men-of-war": ["man-of-war"]}) == ["man-of-war"]
    assert read_irregular(tmp_path / "noun.exc") == {}, "a WordNet without the list is read too"


def test_examples():
    assert doctest.testmod(wordnet_names) == (0, 3)
