"""Tables of shops, clinics and photos whose columns are called like ranks are read as what they are."""

from pathlib import Path

import pytest

from labeltree.data import open_source
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy


def paths(folder: Path, text: str, **settings) -> list[str]:
    file = folder / "table.csv"
    file.write_text(text)
    source = open_source(file, **settings)
    return source.taxonomy.decode(source.nodes)


def table(columns: str, rows: list[str], repeat: int = 3) -> str:
    lines = [f"text {i}.{k},{row}" for k in range(repeat) for i, row in enumerate(rows)]
    return "\n".join([f"text,{columns}", *lines]) + "\n"


def test_departments_of_a_shop(tmp_path):
    rows = [
        "General,Tops,Knits",
        "General,Tops,Blouses",
        "General Petite,Tops,Knits",
        "General,Bottoms,Jeans",
    ]
    assert paths(tmp_path, table("Division,Department,Class", rows))[:2] == ["Tops/Knits", "Tops/Blouses"]
    with pytest.raises(DataError, match="no column for labels"):
        paths(tmp_path, table("division,order", ["a,1001", "a,1002", "b,1003"]))


def test_a_class_that_is_finer_than_the_species(tmp_path):
    rows = ["a,a healthy", "a,a rust", "b,b healthy", "b,b rust", "c,c healthy"]
    assert paths(tmp_path, table("species,class", rows))[:2] == ["a/a healthy", "a/a rust"]


def test_a_class_beside_a_genus_that_is_no_rank(tmp_path):
    rows = [f"g{i},{'edible' if i % 2 else 'poisonous'}" for i in range(10)] + ["g0,edible"]
    assert set(paths(tmp_path, table("genus,class", rows))) == {"edible", "poisonous"}
    rows = ["Rosa,Rosa canina,healthy", "Rosa,Rosa canina,rust"]
    assert set(paths(tmp_path, table("genus,species,class", rows))) == {"healthy", "rust"}


def test_a_straying_category_without_a_department(tmp_path):
    rows = [f"d{i % 6},c{i}" for i in range(60)] + ["d1,c0", ",c0"]
    assert paths(tmp_path, table("department,category", rows))[:2] == ["c0", "c1"]


def test_a_family_name_of_people(tmp_path):
    rows = ["Smith,dog,benign", "Jones,cat,malignant", "Smith,cat,malignant", "Miller,dog,benign"]
    labels = paths(tmp_path, table("family_name,species,class", rows))
    assert {label.split("/")[-1] for label in labels} <= {"benign", "malignant", "Smith", "Jones", "Miller"}
    assert not any(label.endswith(("cat", "dog")) for label in labels)


def test_the_column_class_with_a_taxonomy(tmp_path):
    tree = Taxonomy.from_paths(["Tops/Knits", "Tops/Blouses", "Bottoms/Jeans"])
    rows = ["General,Knits", "General,Jeans"]
    assert paths(tmp_path, table("Division,Class", rows), taxonomy=tree)[:2] == [
        "Tops/Knits",
        "Bottoms/Jeans",
    ]


def test_names_follow_a_genus_that_all_rows_share(tmp_path):
    rows = ["Parus,major", "Parus,ater"]
    labels = paths(tmp_path, table("genus,specificEpithet", rows))
    assert [label.split("/")[-1] for label in labels[:2]] == ["Parus major", "Parus ater"]


def test_an_epithet_without_a_genus_is_no_name(tmp_path):
    rows = ["Paridae,Parus,major", "Paridae,,major", "Turdidae,Turdus,merula"]
    labels = paths(tmp_path, table("family,genus,specificEpithet", rows))
    assert labels[0].endswith("Parus major")
    assert labels[1] == "Paridae"


@pytest.mark.parametrize("columns", ["genus,species,infraspecificEpithet", "genus,subspecies"])
def test_nothing_but_what_all_rows_share(tmp_path, columns):
    row = "Parus,Parus major" if "species," in columns else "Parus"
    text = table(columns, [f"{row},newtoni", f"{row},", f"{row},", f"{row},"])
    assert len(set(paths(tmp_path, text))) >= 1


def test_gaps_are_not_filled_from_remainders(tmp_path):
    text = table("dept,cat", ["Toys,other", ",other", "Toys,cars", "Home,lamps"])
    with pytest.raises(DataError):
        paths(tmp_path, text, label_columns=["dept", "cat"], gaps="error")
    labels = paths(tmp_path, text, label_columns=["dept", "cat"], gaps="skip")
    assert labels[1] == "/other"
