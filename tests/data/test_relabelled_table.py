"""Tables are written with the labels of the new version; all else stays, and what is open is said."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import labeltree as lt
from labeltree.data.tables.relabelled_table import RelabelledTable, relabel_table
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

openpyxl = pytest.importorskip("openpyxl")

OLD = Taxonomy.from_paths(
    ["birds/Parus/major", "birds/Parus/blue", "birds/Finch/green", "birds/Finch/spinus", "birds/Crow/carrion"]
)
NEW = Taxonomy.from_paths(
    [
        "birds/Parus/major",
        "birds/Cyanistes/blue tit",
        "birds/Chloris/green",
        "birds/Spinus/spinus",
        "birds/Crow/black",
    ]
)
SYNONYMS = {"blue": "birds/Cyanistes/blue tit"}


def mapping() -> TaxonomyMapping:
    return TaxonomyMapping.between(OLD, NEW, SYNONYMS)[0]


def relabelled(path: Path, **settings: str) -> tuple[RelabelledTable, Path]:
    out = path.with_stem(f"{path.stem}-new")
    return relabel_table(path, out, mapping(), **settings), out


def test_bytes_of_other_cells_stay(tmp_path: Path) -> None:
    rows = [
        'sep=;\r\n"file";label;n\r\n',
        '"a.jpg";"birds/Parus/blue";"x ""y"" ä; z"\r\n',
        "b.jpg;blue; 007\r\n\r\n",
        "c.jpg;birds > Parus > blue;1,50\r\n",
        "d.jpg;birds/Finch/green;\r\n",
        "e.jpg;green;NA\r\n",
        "f.jpg;;",
    ]
    path = tmp_path / "labels.csv"
    path.write_bytes("".join(rows).encode("utf-8-sig"))
    done, out = relabelled(path)
    expected = (
        "".join(rows)
        .replace('"birds/Parus/blue"', '"birds/Cyanistes/blue tit"')
        .replace("b.jpg;blue", "b.jpg;blue tit")
        .replace("birds > Parus > blue", "birds > Cyanistes > blue tit")
        .replace("birds/Finch/green", "birds/Chloris/green")
    )
    assert out.read_bytes() == expected.encode("utf-8-sig")
    assert (done.changed, done.kept, done.unlabelled, done.undecided) == (4, 1, 1, {})
    assert str(done) == "4 labels changed; 1 as before; 1 row without one"


def test_what_a_person_decides_stays_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes("id\tlabel\n1\tFinch\n2\tcarrion\n3\tdodo\n4\tmajor\n5\tblue\n".encode("cp1252"))
    done, out = relabelled(path)
    assert out.read_text().splitlines() == [
        "id\tlabel\tto decide",
        "1\tFinch\tsplit: birds/Chloris or birds/Spinus",
        "2\tcarrion\tremoved: the class above it is birds/Crow",
        "3\tdodo\tneither version has 'dodo'",
        "4\tmajor\t",
        "5\tblue tit\t",
    ]
    assert done.undecided == {"split": 1, "removed": 1, "unknown": 1}
    assert "3 left as before, see the column 'to decide' (1 split, 1 removed, 1 unknown)" in str(done)
    with pytest.raises(DataError, match="has a column 'to decide' already"):
        relabelled(out)


LEVELS = pd.DataFrame(
    {
        "id": ["001", "002", "003", "004"],
        "genus": ["Parus", "Finch", "Finch", None],
        "species": ["blue", "spinus", None, None],
        "score": [1.5, 2.0, None, 4.0],
    }
)


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx", ".csv"])
def test_levels_stand_in_their_columns(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"levels{suffix}"
    if suffix == ".parquet":
        LEVELS.to_parquet(path)
    elif suffix == ".xlsx":
        LEVELS.to_excel(path, index=False, sheet_name="Birds")
        book = openpyxl.load_workbook(path)
        book.create_sheet("other")["A1"] = "=1+1"
        book["Birds"]["D2"].number_format = "0.000"
        book.save(path)
    else:
        LEVELS.to_csv(path, index=False)
    done, out = relabelled(path)
    read = {".parquet": pd.read_parquet, ".xlsx": pd.read_excel, ".csv": pd.read_csv}[suffix]
    new = read(out) if suffix == ".parquet" else read(out, dtype={"id": str})  # type: ignore[operator]
    assert new["genus"].fillna("").tolist() == ["Cyanistes", "Spinus", "Finch", ""]
    assert new["species"].fillna("").tolist() == ["blue tit", "spinus", "", ""]
    assert new["id"].tolist() == LEVELS["id"].tolist()
    assert new["score"].fillna(-1).tolist() == [1.5, 2.0, -1, 4.0]
    assert new["to decide"].fillna("").tolist() == ["", "", "split: birds/Chloris or birds/Spinus", ""]
    assert done.undecided == {"split": 1}
    if suffix == ".parquet":
        assert pq.read_schema(out).field("score").type == pq.read_schema(path).field("score").type
    if suffix == ".xlsx":
        book = openpyxl.load_workbook(out)
        assert book["other"]["A1"].value == "=1+1"
        assert book["Birds"]["D2"].number_format == "0.000"


def test_lines_of_records_that_stay_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"text":  "ä", "label": "major"}\n\n{"text": "ö", "label": "blue"}\n', "utf-8")
    _, out = relabelled(path)
    stays = '{"text":  "ä", "label": "major"}\n\n'
    assert out.read_text("utf-8") == stays + '{"text": "ö", "label": "blue tit"}\n'


def test_cells_with_several_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,blue; major\n2,major\n3,major;Finch\n")
    _, out = relabelled(path, label_separator=";")
    assert out.read_text().splitlines() == [
        "id,label,to decide",
        "1,blue tit; major,",
        "2,major,",
        "3,major;Finch,split: birds/Chloris or birds/Spinus",
    ]


def test_refused_tables_leave_no_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,x\n2,y\n")
    with pytest.raises(DataError, match=r"no label in label is in either version.*table.label_columns"):
        relabelled(path)
    path.write_text("id,label\n1,blue\n")
    with pytest.raises(DataError, match=r"let its name end in \.csv"):
        relabel_table(path, tmp_path / "new.parquet", mapping())
    coded = tmp_path / "coded.csv"
    coded.write_bytes("id,label\n1,é\n".encode("cp1252"))
    renamed = TaxonomyMapping.between(
        Taxonomy.from_paths(["é", "b"]), Taxonomy.from_paths(["語", "b"]), {"é": "語"}
    )[0]
    with pytest.raises(DataError, match="save that as UTF-8"):
        relabel_table(coded, tmp_path / "new.csv", renamed)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["coded.csv", "labels.csv"]


def test_from_python(tmp_path: Path) -> None:
    OLD.save(tmp_path / "old.json")
    NEW.save(tmp_path / "new.json")
    (tmp_path / "synonyms.csv").write_text("synonym,accepted\nblue,birds/Cyanistes/blue tit\n")
    (tmp_path / "labels.csv").write_text("id,label\n1,green\n2,birds/Parus/blue\n")
    changes, table = tmp_path / "changes.yaml", str(tmp_path / "table.csv")
    old, new, data = str(tmp_path / "old.json"), str(tmp_path / "new.json"), tmp_path / "labels.csv"
    lt.map_taxonomies(old, new, synonyms=tmp_path / "synonyms.csv", out=changes)
    done = lt.apply_changes(changes, old, table, data=data)
    assert done.table is not None
    assert (done.table.changed, done.table.kept) == (1, 1)
    assert Path(table).read_text() == "id,label\n1,green\n2,birds/Cyanistes/blue tit\n"
    with pytest.raises(ValueError, match="release"):
        lt.apply_changes(changes, old, table, data=data, release="2")


def test_merged_cells_become_one_new_value(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["genus", "species", "n"], ["Crow", "black", 1], ["Parus", "blue", 2], [None, "blue", 3]):
        book.active.append(row)
    book.active.merge_cells("A3:A4")
    path = tmp_path / "merged.xlsx"
    book.save(path)
    _, out = relabelled(path)
    sheet = openpyxl.load_workbook(out).active
    assert [cell.value for cell in sheet["A"]] == ["genus", "Crow", "Cyanistes", None]
    sheet = book.active
    sheet["B4"] = "major"
    book.save(path)
    with pytest.raises(DataError, match="A3:A4 are merged, and no longer equal"):
        relabelled(path)


def test_a_class_below_a_split_one_says_its_parts(tmp_path: Path) -> None:
    old = Taxonomy.from_paths(["mallard/drake", "mallard/hen", "owl"])
    new = Taxonomy.from_paths(["north", "south", "owl"])
    split = TaxonomyMapping(
        old, new, [(0,), (new.find("north"), new.find("south")), (), (), (new.find("owl"),)]
    )
    (tmp_path / "labels.csv").write_text("id,label\n1,drake\n2,owl\n")
    relabel_table(tmp_path / "labels.csv", tmp_path / "new.csv", split)
    assert "1,drake,removed: mallard was split into north or south" in (tmp_path / "new.csv").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "label\nblue\nblue\ngreen\n",
        "name,label\nx1,blue\nx2,blue\nx3,green\n",
        "id,bird\n1,blue\n2,blue\n3,green\n",
    ],
)
def test_a_table_of_names_is_counted(tmp_path: Path, text: str) -> None:
    """It was read as a taxonomy: "a taxonomy without samples", or an error about a column per depth."""
    OLD.save(tmp_path / "old.json")
    NEW.save(tmp_path / "new.json")
    (tmp_path / "labels.csv").write_text(text)
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    touched = lt.diff_taxonomies(old, new, data=str(tmp_path / "labels.csv")).touched
    assert touched is not None
    assert (touched.samples, touched.unmatched) == (3, 0)
    assert {str(c).split(":")[0]: touched.by(c) for c in lt.diff_taxonomies(old, new).mapping.changes()}[
        "split"
    ] == 1


def test_a_text_of_several_lines_in_a_record_stays_in_it(tmp_path: Path) -> None:
    """U+2028 and U+0085 end no line of JSON Lines; the records below moved up by one."""
    path = tmp_path / "table.jsonl"
    lines = ['{"note": "a\u2028b\u0085c", "label": "owl"}', '{"note": "d", "label": "drake"}', ""]
    path.write_text("\n".join(lines), "utf-8")
    old, new = Taxonomy.from_paths(["mallard/drake", "owl"]), Taxonomy.from_paths(["mallard/male", "owl"])
    renamed = TaxonomyMapping(
        old, new, [(0,), (new.find("mallard"),), (new.find("male"),), (new.find("owl"),)]
    )
    relabel_table(path, tmp_path / "new.jsonl", renamed)
    assert (tmp_path / "new.jsonl").read_text("utf-8").split("\n") == [
        lines[0],
        '{"note": "d", "label": "male"}',
        "",
    ]


def test_an_id_of_a_merged_class_becomes_that_of_the_class_that_stays(tmp_path: Path) -> None:
    names = ["skin", "skin/eczema", "skin/urticaria", "skin/acne"]
    old = Taxonomy.from_paths(names).with_aliases([[], ["X:04"], ["X:0401", "atopy"], ["X:0405"], ["X:0404"]])
    changes = tmp_path / "changes.yaml"
    lines = ["{merge: skin/urticaria, to: skin/eczema}", "{rename: skin/acne, to: skin/acne vulgaris}"]
    changes.write_text("labeltree mapping: 1\nchanges:\n" + "".join(f"- {line}\n" for line in lines))
    table = tmp_path / "labels.csv"
    table.write_text("sample,label\n1,X:0405\n2,X:0401\n3,X:0404\n4,atopy\n5,urticaria\n")
    done = relabel_table(table, tmp_path / "new.csv", TaxonomyMapping.load(changes, old=old))
    assert (done.changed, done.kept) == (2, 3)
    labels = [line.partition(",")[2] for line in (tmp_path / "new.csv").read_text().splitlines()[1:]]
    assert labels == ["X:0401", "X:0401", "X:0404", "atopy", "eczema"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("texts", [False, True])
def test_what_is_to_decide_is_no_sample(tmp_path: Path, suffix: str, texts: bool) -> None:
    """Beside vectors, as beside texts under an unusual name, the long sentences to decide are not read."""
    old = Taxonomy.from_paths(["animals/birds/finch", "animals/birds/crow"])
    parts = [f"animals/birds/finch of the island number {n} and its coast" for n in range(6)]
    new = Taxonomy.from_paths([*parts, "animals/birds/crow"])
    changed = TaxonomyMapping.load(_splits(tmp_path, parts), old=old, new=new)
    rows = pd.DataFrame({"label": ["animals/birds/finch"] * 8})
    if texts:
        rows["habitat story"] = [f"it lives on the island {n} near the {n} old trees" for n in range(8)]
    else:
        rows = rows.assign(**{f"v{k}": [float(n * k % 5) for n in range(8)] for k in range(3)})
    path, out = tmp_path / f"table{suffix}", tmp_path / f"new{suffix}"
    rows.to_parquet(path) if suffix == ".parquet" else rows.to_csv(path, index=False)
    done = relabel_table(path, out, changed)
    assert done.undecided == {"split": 8}
    source = lt.data.open_source(out)
    assert len(source) == 8
    assert source.columns == lt.data.open_source(path).columns


def _splits(folder: Path, parts: list[str]) -> Path:
    path = folder / "changes.yaml"
    path.write_text(f"labeltree mapping: 1\nchanges:\n- {{split: animals/birds/finch, to: {parts}}}\n")
    return path


def test_labels_that_stand_above_empty_cells_are_written_full(tmp_path: Path) -> None:
    """Else the rows below one that moves would have moved, too."""
    path = tmp_path / "birds.csv"
    path.write_text("x,order,genus,species\n1,birds,Parus,major\n2,,,blue\n3,,,major\n4,,Finch,green\n")
    columns = ["order", "genus", "species"]
    done, out = relabelled(path, label_columns=columns, fill_down=columns[:2])
    assert out.read_text() == (
        "x,order,genus,species\n1,birds,Parus,major\n2,birds,Cyanistes,blue tit\n3,birds,Parus,major\n"
        "4,birds,Chloris,green\n"
    )
    assert (done.changed, done.kept, done.undecided) == (2, 2, {})
    assert "3 empty cells of 'order' have the value above them (table.fill_down)" in done.notes
