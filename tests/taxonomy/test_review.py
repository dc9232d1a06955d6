"""What a review of a taxonomy finds, and that its proposals can be carried out together."""

import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree.api.retraining import training_command
from labeltree.cli.main import main
from labeltree.data import open_source
from labeltree.data.names.cleaning import Cleaner
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.review_names import review, review_hint
from labeltree.taxonomy.versions.mapping_file import write_mapping

PATHS = [
    *("bird/Blue Tit/a", "bird/Blue Tit/b", "bird/blue-tit/a", "bird/blue-tit/c"),
    *("bird/sparrow", "bird/sparow", "bird/unknown", "bird/owl/owl"),
    *("fish/pike/x", "fish/pike/y", "mammal/esox/x", "mammal/esox/y", "mammal/sparrow", "mammal/other"),
    *("bird/other", "Aves/Parus major L.", "Aves/Parus major Linnaeus, 1758"),
]


def changes(tree: Taxonomy, **settings: object) -> set[str]:
    return {str(finding.guess.change) for finding in review(tree, **settings).findings}  # type: ignore[arg-type]


def test_what_is_found() -> None:
    tree = Taxonomy.from_paths(PATHS)
    found = {
        "merge: bird/blue-tit -> bird/Blue Tit",
        "merge: bird/sparow -> bird/sparrow",
        "merge: bird/owl/owl -> bird/owl",
        "merge: mammal/sparrow -> bird/sparrow",
        "merge: mammal/esox -> fish/pike",
        "remove: bird/unknown",
    }
    assert changes(tree) == found
    author = "merge: Aves/Parus major Linnaeus, 1758 -> Aves/Parus major L."
    assert changes(tree, key=Cleaner("scientific").key) == {*found, author}


def test_the_node_with_more_samples_stays() -> None:
    tree = Taxonomy.from_paths(["Dog", "dog"])
    assert changes(tree, samples=[3, 1, 2]) == {"merge: Dog -> dog"}
    assert changes(tree, samples=[3, 2, 1]) == {"merge: dog -> Dog"}


def test_what_is_right_is_left_alone() -> None:
    sizes = [
        f"{cloth}/{size}" for cloth in ("shirt", "trousers", "jacket", "socks") for size in ("small", "large")
    ]
    codes = ["A01", "A02", "A03", "cat", "car", "class 1", "class 2", "10-day", "11-day"]
    assert not changes(Taxonomy.from_paths([*sizes, *codes]))


def test_codes_and_homonyms_are_left_alone() -> None:
    codes = [f"{code}{end}" for code in ("S52.021", "S52.0", "S52-1x") for end in "ABCDEFGHJ"]
    titles = [f"T{place}.0{end} Burn of a hand, {end}" for place in "12" for end in "AB"]
    kingdoms = [
        "Animalia/Chordata/Aves/Oenanthe/a",
        "Animalia/Mollusca/Prunella/b",
        "Plantae/Tracheophyta/Apiales/Oenanthe/c",
        "Plantae/Tracheophyta/Lamiales/Prunella/d",
    ]
    assert not changes(Taxonomy.from_paths([*codes, *titles, "vitamin B12", "vitamin D12", *kingdoms]))
    twice = ["Plantae/Tracheophyta/Apiales/Oenanthe/c", "Plantae/Tracheophyta/Asterales/Oenanthe/e"]
    assert changes(Taxonomy.from_paths(twice)) == {
        "merge: Plantae/Tracheophyta/Asterales/Oenanthe -> Plantae/Tracheophyta/Apiales/Oenanthe"
    }


def test_findings_of_the_same_nodes_come_later() -> None:
    tree = Taxonomy.from_paths(["a/x1", "a/y1", "b/sparrow", "b/sparow", "b/sparows"])
    found = review(tree)
    assert [str(finding.guess.change) for finding in found.findings] == ["merge: b/sparow -> b/sparrow"]
    assert found.later == 1


WORDS = st.sampled_from(["dog", "Dog", "sparrow", "sparow", "unknown", "owl", "x", "tree-frog", "tree frog"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=12))
def test_all_proposals_can_be_carried_out_together(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]]
) -> None:
    tree = Taxonomy.from_paths([*paths, ["a class"]])
    found = review(tree)
    changes = [finding.guess.change for finding in found.findings]
    sources = [finding.guess.node for finding in found.findings]
    assert len(set(sources)) == len(sources)
    file = tmp_path_factory.getbasetemp() / "changes.yaml"
    write_mapping(file, tree, tree, changes)
    mapping = TaxonomyMapping.load(file, old=tree)
    for finding in found.findings:
        kept = mapping.nodes[finding.guess.targets[0]]
        assert mapping.nodes[finding.guess.node] == kept


def test_many_names_are_compared_quickly() -> None:
    """With all pairs compared, this would take hours."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(3000)]
    tree = Taxonomy.from_paths([*words, *(f"kind of item {number}" for number in range(3000)), words[0][:-1]])
    assert changes(tree) == {f"merge: {words[0][:-1]} -> {words[0]}"}


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree.txt").write_text("\n".join(PATHS))
    Path("data.csv").write_text("text,label\na,bird/sparow\nb,bird/sparow\nc,bird/sparrow\n")
    command = ["taxonomy", "review", "tree.txt", "--scientific", "--out", "changes.yaml"]
    assert main([*command, "--data", "data.csv"]) == 0
    out = capsys.readouterr().out
    assert "merge  bird/sparrow (1) -> bird/sparow (2)" in out
    text = Path("changes.yaml").read_text()
    assert "# - {remove: bird/unknown}" in text
    Path("changes.yaml").write_text(text.replace("\n# - ", "\n- "))
    assert main(command) == 2
    assert "--replace" in capsys.readouterr().err
    assert main(["taxonomy", "apply", "changes.yaml", "tree.txt", "--out", "new.json"]) == 0
    assert main(["taxonomy", "review", "new.json"]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_names_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,label\na,Parus major L.\nb,PARUS MAJOR\nc,Parus ater\n")
    (tmp_path / "synonyms.csv").write_text("synonym,accepted\nParus ater,Periparus ater\n")
    settings = ["--names", "scientific", "--synonyms", str(tmp_path / "synonyms.csv")]
    assert main(["taxonomy", "show", str(table), *settings]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("Parus major") == 1
    assert "Periparus ater" in shown.out
    assert "1 synonym in 1 row replaced" in shown.err
    assert main(["taxonomy", "show", "tree.yaml", "--names", "plain"]) == 2
    assert "is for tables of samples" in capsys.readouterr().err


def write_products(file: Path) -> None:
    """600 products whose departments and categories are spelt in several ways, some without a category."""
    rows = [
        *[("Küche", "Zubehör")] * 50,
        *[("Küche", "ZUBEHÖR")] * 3,
        *[("küche", "Messer")] * 2,
        *[("Küche", "Messer")] * 9,
        *[("Küche", "n/a")] * 4,
        *[("Garten", "Zubehör")] * 5,
        *[("Garten", "ZUBEHÖR")] * 20,
    ]
    lines = [f"thing number {row} of many,{','.join(names)}" for row, names in enumerate(rows)]
    file.write_text("\n".join(["Title,Department,Category", *lines]))


def test_samples_of_columns_that_hold_the_names_of_paths_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_products(Path("products.csv"))
    columns = ["--column", "Department", "--column", "Category"]
    assert main(["taxonomy", "convert", "products.csv", "old.json", *columns]) == 0
    capsys.readouterr()
    for command in (["old.json", "--data", "products.csv"], ["products.csv", *columns]):
        assert main(["taxonomy", "review", *command]) == 0
        out = capsys.readouterr().out
        assert "merge  küche (2) -> Küche (66)" in out
        assert "merge  Küche/ZUBEHÖR (3) -> Küche/Zubehör (50)" in out
        assert "merge  Garten/Zubehör (5) -> Garten/ZUBEHÖR (20)" in out
        assert "remove  Küche/n\\/a (4)" in out
    assert main(["taxonomy", "diff", "old.json", "old.json", "--data", "products.csv"]) == 0
    assert "0 of 93 samples touched" in capsys.readouterr().out


def test_samples_of_a_column_of_paths_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "products.csv"
    labels = [*["Garten/Zubehör"] * 2, *["Garten/ZUBEHÖR"] * 5, *["n/a"] * 3, *["Küche/Messer"] * 2]
    lines = [f"thing number {row} of many,{label}" for row, label in enumerate(labels)]
    table.write_text("\n".join(["text,label", *lines]))
    assert (
        main(["taxonomy", "review", str(table), "--column", "label", "--out", str(tmp_path / "c.yaml")]) == 0
    )
    out = capsys.readouterr().out
    assert "merge  Garten/Zubehör (2) -> Garten/ZUBEHÖR (5)" in out
    assert "remove  n\\/a (3)" in out
    assert "--form breadcrumbs --column label" in out


def test_what_follows_a_merged_parent_follows_its_namesake_too(tmp_path: Path) -> None:
    """Whichever proposals are accepted, no name comes back that an accepted one takes away."""
    paths = [
        "Küche/MESSER",
        "Küche/Messer",
        "Küche/n\\/a",
        "küche/Messer/klein",
        "küche/MESSER",
        "küche/n\\/a",
    ]
    tree = Taxonomy.from_paths([*paths, "Küche/Töpfe", "küche/Töpfe"])
    samples = [
        9 if tree.path_name(node) in ("Küche", "Küche/MESSER") else 1 for node in range(tree.num_nodes)
    ]
    proposals = [finding.guess.change for finding in review(tree, samples=samples).findings]
    assert "merge: küche -> Küche" in map(str, proposals)
    assert "merge: Küche/Messer -> Küche/MESSER" in map(str, proposals)
    file = tmp_path / "changes.yaml"
    for chosen in range(2 ** len(proposals)):
        accepted = [change for place, change in enumerate(proposals) if chosen >> place & 1]
        write_mapping(file, tree, tree, accepted)
        new = TaxonomyMapping.load(file, old=tree).new
        assert [change.old for change in accepted if new.follow(change.old) is not None] == []
    assert not review(new).findings
    assert sorted(map(new.path_name, new.leaves.tolist())) == ["Küche/MESSER/klein", "Küche/Töpfe"]


def test_labels_below_a_merged_node_follow_it_where_the_old_version_is_not_at_hand(tmp_path: Path) -> None:
    table, file = tmp_path / "products.csv", tmp_path / "changes.yaml"
    write_products(table)
    old = open_source(table, label_columns=["Department", "Category"]).taxonomy
    samples = [60 if name in ("Küche", "Zubehör") else 1 for name in old.names]
    proposals = [finding.guess.change for finding in review(old, samples=samples).findings]
    assert "merge: küche -> Küche" in map(str, proposals)
    write_mapping(file, old, old, proposals)
    mapping = TaxonomyMapping.load(file, old=old)
    settings: dict[str, Any] = {"taxonomy": mapping.new, "label_columns": ["Department", "Category"]}
    source = open_source(table, mapping=file, **settings)
    assert mapping.new.decode(source.nodes) == mapping.new.decode(
        open_source(table, mapping=mapping, **settings).nodes
    )
    assert {"Küche", "Küche/Messer"} < {*mapping.new.decode(source.nodes)}
    alone = TaxonomyMapping.load(file, new=mapping.new)
    assert alone.old.candidates("küche/Messer") == alone.old.candidates("Küche/Messer") != []
    assert alone.old.candidates("küche/Spaten") == []


def test_homonyms_are_not_to_be_merged() -> None:
    (finding,) = review(Taxonomy.from_paths(["bird/crane", "machine/crane"])).findings
    assert finding.guess.reason == "the same name; wrong if they are homonyms"


def test_training_points_to_the_review(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = review_hint(Taxonomy.from_paths(PATHS), "runs/my birds")
    assert hint is not None
    assert hint.startswith("likely one class each, by their spelling: 'bird/blue-tit' and 'Blue Tit', ")
    assert 'labeltree taxonomy review "runs/my birds" --out duplicates.yaml' in hint
    assert review_hint(Taxonomy.from_paths(["a/robin", "b/Robin", "a/unknown"]), "run") is None
    many = Taxonomy.from_paths(["bird/Blue Tit", "bird/blue-tit", *(f"fish/{n}" for n in range(1000))])
    assert review_hint(many, "run") is None, "it would take too long"
    labels = ["bird/Blue Tit", "bird/blue-tit", "fish/pike"] * 15
    rows = [f"{n % 3 + n / 99},{n % 3 - n / 99},{label}" for n, label in enumerate(labels)]
    (tmp_path / "vectors.csv").write_text("\n".join(["f0,f1,label", *rows]))
    words = ["--data", str(tmp_path / "vectors.csv"), "--objective", "tree-ridge"]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 0
    assert "'bird/blue-tit' and 'Blue Tit'; 'labeltree taxonomy review " in capsys.readouterr().out
    assert main(["taxonomy", "review", str(tmp_path / "run")]) == 0
    assert "--table.names" not in capsys.readouterr().out, "the names differ in more than case"


def test_the_note_names_the_setting_that_reads_cases_as_one() -> None:
    tree = Taxonomy.from_paths(["a/Robin", "a/ROBIN", "b/Blue Tit", "b/blue tit"])
    hint = review_hint(tree, "run", str.casefold)
    assert hint is not None
    assert "; they differ only in case or blanks, which --table.names plain reads as one; 'labeltree" in hint
    some = review_hint(
        Taxonomy.from_paths(["a/Robin", "a/ROBIN", "b/Blue Tit", "b/blue-tit"]), "run", str.casefold
    )
    assert some is not None
    assert "; one of them differs only in case or blanks, which --table.names plain" in some
    assert "--table.names" not in (review_hint(tree, "run") or "")


def test_a_way_from_the_note_to_a_new_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that is printed is run as it is printed."""
    monkeypatch.chdir(tmp_path)
    labels = ["bird;Tit", "BIRD;Tit", "bird;TIT", "fish;pike"] * 12
    rows = [f"{n % 4 + n / 99};{n % 4 - n / 99};{label}" for n, label in enumerate(labels)]
    Path("vectors.csv").write_text("\n".join(["f0;f1;group;kind", *rows]))
    columns = ["--table.label_columns", '["group", "kind"]']
    words = ["train", "--data", "vectors.csv", *columns, "--objective", "tree-ridge"]
    assert main([*words, "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert "only in case or blanks, which --table.names plain reads as one" in said

    assert main(["taxonomy", "review", "run", "--out", "duplicates.yaml"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("labeltree ")]
    assert [command[:2] for command in commands] == [
        ["train", "--config"],
        ["taxonomy", "apply"],
        ["train", "--config"],
    ]
    plain, apply, mapped = commands
    mapping = Path("duplicates.yaml")
    mapping.write_text(mapping.read_text().replace("# - {", "- {"))
    assert main([*plain[:-1], "plain"]) == 0
    assert main(apply) == 0
    assert f"next: labeltree {shlex.join(mapped)}" in capsys.readouterr().out
    assert main([*mapped[:-1], "mapped"]) == 0
    for run in ("plain", "mapped"):
        assert len(Taxonomy.from_file(f"{run}/taxonomy.json").leaves) == 2
    capsys.readouterr()

    assert main([*words, "--taxonomy", "NEW.json", "--out", "refused"]) == 2
    said = capsys.readouterr().err
    assert "differ from names of the taxonomy only in case or blanks: set --table.names plain" in said
    assert "name the file of the changes with --mapping" in said
    assert main([*words, "--taxonomy", "NEW.json", "--table.names", "plain", "--out", "known"]) == 0


def test_commands_for_other_data_than_those_of_a_run() -> None:
    assert (
        training_command("old.yaml", "changes.yaml", "new.json")
        == "labeltree train --data DATA --taxonomy new.json --mapping changes.yaml"
    )
    table = training_command("a b.csv", "c.yaml", "new.json", "a b.csv", ["x", "y"])
    assert shlex.split(table)[3:6] == ["a b.csv", "--table.label_columns", '["x", "y"]']
