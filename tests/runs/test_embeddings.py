"""The embeddings table: what is written is read back, and what others wrote is understood or explained."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from labeltree.errors import DataError, TaxonomyError
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_taxonomies import taxonomy_of_tables
from labeltree.taxonomy import Taxonomy


@pytest.fixture
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "x")])


@pytest.fixture
def table() -> EmbeddingTable:
    return EmbeddingTable(
        embeddings=torch.randn(5, 3) * 0.1,
        nodes=torch.tensor([2, 3, 5, -1, 1]),
        split=np.array(["train", "train", "test", "test", "val"]),
        features=torch.randn(5, 7),
        instances=torch.tensor([2**40, 2**24 + 1, 3, 4, 5]),
        paths=np.array(["a.png", "b.png", "é.png", "d", "e"]),
        geometry="poincare",
        curvature=-0.3,
        predictions=torch.tensor([2, -1, 5, 0, 1]),
        encoder_digest="ab12",
    )


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_round_trip(suffix: str, table: EmbeddingTable, taxonomy: Taxonomy, tmp_path: Path) -> None:
    table.save(tmp_path / f"table{suffix}")
    again = EmbeddingTable.load(tmp_path / f"table{suffix}", taxonomy)
    for name in ("embeddings", "nodes", "features", "instances", "predictions"):
        assert torch.equal(getattr(again, name), getattr(table, name)), name
    assert again.split is not None
    assert again.paths is not None
    assert again.split.tolist() == table.split.tolist()  # type: ignore[union-attr]
    assert again.paths.tolist() == table.paths.tolist()  # type: ignore[union-attr]
    assert (again.geometry, again.curvature) == ("poincare", -0.3)
    assert again.space.name == "poincare"
    assert again.encoder_digest == "ab12"


def test_equal_features_and_embeddings_are_held_once(table: EmbeddingTable, tmp_path: Path) -> None:
    replace(table, features=table.embeddings.clone()).save(tmp_path / "table.npz")
    loaded = EmbeddingTable.load(tmp_path / "table.npz")
    assert loaded.features is not None
    assert torch.equal(loaded.features, table.embeddings)
    assert loaded.features.data_ptr() == loaded.embeddings.data_ptr()


def test_select(table: EmbeddingTable) -> None:
    test = table.select("test")
    assert test.nodes.tolist() == [5, -1]
    assert test.paths is not None
    assert test.paths.tolist() == ["é.png", "d"]
    assert test.predictions is not None
    assert test.predictions.tolist() == [5, 0]
    with pytest.raises(DataError, match=r"no rows of split 'dev'; it has \['test', 'train', 'val'\]"):
        table.select("dev")


def test_labels_by_name(taxonomy: Taxonomy, tmp_path: Path) -> None:
    frame = pd.DataFrame({"embedding": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "label": ["a/x", None, "b"]})
    frame.to_parquet(tmp_path / "t.parquet")
    table = EmbeddingTable.load(tmp_path / "t.parquet", taxonomy)
    assert table.nodes.tolist() == [taxonomy.find("a/x"), -1, taxonomy.find("b")]
    assert table.embeddings.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    np.savez(tmp_path / "t.npz", embeddings=np.eye(3), labels=np.array(["a/x", "", "y"]))
    assert EmbeddingTable.load(tmp_path / "t.npz", taxonomy).nodes.tolist() == [2, -1, 3]


def test_answers_by_name(taxonomy: Taxonomy, tmp_path: Path) -> None:
    columns = {"embeddings": np.eye(3), "labels": ["a/x", "y", "y"]}
    np.savez(tmp_path / "t.npz", **columns, predictions=np.array(["b/x", "", "a"]))  # type: ignore[arg-type]
    table = EmbeddingTable.load(tmp_path / "t.npz", taxonomy)
    assert table.predictions is not None
    assert table.predictions.tolist() == [taxonomy.find("b/x"), -1, taxonomy.find("a")]
    np.savez(tmp_path / "t.npz", **columns)  # type: ignore[arg-type]
    assert EmbeddingTable.load(tmp_path / "t.npz", taxonomy).predictions is None


def test_blanks_around_names_and_groups_are_none(taxonomy: Taxonomy, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("f0,f1,f2,f3,labels,groups\n1, 2 ,1,1,b,Graz \n, 3,1,1,b , Graz\n1,1,1,1,b,Linz\n")
    with pytest.raises(DataError, match="row 1 holds NaN"):  # a blank cell is a missing number
        EmbeddingTable.load(file, taxonomy)
    file.write_text(file.read_text().replace("\n, 3", "\n0, 3"))
    table = EmbeddingTable.load(file, taxonomy)
    assert table.embeddings.tolist() == [[1, 2, 1, 1], [0, 3, 1, 1], [1, 1, 1, 1]]
    assert table.groups is not None
    assert table.groups.tolist() == [0, 0, 1]
    assert table.nodes.unique().tolist() == [taxonomy.find("b")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"labels": ["y"]}, "no column 'embeddings'"),
        ({"embeddings": np.eye(2), "labels": ["b"]}, "t.npz' has 2 embeddings but 1 labels; there must be"),
        (
            {"embeddings": np.ones((3, 2)), "labels": ["b"] * 2},
            "3 embeddings but 2 labels; write embeddings.T",
        ),
        ({"embeddings": np.eye(2)}, "neither a column 'labels' nor 'nodes'"),
        (
            {"embeddings": np.eye(4), "id": list("pqrs"), "order": list("ooww"), "genus": list("ccdd")},
            r"table\['labels'\] = table\['order'\] \+ '/' \+ table\['genus'\]$",
        ),
        ({"embeddings": np.eye(2), "nodes": [1]}, "2 embeddings but 1 nodes"),
        ({"embeddings": np.eye(2), "nodes": [1, 99]}, "has node 99, but the taxonomy's nodes are 0 to"),
        ({"embeddings": np.eye(2), "nodes": [1, 2], "predictions": [1, 6]}, "has node 6, but the taxonomy's"),
        ({"embeddings": np.eye(2), "nodes": [1, 2], "predictions": [1]}, "2 embeddings but 1 predictions"),
        ({"embeddings": np.eye(2), "nodes": [1, 2], "predictions": [1.5, 2]}, "must be integers"),
        ({"embeddings": np.eye(2), "nodes": [0.5, 1.0]}, "must be integers"),
        ({"embeddings": [1.0, 2.0], "nodes": [1, 2]}, r"numeric \(n, d\)"),
        ({"embeddings": [[1.0, np.nan], [1.0, 2.0]], "nodes": [1, 2]}, "row 0 holds NaN"),
    ],
)
def test_what_is_wrong_is_named(
    columns: dict[str, object], message: str, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", **{k: np.asarray(v) for k, v in columns.items()})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        EmbeddingTable.load(tmp_path / "t.npz", taxonomy)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([1, 0, 1, 1], "4 of 4 samples .*rows 0, 1, 2 ….*'1' \\(3 samples\\).*labels = np.array\\(names\\)"),
        (["a::x", "a::y", "b", ""], r"2 of 4 samples .*rows 0, 1,.*np.char.replace\(labels, '::', '/'\)"),
        (["A/X", "a/y", "b", "b"], r"1 of 4 samples .*row 0,.*np.char.lower\(labels\)"),
        (["y ", "nan", "b", "nan"], r"'nan' \(2 samples; a missing label is an empty text\)"),
        (["y ", "Y", "c", "b"], r"'Y' \(1 sample; did you mean 'y'\?\), 'c' \(1 sample\)\. Correct these"),
        (["q/y", "y", "y", "y"], "did you mean 'a/y'"),
        (
            ["y", "x", "x", "y"],
            "label 'x' of 2 samples, first in row 1, counted from 0; it is the name of 2 nodes, 'a/x'",
        ),
    ],
)
def test_labels_outside_the_taxonomy(
    labels: list[object], said: str, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", embeddings=np.eye(4), labels=np.array(labels))
    with pytest.raises(TaxonomyError, match=f"t.npz', column 'labels': .*{said}"):
        EmbeddingTable.load(tmp_path / "t.npz", taxonomy)


def test_misspelt_paths_have_a_suggestion(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([("garden", "furniture", "deck chairs"), ("garden", "tools", "rakes")])
    np.savez(
        tmp_path / "t.npz",
        embeddings=np.eye(2),
        labels=np.array(["rakes", "garden > furnitur > deck charis"]),
    )
    with pytest.raises(TaxonomyError, match="did you mean 'garden/furniture/deck chairs'"):
        EmbeddingTable.load(tmp_path / "t.npz", tree)


def test_a_name_above_the_misspelt_one_is_no_suggestion(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([("melanocytic", "naevus"), ("melanocytic", "melanoma")])
    for label, said in (("nevus", r"did you mean 'melanocytic/naevus'\?"), ("xyz", r"\(1 sample\)")):
        np.savez(tmp_path / "t.npz", embeddings=np.eye(1), labels=np.array([f"melanocytic/{label}"]))
        with pytest.raises(TaxonomyError, match=said):
            EmbeddingTable.load(tmp_path / "t.npz", tree)


def test_breadcrumbs_are_paths(taxonomy: Taxonomy, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", embeddings=np.eye(2), labels=np.array(["a > x", "b"]))
    assert EmbeddingTable.load(tmp_path / "t.npz", taxonomy).nodes.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"one": np.eye(3), "two": np.eye(3), "y": ["a", "b", "b"]},
            "'one' (3 × 3 numbers), 'two' (3 × 3 numbers), 'y' (3 text); 'one' is probably meant",
        ),
        ({"embeddings": np.eye(2), "kind": ["b", "b"]}, "'kind' holds names of the taxonomy"),
        (
            {"label": ["a", "b"], **{f"d{i}": [0.5, 1.0] for i in range(3)}},
            "has 'label' (2 text), 'd0' (2 numbers), 'd1' (2 numbers), 'd2' (2 numbers)",
        ),
    ],
)
def test_a_missing_column_is_looked_for(
    columns: dict[str, object], said: str, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", **{k: np.asarray(v) for k, v in columns.items()})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=re.escape(said)):
        EmbeddingTable.load(tmp_path / "t.npz", taxonomy)


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "parquet"])
def test_a_column_for_each_dimension(form: str, taxonomy: Taxonomy, tmp_path: Path) -> None:
    rows = {"label": ["b", None, "a/x"], **{f"f{i}": [i, 0.5, -1.0] for i in (0, 10, 2, 1, 9)}}
    frame = pd.DataFrame(rows | {"patient": [7, 8, 7], "age": [50, 51, 52], "split": ["test"] * 3})
    path = tmp_path / f"t.{form}"
    if form == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    table = EmbeddingTable.load(path, taxonomy, group_column="patient")
    assert table.embeddings[0].tolist() == [0, 1, 2, 9, 10]
    assert table.nodes.tolist() == [4, -1, 2]
    assert table.groups is not None
    assert table.groups[0] == table.groups[2] != table.groups[1]
    assert sorted(table.attributes) == ["age", "patient"]
    assert taxonomy_of_tables(path).names[1:] == ["b", "a", "x"]


def test_a_text_table_of_embeddings_that_is_none(taxonomy: Taxonomy, tmp_path: Path) -> None:
    for text, said in (
        ("label,f0,f1,f2,f3\nb,1,,2,3\n", "row 0 holds NaN"),
        ("label,f0,f1,f2,f3\nb,1,x,2,3\n", "no column 'embeddings'"),
        ("label,f0,f1,f2,f3\nb,1\n", "line 2 has 2 cells where the header has 5"),
    ):
        (tmp_path / "t.csv").write_text(text, "utf-8")
        with pytest.raises(DataError, match=said):
            EmbeddingTable.load(tmp_path / "t.csv", taxonomy)


def test_groups_of_another_column(taxonomy: Taxonomy, tmp_path: Path) -> None:
    patients = pd.DataFrame({"embeddings": [[1.0, 0.0]] * 4, "label": ["b"] * 4, "patient": [7, None, 7, 2]})
    patients.assign(groups=[1, 2, 3, 4]).to_parquet(tmp_path / "t.parquet")
    groups = EmbeddingTable.load(tmp_path / "t.parquet", taxonomy, group_column="patient").groups
    assert groups is not None
    assert groups.tolist() == [7, -1, 7, 2]
    with pytest.raises(DataError, match=r"no column 'patients' to .*did you mean 'patient'\?") as error:
        EmbeddingTable.load(tmp_path / "t.parquet", taxonomy, group_column="patients")
    assert "'embeddings'" not in str(error.value)  # not a value a row


def test_other_errors(taxonomy: Taxonomy, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no embeddings at"):
        EmbeddingTable.load(tmp_path / "none.npz", taxonomy)
    (tmp_path / "bad.npz").write_bytes(b"not an archive")
    with pytest.raises(DataError, match="cannot be read as an embeddings table"):
        EmbeddingTable.load(tmp_path / "bad.npz", taxonomy)
    np.savez(tmp_path / "t.npz", embeddings=np.eye(1), labels=np.array(["z"]))
    with pytest.raises(TaxonomyError, match="z"):
        EmbeddingTable.load(tmp_path / "t.npz", taxonomy)
    with pytest.raises(DataError, match="a taxonomy is needed"):
        EmbeddingTable.load(tmp_path / "t.npz")
    (tmp_path / "pickled.npz").unlink(missing_ok=True)
    np.savez(tmp_path / "pickled.npz", embeddings=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="cannot be read as an embeddings table"):
        EmbeddingTable.load(tmp_path / "pickled.npz", taxonomy)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_groups_are_read_as_numbers_or_names(
    suffix: str, table: EmbeddingTable, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    numbered = replace(table, groups=torch.tensor([4, -1, 4, 2, 2]))
    numbered.save(tmp_path / f"numbers{suffix}")
    again = EmbeddingTable.load(tmp_path / f"numbers{suffix}", taxonomy)
    assert again.groups is not None
    assert again.groups.tolist() == [4, -1, 4, 2, 2]
    assert again.rows(torch.tensor([0, 3])).groups.tolist() == [4, 2]  # type: ignore[union-attr]


def test_a_table_is_shown_in_a_line(table: EmbeddingTable) -> None:
    known = replace(table, groups=torch.tensor([4, -1, 4, 2, 2]), attributes={"site": np.array(["a"] * 5)})
    assert repr(known).startswith("EmbeddingTable(5 samples, ")
    assert repr(known).endswith("2 groups, site)")


def test_groups_by_name(tmp_path: Path) -> None:
    names = np.array(["patient 7", "", "patient 3", "patient 7"])
    np.savez(
        tmp_path / "named.npz", embeddings=np.eye(4, dtype=np.float32), nodes=np.ones(4, int), group=names
    )
    groups = EmbeddingTable.load(tmp_path / "named.npz").groups
    assert groups is not None
    assert groups.tolist() == [1, -1, 0, 1]
