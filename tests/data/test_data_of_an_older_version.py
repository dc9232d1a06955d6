"""Data with labels of an older version of a taxonomy are read on the new one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.data import open_source
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
        "5 labels of the old taxonomy are read on the new one by the mapping; 3 that only the new one has"
        in note
        for note in source.notes
    )
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
