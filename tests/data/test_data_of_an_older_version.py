"""Data with labels of an older version of a taxonomy are read on the new one."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labeltree.data import Source, open_source
from labeltree.data import opening_sources as opening
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.training.recipe import Recipe

OLD = Taxonomy.from_paths(
    ["animal/dog/poodle", "animal/dog/beagle", "animal/cat/tabby", "plant/rose", "plant/fern"]
)
NEW = Taxonomy.from_paths(
    ["animal/dog/hound", "pet/cat/tabby", "plant/rose/red", "plant/rose/white", "plant/moss"]
)
BECAME = {
    "animal/dog/poodle": ["animal/dog/hound"],
    "animal/dog/beagle": ["animal/dog/hound"],
    "animal/cat": ["pet/cat"],
    "animal/cat/tabby": ["pet/cat/tabby"],
    "plant/rose": ["plant/rose/red", "plant/rose/white"],
    "plant/fern": [],
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    targets = [
        [NEW.find(path) for path in BECAME.get(OLD.path_name(node), [OLD.path_name(node)])]
        for node in range(OLD.num_nodes)
    ]
    NEW.save(tmp_path / "new.yaml")
    TaxonomyMapping(OLD, NEW, targets).save(tmp_path / "map.yaml")
    return tmp_path / "new.yaml", tmp_path / "map.yaml"


def test_a_table_with_names_of_both(tmp_path: Path, files: tuple[Path, Path]) -> None:
    table = tmp_path / "notes.csv"
    names = ["poodle", "beagle", "tabby", "plant/rose", "fern", "hound", "moss", "red", ""]
    table.write_text("\n".join(["text,label", *(f"text {n},{name}" for n, name in enumerate(names))]))
    source = open_source(table, taxonomy=files[0], mapping=files[1])
    assert source.taxonomy == NEW
    found = [NEW.path_name(node) if node >= 0 else "" for node in source.nodes.tolist()]
    assert found == [
        "animal/dog/hound", "animal/dog/hound", "pet/cat/tabby", "plant/rose", "plant", "animal/dog/hound",
        "plant/moss", "plant/rose/red", "",
    ]  # fmt: skip
    assert any(
        "5 different labels of the old taxonomy are read on the new one by the mapping; 3 that only the new"
        in note
        for note in source.notes
    )
    assert source.unused is not None
    assert source.unused.lines() == [
        (5, "label", "the mapping splits its class into 2: the label 'plant/rose' becomes the node above, "
         "'plant/rose'"),
        (6, "label", "the mapping removes its class: the label 'plant/fern' becomes the node above, 'plant'"),
        (10, "label", "it has no label"),
    ]  # fmt: skip
    with pytest.raises(TaxonomyError, match="poodle"):  # the taxonomy that is kept reads its own names alone
        source.taxonomy.find("poodle")


def test_a_table_with_a_column_per_depth(tmp_path: Path, files: tuple[Path, Path]) -> None:
    table = tmp_path / "notes.csv"
    rows = [
        ("animal", "cat", "tabby"),
        ("pet", "cat", "tabby"),
        ("plant", "rose", ""),
        ("animal", "dog", "beagle"),
    ]
    table.write_text(
        "\n".join(["text,depth1,depth2,depth3", *(f"t{n},{','.join(row)}" for n, row in enumerate(rows))])
    )
    source = open_source(table, taxonomy=NEW, mapping=files[1])
    assert [NEW.path_name(node) for node in source.nodes.tolist()] == [
        "pet/cat/tabby", "pet/cat/tabby", "plant/rose", "animal/dog/hound",
    ]  # fmt: skip


def test_nested_folders(
    tmp_path: Path, files: tuple[Path, Path], make_image_folder: Callable[..., Path]
) -> None:
    photos = make_image_folder(tmp_path / "photos", per_leaf=1, size=8)
    source = open_source(photos, taxonomy=files[0], mapping=files[1])
    assert sorted(NEW.path_name(node) for node in source.nodes.tolist()) == [
        "animal/dog/hound", "animal/dog/hound", "pet/cat/tabby", "plant", "plant/rose",
    ]  # fmt: skip
    assert source.unused is not None
    listed = [(source.names[row - 1], reason[:26]) for row, _, reason in source.unused.lines()]
    assert [(name.rpartition("/")[0], reason) for name, reason in listed] == [
        ("plant/fern", "the mapping removes its cl"), ("plant/rose", "the mapping splits its cla"),
    ]  # fmt: skip
    missing = open_source(photos, taxonomy=files[0], mapping=files[1], missing_labels=["rose"])
    assert sorted(missing.taxonomy.path_name(node) for node in missing.nodes.tolist())[-2:] == [
        "plant",
        "plant",
    ]


def test_what_does_not_go_together_is_said(tmp_path: Path, files: tuple[Path, Path]) -> None:
    table = tmp_path / "notes.csv"
    table.write_text("text,label\na,poodle\nb,elm\n")
    with pytest.raises(ValueError, match="name that one, too"):
        open_source(table, mapping=files[1])
    with pytest.raises(TaxonomyError, match="'elm' is not in the taxonomy"):
        open_source(table, taxonomy=files[0], mapping=files[1])
    with pytest.raises(ValueError, match="mapping"):
        Recipe.from_dict({"data": "notes.csv", "mapping": "map.yaml"})
    assert Recipe.from_dict({"data": "a.csv", "taxonomy": "n", "mapping": "m"}).mapping == "m"


def test_lines_about_what_no_label_says_are_named(tmp_path: Path) -> None:
    """Nothing but the labels says what the old version had, unless the file does."""
    NEW.save(tmp_path / "new.yaml")
    by_hand = tmp_path / "by-hand.yaml"
    by_hand.write_text(
        "labeltree mapping: 1\nchanges:\n- {merge: animal/dog/poodle, to: animal/dog/hound}\n"
        "- {remove: animal/elk}\n"
    )
    table = tmp_path / "notes.csv"
    table.write_text("text,label\na,poodle\nb,hound\n")
    source = open_source(table, taxonomy=tmp_path / "new.yaml", mapping=by_hand)
    assert source.notes[-1] == (
        f"{by_hand} says what became of 'animal/elk (line 4)', and no label is at or below it: correct the "
        "path, if another class is meant"
    )
    by_hand.write_text(by_hand.read_text().replace("- {remove: animal/elk}\n", ""))
    assert "says what became" not in str(open_source(table, taxonomy=NEW, mapping=by_hand).notes)


def test_names_of_another_class_in_each_version_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from labeltree.cli.main import main

    Taxonomy.from_paths(["fruit/nashi", "fruit/pear", "tool/saw"]).save(tmp_path / "new.yaml")
    (tmp_path / "map.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n- {rename: fruit/pear, to: fruit/nashi}\n"
        "- {rename: fruit/plum, to: fruit/pear}\n"
    )
    table = tmp_path / "vectors.csv"
    labels = ["fruit/pear", "fruit/plum", "tool/saw"] * 20
    rows = [f"{n % 3 + n / 99},{n % 3 - n / 99},{label}" for n, label in enumerate(labels)]
    table.write_text("\n".join(["f0,f1,label", *rows]))
    given = ["--taxonomy", str(tmp_path / "new.yaml"), "--mapping", str(tmp_path / "map.yaml")]
    words = ["--data", str(table), *given, "--objective", "tree-ridge", "--out", str(tmp_path / "run")]
    assert main(["train", *words]) == 0
    said = "".join(capsys.readouterr()) + caplog.text
    assert said.count("'fruit/pear': another class in each version, and read as the old one's") == 1
    assert "--weights THAT_RUN or a column of your own (--table.split_column) keeps its split" in said
    assert main(["train", *words[:-1], str(tmp_path / "next"), "--weights", str(tmp_path / "run")]) == 0
    assert "drawn anew" not in "".join(capsys.readouterr())
    caplog.clear()
    words = [str(tmp_path / "run"), "--data", str(table), *given[2:]]
    assert main(["calibrate", *words]) == 0  # prints no notes on the data: a warning says it
    assert caplog.text.count("another class in each version") == 1


@pytest.mark.slow
def test_a_run_is_trained_on_them(
    tmp_path: Path, files: tuple[Path, Path], make_image_folder: Callable[..., Path]
) -> None:
    import labeltree as lt
    from labeltree.cli.main import main

    photos = make_image_folder(tmp_path / "photos", per_leaf=24)
    run = lt.train(
        photos, "ce", out=tmp_path / "run", taxonomy=str(files[0]), mapping=str(files[1]), epochs=1,
        batch_size=16, encoder="small-conv", image_size=28, accelerator="cpu", val=0.4, progress_bar=False,
    )  # fmt: skip
    assert run.load_taxonomy() == NEW
    names = {NEW.path_name(node) for node in set(run.load_samples().nodes.tolist())}
    assert names == {"animal/dog/hound", "pet/cat/tabby", "plant/rose", "plant"}
    words = ["--data", str(photos), "--mapping", str(files[1])]
    assert main(["calibrate", str(run.path), *words]) == 0
    assert main(["calibrate", str(run.path), "--data", str(photos)]) != 0
    assert main(["calibrate", str(run.path), "--mapping", str(files[1])]) != 0


def test_labels_that_became_the_root_are_missing_and_told(tmp_path: Path) -> None:
    old, new = Taxonomy.from_paths(["fish", "bird/owl"]), Taxonomy.from_paths(["bird/owl"])
    new.save(tmp_path / "new.yaml")
    TaxonomyMapping.between(old, new)[0].save(tmp_path / "map.yaml")
    (tmp_path / "notes.csv").write_text("text,label\na,fish\nb,fish\nc,owl\n")
    source = open_source(
        tmp_path / "notes.csv", taxonomy=tmp_path / "new.yaml", mapping=tmp_path / "map.yaml"
    )
    assert source.nodes.tolist() == [-1, -1, 2]
    assert any("2 samples have no label any more" in note and "'fish'" in note for note in source.notes)
    assert source.unused is not None
    assert [(row, reason) for row, _, reason in source.unused.lines()] == [
        (row, "the mapping removes its class: the label 'fish' becomes missing: only the root is left above")
        for row in (2, 3)
    ]


def test_a_named_data_set_lists_what_became_coarser_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Taxonomy.from_paths(["fish", "bird/owl", "bird/tit"])
    new = Taxonomy.from_paths(["bird/owl"])
    nodes = torch.tensor([old.find(name) for name in ("owl", "fish", "tit", "bird")] + [-1, 0])
    brought = Source.in_order("fashion-mnist", old, nodes, texts=list("abcdef"))
    opened = opening.open_source
    monkeypatch.setattr(
        opening, "open_source", lambda spec, **kw: brought if "taxonomy" not in kw else opened(spec, **kw)
    )
    source = opening.open_source("fashion-mnist", taxonomy=new, mapping=TaxonomyMapping.between(old, new)[0])
    assert source.nodes.tolist() == [new.find("owl"), -1, new.find("bird"), new.find("bird"), -1, 0]
    assert source.unused is not None
    assert [(row, reason.partition(":")[0]) for row, _, reason in source.unused.lines()] == [
        (2, "the mapping removes its class"), (3, "the mapping removes its class"),
    ]  # fmt: skip


labels = st.lists(
    st.sampled_from([OLD.path_name(n) for n in range(1, OLD.num_nodes)] + ["", "moss"]), min_size=1
)


@given(labels)
def test_every_row_is_used_as_it_stands_or_listed(names: list[str]) -> None:
    """Under a mapping, too: a row is the node that its class became, or is listed with the reason."""
    targets = [
        [NEW.find(path) for path in BECAME.get(OLD.path_name(node), [OLD.path_name(node)])]
        for node in range(OLD.num_nodes)
    ]
    mapping = TaxonomyMapping(OLD, NEW, targets)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "notes.csv"
        table.write_text(
            "\n".join(["text,label", *(f"t{n},{name}" for n, name in enumerate(["moss", *names]))])
        )
        source = open_source(table, taxonomy=NEW, mapping=mapping)
    assert source.unused is not None
    listed = {row - 3 for row, _, _ in source.unused.lines()}
    for row, (name, node) in enumerate(zip(names, source.nodes.tolist()[1:], strict=True)):
        exact = name and (name == "moss" or bool(mapping.exact[OLD.find(name)]))
        assert (row in listed) == (not exact)
        if exact:
            assert node == (NEW.find(name) if name == "moss" else mapping.targets[OLD.find(name)][0])


@pytest.mark.parametrize("names", ["plain", "scientific"])
@pytest.mark.parametrize("column", ["one", "one per depth"])
def test_names_are_matched_with_both_versions(tmp_path: Path, names: str, column: str) -> None:
    """Spellings of paths that the mapping changes are sought in the old taxonomy, others in the new one."""
    Taxonomy.from_paths(["Canis/Canis latrans", "Vulpes/Vulpes lagopus", "Lupus/Lupus novus"]).save(
        tmp_path / "new.yaml"
    )
    (tmp_path / "map.yaml").write_text(
        "labeltree mapping: 1\nchanges:\n- {rename: Alopex, to: Vulpes}\n"
        "- {rename: Alopex/Alopex lagopus, to: Vulpes/Vulpes lagopus}\n"
    )
    rows = [("CANIS", "Canis  latrans"), ("alopex", "ALOPEX lagopus"), ("alopex", "")]
    rows.append(("LUPUS", "Lupus NOVUS"))
    if names == "scientific":
        rows = [(a.capitalize(), b.capitalize()) for a, b in rows]
    if column == "one":
        lines = ["text,label", *(f"t{n},{'/'.join(filter(None, row))}" for n, row in enumerate(rows))]
    else:
        lines = ["text,depth1,depth2", *(f"t{n},{a},{b}" for n, (a, b) in enumerate(rows))]
    (tmp_path / "notes.csv").write_text("\n".join(lines))
    source = open_source(
        tmp_path / "notes.csv",
        taxonomy=tmp_path / "new.yaml",
        mapping=tmp_path / "map.yaml",
        table={"names": names},
    )
    assert source.taxonomy.decode(source.nodes) == [
        "Canis/Canis latrans", "Vulpes/Vulpes lagopus", "Vulpes", "Lupus/Lupus novus",
    ]  # fmt: skip


def test_gaps_and_breadcrumbs_are_read_on_both_versions(tmp_path: Path, files: tuple[Path, Path]) -> None:
    table = tmp_path / "notes.csv"
    table.write_text("text,depth1,depth2,depth3\na,animal,,tabby\nb,pet,,tabby\n")
    source = open_source(table, taxonomy=files[0], mapping=files[1])
    assert source.taxonomy.decode(source.nodes) == ["pet/cat/tabby"] * 2
    table.write_text("text,label\na,animal > cat > tabby\nb,pet/cat/tabby\nc,moss\n")
    source = open_source(table, taxonomy=files[0], mapping=files[1])
    assert source.taxonomy.decode(source.nodes) == ["pet/cat/tabby"] * 2 + ["plant/moss"]
