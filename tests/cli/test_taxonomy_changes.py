"""``labeltree taxonomy diff``, ``map``, ``apply`` and ``compose``."""

import json
from pathlib import Path

import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.data import open_source
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyMapping
from labeltree.taxonomy.versions.between_versions import LabelsOfBoth
from labeltree.workbooks import write_workbook

OLD = ["bird/parus/great tit", "bird/parus/blue tit", "bird/owl/barn owl", "bird/owl/tawny", "fish/pike"]
NEW = [
    "bird/parus/great tit",
    "bird/cyanistes/blue tit",
    "bird/owl/barn owl",
    "bird/owl/tawny owl",
    "fish/no",
    "fish/1.0",
]


def run(*words: object) -> int:
    return main(["taxonomy", *(str(word) for word in words)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Taxonomy.from_paths(OLD).with_release("2023").save("old.json")
    Taxonomy.from_paths(NEW).save("new.yaml")
    rows = [f"text {i},{path.replace('/', ',')}" for i, path in enumerate(OLD[:4]) for _ in range(i + 1)]
    (tmp_path / "notes.csv").write_text("\n".join(["text,depth1,depth2,depth3", *rows]) + "\n")
    return tmp_path


def test_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", "old.json", "new.yaml") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("old: release 2023, 10 nodes, digest ")
    assert printed[1].startswith("new: 12 nodes, digest ")
    assert printed[2:9] == [
        "  move    bird/parus/blue tit -> bird/cyanistes/blue tit",
        "  remove  bird/owl/tawny",
        "  remove  fish/pike",
        "  add     bird/cyanistes",
        "  add     bird/owl/tawny owl",
        "  add     fish/no",
        "  add     fish/1.0",
    ]
    assert printed[9] == "4 added, 2 removed, 1 moved"
    assert any("rename: bird/owl/tawny -> bird/owl/tawny owl" in line for line in printed[10:])
    assert run("diff", "old.json", "old.json") == 0
    assert "nothing changed" in capsys.readouterr().out


def test_diff_counts_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", "old.json", "new.yaml", "--data", "notes.csv") == 0
    printed = capsys.readouterr().out.splitlines()
    assert "  move          2  bird/parus/blue tit -> bird/cyanistes/blue tit" in printed
    assert "4 added, 2 removed, 1 moved; 6 of 10 samples touched" in printed
    assert run("diff", "old.json", "new.yaml", "--data", "notes.csv", "--format", "json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["old"]["release"] == "2023"
    assert content["counts"] == {"add": 4, "remove": 2, "move": 1}
    assert content["samples"] == {"all": 10, "touched": 6, "not in OLD": 0}
    assert content["changes"][0] == {
        "kind": "move",
        "old": "bird/parus/blue tit",
        "new": ["bird/cyanistes/blue tit"],
        "samples": 2,
    }
    assert [guess["kind"] for guess in content["guesses"]] == ["rename"]
    Taxonomy.from_paths(OLD[:2]).save("less.json")
    assert run("diff", "less.json", "new.yaml", "--data", "notes.csv") == 0
    assert "7 have labels that OLD has not: 'bird/owl/barn owl'" in capsys.readouterr().out
    assert run("diff", "old.json", "new.yaml", "--data", "old.json") == 2
    assert "a taxonomy without samples" in capsys.readouterr().err


def test_from_map_to_the_new_version(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml") == 0
    assert "1 guess, as comments at its end" in capsys.readouterr().out
    text = Path("changes.yaml").read_text("utf-8")
    assert "release: " in text
    assert "# - {rename: bird/owl/tawny, to: bird/owl/tawny owl}" in text
    Path("changes.yaml").write_text(text.replace("# - {rename", "- {rename"), "utf-8")
    words = ["apply", "changes.yaml", "old.json", "--out", "applied.json", "--release", "2024"]
    assert run(*words) == 0
    assert "1 renamed, 1 moved; release 2024, 12 nodes" in capsys.readouterr().out
    applied = Taxonomy.from_file("applied.json")
    assert [entry.release for entry in applied.history] == ["2023", "2024"]
    assert applied.history[-1].changes["rename"] == 1
    assert TaxonomyMapping.between(applied, Taxonomy.from_paths(NEW))[0].changes() == []
    assert run("diff", "old.json", "new.yaml", "--mapping", "changes.yaml") == 0
    assert "rename  bird/owl/tawny -> bird/owl/tawny owl" in capsys.readouterr().out
    for action, expected in (("show", "release 2024\nroot\n"), ("check", "release 2024\n  2023, digest")):
        assert run(action, "applied.json") == 0
        assert expected in capsys.readouterr().out


def test_accept_leaves_what_only_the_place_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Taxonomy.from_paths(["cat/tabby", "cat/lion", "fish/pike", "fish/eel"]).save("a.yaml")
    Taxonomy.from_paths(["cat/tabby cat", "cat/lion", "fish/trout"]).save("b.yaml")
    assert run("diff", "a.yaml", "b.yaml") == 0
    assert "guesses, of which none is used" in capsys.readouterr().out
    assert run("map", "a.yaml", "b.yaml", "--accept") == 0
    printed = capsys.readouterr().out
    assert "1 added, 2 removed, 1 renamed: changes.yaml\n2 guesses, as comments" in printed
    text = Path("changes.yaml").read_text("utf-8")
    assert "\n- {rename: cat/tabby, to: cat/tabby cat}\n" in text
    assert "\n# - {merge: fish/pike, to: fish/trout}  # by its place alone" in text
    Path("changes.yaml").write_text(text.replace("# - {", "- {"), "utf-8")
    assert run("diff", "a.yaml", "b.yaml", "--mapping", "changes.yaml") == 0
    assert "\n1 renamed, 2 merged into 1\n" in capsys.readouterr().out


def test_what_a_person_wrote_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml", "--out", "c.yaml") == 0
    assert run("map", "old.json", "new.yaml", "--accept", "--out", "c.yaml") == 0  # nobody has edited it
    accepted = Path("c.yaml").read_text("utf-8")
    assert "\n- {rename: bird/owl/tawny, to: bird/owl/tawny owl}" in accepted
    edited = accepted.replace("- {remove: fish/pike}", "- {rename: fish/pike, to: fish/no}")
    for text in (edited, accepted + "# mine\n", "mine", "\n"):
        Path("c.yaml").write_text(text, "utf-8")
        assert run("map", "old.json", "new.yaml", "--out", "c.yaml") == 2
        assert "--replace overwrites it" in capsys.readouterr().err
        assert Path("c.yaml").read_text("utf-8") == text
    assert run("map", "old.json", "new.yaml", "--out", "c.yaml", "--replace") == 0


def test_a_mapping_of_other_versions_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml", "--out", "c.yaml") == 0
    mapping = Path("c.yaml").read_text("utf-8")
    Taxonomy.from_paths(["bird/Blue Tit", "bird/blue-tit"]).save("twice.yaml")
    for words in (("review", "twice.yaml"), ("map", "twice.yaml", "new.yaml")):
        capsys.readouterr()
        assert run(*words, "--out", "c.yaml") == 2
        assert "'c.yaml' says what became of release 2023" in capsys.readouterr().err
        assert Path("c.yaml").read_text("utf-8") == mapping
    assert run("review", "twice.yaml", "--out", "c.yaml", "--replace") == 0


def test_compose(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml", "--accept", "--out", "first.yaml") == 0
    Path("second.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n- {rename: bird, to: Aves}\n- {merge: fish/no, to: fish/1.0}\n"
    )
    words = ["compose", "first.yaml", "second.yaml", "--old", "old.json", "--out", "both.yaml"]
    assert run(*words) == 0
    assert "both.yaml" in capsys.readouterr().out
    both = TaxonomyMapping.load("both.yaml", old=Taxonomy.from_file("old.json"))
    place = both.new.path_name(int(both.nodes[both.old.find("tawny")]))
    assert place == "Aves/owl/tawny owl"


def test_synonyms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("synonyms.csv").write_text("synonym,accepted\npike,esox\nesox,1.0\nunheard of,1.0\n")
    assert run("diff", "old.json", "new.yaml", "--synonyms", "synonyms.csv") == 0
    assert "rename  fish/pike -> fish/1.0" in capsys.readouterr().out
    for text, message in (
        ("synonym,accepted\na,b\nb,a\n", "form a cycle"),
        ("synonym,accepted\na,b\na,c\n", "remove one"),
        ("old,new\na,b\n", "needs the columns synonym and accepted"),
    ):
        Path("synonyms.csv").write_text(text)
        assert run("diff", "old.json", "new.yaml", "--synonyms", "synonyms.csv") == 2
        assert message in capsys.readouterr().err


def test_convert_takes_the_columns_of_levels_as_show_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "s.csv").write_text(
        "text,kind,thing\nred breast,animal,bird\nscales,animal,fish\nlorry,vehicle,truck\n"
    )
    levels = ["--column", "kind", "--column", "thing"]
    assert run("convert", "s.csv", "s.json", *levels) == 0
    tree = Taxonomy.from_file(folder / "s.json")
    assert sorted(map(tree.path_name, tree.leaves.tolist())) == [
        "animal/bird",
        "animal/fish",
        "vehicle/truck",
    ]
    assert run("convert", "s.csv", "again.json", *levels, "--form", "codes") == 2
    assert "--form codes reads one --column" in capsys.readouterr().err


def test_releases_are_given_by_convert(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("convert", "new.yaml", "new.json", "--release", "2024 a") == 0
    assert Taxonomy.from_file("new.json").release == "2024 a"
    assert run("convert", "new.yaml", "new.csv", "--release", "2024") == 2
    assert "only a .json file keeps a release" in capsys.readouterr().err
    assert run("map", "old.json", "new.json") == 0
    assert run("apply", "changes.yaml", "old.json", "--out", "applied.json") == 0
    assert Taxonomy.from_file("applied.json").release == "2024 a"


def test_what_does_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TaxonomyDAG.from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]).save("dag.json")
    Path("changes.yaml").write_text("labeltree mapping: 1\nchanges:\n- {rename: pig, to: cow}\n")
    for words, message in (
        (["diff", "old.json", "dag.json"], "'dag.json' is a DAG"),
        (["apply", "changes.yaml", "old.json", "--out", "x.json"], "the old taxonomy has no 'pig"),
        (["apply", "none.yaml", "old.json", "--out", "x.json"], "there is no such file"),
        (["apply", "changes.yaml", "old.json", "--out", "x.csv", "--release", "1"], "only a .json file"),
        (["diff", "old.json", "new.yaml", "--mapping", "a", "--synonyms", "b"], "leave one of them out"),
    ):
        assert run(*words) == 2
        assert message in capsys.readouterr().err
    assert not Path("x.json").exists()


def test_another_version_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml") == 0
    Taxonomy.from_paths([*OLD, "fish/eel"]).save("more.json")
    capsys.readouterr()
    assert run("apply", "changes.yaml", "more.json", "--out", "x.json") == 0
    assert "was made for release 2023 with 10 nodes and the digest" in capsys.readouterr().err
    assert Taxonomy.from_file("x.json").find("eel")


def test_the_folder_of_a_run_is_a_version(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = next((Path(__file__).parents[1] / "frozen").glob("*/run"))
    tree = Taxonomy.from_file(old / "taxonomy.json")
    leaf = tree.names[int(tree.leaves[0])]
    renamed = [name + " 2" if name == leaf else name for name in tree.names]
    Taxonomy(renamed, tree.parent.tolist()).save("next.json")
    assert run("diff", old, "next.json", "--data", old, "--format", "json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["old"]["nodes"] == content["new"]["nodes"] == tree.num_nodes
    assert content["samples"]["all"] == 96
    assert 0 < content["samples"]["touched"] < 96
    assert content["guesses"][0]["kind"] == "rename"
    assert run("show", old) == 0
    assert leaf in capsys.readouterr().out


def test_what_is_read_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("map", "old.json", "new.yaml", "--out", "changes.yaml") == 0
    before = (folder / "changes.yaml").read_bytes(), (folder / "old.json").read_bytes()
    assert run("apply", "changes.yaml", "old.json", "--out", "./changes.yaml") == 2
    assert run("apply", "changes.yaml", "old.json", "--out", "old.json") == 2
    assert run("compose", "changes.yaml", "changes.yaml", "--old", "old.json", "--out", "changes.yaml") == 2
    assert "is what is read; name another file" in capsys.readouterr().err
    assert run("map", "old.json", "old.json", "--out", "other.yaml") == 0
    assert run("apply", "changes.yaml", "old.json", "--out", "other.yaml") == 2
    assert "is a mapping, and would become a taxonomy" in capsys.readouterr().err
    assert before == ((folder / "changes.yaml").read_bytes(), (folder / "old.json").read_bytes())


def test_a_review_that_finds_nothing_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Taxonomy.from_paths(["oak/leaf", "whale/fin"]).save(folder / "fine.json")
    assert run("review", "fine.json", "--out", "review.yaml") == 0
    assert "nothing found" in capsys.readouterr().out
    assert not (folder / "review.yaml").exists()


_OBO = """\
format-version: 1.2
ontology: xo

[Term]
id: XO:0001
name: disease

[Term]
id: XO:0002
name: infection
is_a: XO:0001

[Term]
id: XO:0003
name: pertussis
synonym: "whooping cough" EXACT []
is_a: XO:0002

[Term]
id: XO:0004
name: cholera
is_a: XO:0002

[Term]
id: XO:0005
name: flu A
is_a: XO:0002

[Term]
id: XO:0006
name: flu B
synonym: "grippe" EXACT []
is_a: XO:0002

[Term]
id: XO:0007
name: gout
is_a: XO:0001

[Term]
id: XO:0008
name: diabetes
is_a: XO:0001
"""
_CHANGES = """\
labeltree mapping: 1
changes:
- {rename: infection/cholera, to: infection/Cholera}
- {merge: infection/flu A, to: infection/flu}
- {merge: infection/flu B, to: infection/flu}
- {remove: gout}
- {split: diabetes, to: [diabetes 1, diabetes 2]}
"""


def test_labels_that_are_ids_or_synonyms_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.obo").write_text(_OBO)
    labels = ["XO:0003", "whooping cough", "pertussis", "infection/cholera", "grippe", "XO:0099"]
    Path("ids.csv").write_text("\n".join(["text,label", *(f"text {label},{label}" for label in labels)]))
    Path("new.obo").write_text(_OBO.replace("name: pertussis", "name: Bordetella infection"))
    assert run("diff", "old.obo", "new.obo", "--data", "ids.csv") == 0
    printed = capsys.readouterr().out
    assert "rename        3  infection/pertussis -> infection/Bordetella infection" in printed
    assert "3 of 6 samples touched; 1 have labels that OLD has not: 'XO:0099'" in printed


def test_ids_and_synonyms_are_carried_over(folder: Path) -> None:
    Path("old.obo").write_text(_OBO)
    Path("changes.yaml").write_text(_CHANGES)
    assert run("apply", "changes.yaml", "old.obo", "--out", "applied.json") == 0
    applied = Taxonomy.from_file("applied.json")
    further = {applied.path_name(node): set(applied.aliases[node]) for node in range(applied.num_nodes)}
    assert further == {
        "/": {"XO:0001"},
        "infection": {"XO:0002"},
        "infection/pertussis": {"XO:0003", "whooping cough"},
        "infection/Cholera": {"XO:0004"},
        "infection/flu": {"XO:0005", "XO:0006", "grippe"},
        "diabetes 1": set(),  # the old id says not which part
        "diabetes 2": set(),
    }


def test_labels_by_lost_ids_are_read_by_a_mapping(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.obo").write_text(_OBO)
    Path("hand.yaml").write_text(_CHANGES)
    old = Taxonomy.from_file("old.obo")
    new = TaxonomyMapping.load("hand.yaml", old=old).new
    new = new.with_aliases([])  # as a version without ids
    TaxonomyMapping.load("hand.yaml", old=old, new=new).save("changes.yaml")
    text = Path("changes.yaml").read_text("utf-8")
    assert '- {remove: gout, also: ["XO:0007"]}' in text
    assert 'to: infection/flu, also: ["XO:0006", grippe]}' in text
    mapping = TaxonomyMapping.load("changes.yaml", new=new)
    labels = LabelsOfBoth(mapping).taxonomy
    assert [new.path_name(node) for node in labels.encode(["XO:0004", "grippe", "XO:0005"]).tolist()] == [
        "infection/Cholera",
        "infection/flu",
        "infection/flu",
    ]
    for wrong, what in (
        ("{remove: gout, also: [{a: b}]}", "ids and synonyms"),
        ("{add: x, also: y}", "added"),
    ):
        Path("wrong.yaml").write_text(f"labeltree mapping: 1\nchanges:\n- {wrong}\n")
        assert run("apply", "wrong.yaml", "old.obo", "--out", "x.json") == 2
        assert what in capsys.readouterr().err


def test_review_reads_its_data_by_settings_of_their_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Taxonomy.from_paths(["bird/Blue Tit", "bird/blue-tit"]).save("twice.json")
    rows = [("a text", "red", "bird > Blue Tit"), ("another", "blue", "bird > blue-tit")] * 2
    rows += [("a third", "red", "bird"), ("a fourth", "blue", "bird > Blue Tit")]
    write_workbook(Path("shop.xlsx"), {"Rows": (["text", "Marke", "Gruppe"], rows)})
    assert run("review", "twice.json", "--data", "shop.xlsx") == 2
    assert "set --table.label_columns '[\"Marke\"]' ('Gruppe' could be, too)" in capsys.readouterr().err
    settings = ("--table.label_columns", '["Gruppe"]', "--table.sheet", "Rows")
    assert run("review", "twice.json", "--data", "shop.xlsx", *settings, "--out", "c.yaml") == 0
    printed = capsys.readouterr().out
    assert "bird/Blue Tit (3)" in printed
    assert (
        "labeltree train --data shop.xlsx --taxonomy NEW.json --mapping c.yaml "
        "--table.label_columns '[\"Gruppe\"]' --table.sheet Rows"
    ) in printed
    # a sheet is that of the taxonomy, where this is a workbook
    paths = (["path"], [("bird > Blue Tit",), ("bird > blue-tit",)])
    write_workbook(Path("tree.xlsx"), {"Cover": (["x"], [("y",)]), "Tree": paths})
    settings = ("--table.label_columns", '["Gruppe"]', "--table.sheet", "Tree")
    assert run("review", "tree.xlsx", "--column", "path", "--data", "shop.xlsx", *settings) == 0
    assert "bird/Blue Tit (3)" in capsys.readouterr().out
    assert run("review", "twice.json", "--table.label_columns", '["Gruppe"]') == 2
    assert "'twice.json' cannot be read: it is not a list of records" in capsys.readouterr().err
    assert run("review", "tree.newick", "--table.label_columns", '["Gruppe"]') == 2
    assert "is of tables; 'tree.newick' is something else. Leave it out" in capsys.readouterr().err


def test_a_run_tells_how_the_labels_of_its_table_are_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other columns have names of the taxonomy, too: without the run, these would be taken."""
    kinds = [
        ("Garden", "rake", "pan"),
        ("Garden", "hoe", "rake"),
        ("Home", "pan", "hoe"),
        ("Home", "wok", "wok"),
    ]
    rows = [(f"{kind} number {n}", shelf, kind, other) for n in range(4) for shelf, kind, other in kinds]
    sheets = {"Old": (["text", "label"], [("x", "y")]), "Now": (["text", "Shelf", "Kind", "label"], rows)}
    write_workbook(Path("shop.xlsx"), sheets)
    table = {"sheet": "Now", "label_columns": ["Shelf", "Kind"]}
    lt.train("shop.xlsx", "tree-ridge", out="run", table=table, progress_bar=False)
    Path("changes.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n"
        "- {rename: Garden/rake, to: Garden/leaf rake}\n- {move: Home/wok, to: Asia/wok}\n"
    )
    capsys.readouterr()
    assert run("apply", "changes.yaml", "run", "--data", "shop.xlsx", "--out", "new.xlsx") == 0
    assert capsys.readouterr().out == "8 labels changed; 8 as before: new.xlsx\n"
    moved = open_source("new.xlsx", sheet="Now", label_columns=["Shelf", "Kind"])
    assert [moved.taxonomy.path_name(node) for node in moved.nodes[:4].tolist()] == [
        "Garden/leaf rake", "Garden/hoe", "Home/pan", "Asia/wok",
    ]  # fmt: skip
    words = ("--data", "shop.xlsx", "--out", "other.xlsx", "--table.label_columns", '["label"]')
    assert run("apply", "changes.yaml", "run", *words) == 0  # what is given comes first
    assert "4 labels changed" in capsys.readouterr().out
