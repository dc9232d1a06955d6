"""Tables in the forms that people save: encodings, separators, lines above the header, JSON, workbooks."""

import bz2
import csv
import gzip
import json
import lzma
import unicodedata
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree import text_tables, workbooks
from labeltree.data import open_source
from labeltree.data.streaming import stream_samples
from labeltree.data.table_columns import DataTable, placed_batches, read_header
from labeltree.data.table_forms import record_tables
from labeltree.data.tables.multi_label import LabelEvidence
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy

ROWS = [("hoots", "bird/owl", "a"), ("quacks, loudly", "bird/duck", "b"), ("glides", "fish", "c")]
LABELS = ["bird/owl", "bird/duck", "fish"]


def labels(path, **settings):
    source = open_source(path, **settings)
    names = source.taxonomy
    return [names.path_name(node) if node > 0 else None for node in source.nodes.tolist()]


def text_of(separator, quote='"'):
    rows = [("text", "label", "source"), *ROWS]
    return "".join(
        separator.join(f"{quote}{cell}{quote}" if separator in cell else cell for cell in row) + "\n"
        for row in rows
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_separators_ends_and_encodings(tmp_path, separator, end, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(text_of(separator).replace("\n", end).encode(encoding))
    assert labels(path) == LABELS
    assert [sample.text() for sample in stream_samples(path)] == [row[0] for row in ROWS]
    assert [sample.fields["label"] for sample in stream_samples(path, fields=["label"])] == LABELS


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", None)],
)
def test_packed_tables(tmp_path, suffix, pack):
    pack = pack or (lambda data: bytes(pa.compress(data, "zstd", asbytes=True)))
    for name, text in (
        (f"t.csv{suffix}", text_of(",")),
        (f"t.jsonl{suffix}", "".join(json.dumps({"text": row[0], "label": row[1]}) + "\n" for row in ROWS)),
    ):
        (tmp_path / name).write_bytes(pack(text.encode()))
        assert labels(tmp_path / name) == LABELS
        assert [sample.text() for sample in stream_samples(tmp_path / name)] == [row[0] for row in ROWS]
    if suffix == ".gz":
        (tmp_path / "cut.csv.gz").write_bytes(pack(text_of(",").encode())[:40])
        with pytest.raises(DataError, match="its packing is damaged"):
            open_source(tmp_path / "cut.csv.gz")


def test_a_guessed_encoding_is_said_and_another_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("text,label\nhoots,Vögel/Eule\nquacks,Vögel/Ente\n".encode("cp1252"))
    source = open_source(path)
    assert labels(path) == ["Vögel/Eule", "Vögel/Ente"]
    assert [note for note in source.notes if "--table.encoding" in note]
    path.write_bytes("text,label\nу,птица/сова\nк,птица/утка\n".encode("koi8-r"))
    with pytest.raises(DataError, match=r"line 2 is not UTF-8 .* say its encoding"):
        open_source(path)
    assert labels(path, encoding="koi8-r") == ["птица/сова", "птица/утка"]
    assert not open_source(path, encoding="koi8-r").notes
    assert next(iter(stream_samples(path, encoding="koi8-r"))).text() == "у"
    with pytest.raises(DataError, match="the encoding 'latin-9000' is unknown"):
        open_source(path, encoding="latin-9000")
    with pytest.raises(DataError, match=r"table.sheet is 'A', but .* is not a workbook"):
        open_source(path, sheet="A")


@pytest.mark.long
def test_a_late_letter_in_another_encoding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text,label\n" + b"x,a\n" * (1 << 21) + "y,Käfer\n".encode("cp1252"))
    source = open_source(path)
    assert source.taxonomy.names[1:] == ["a", "Käfer"]
    assert any("cp1252" in note for note in source.notes)


@pytest.mark.parametrize(
    ("above", "told"),
    [
        ("sep=;\n", None),
        ("Report v2, all rows\n", "'Report v2"),
        ("Report v2;;\n(of 2023);;\n\n", "2 lines above the header (line 4)"),
        ("# exported by x\n# for y\n", "2 lines above the header (line 3)"),
        ("\n  \n", None),
    ],
)
def test_lines_above_the_header(tmp_path, above, told):
    path = tmp_path / "t.csv"
    path.write_text(above + text_of(";"))
    source = open_source(path)
    assert labels(path) == LABELS
    assert told is None or any(told in note for note in source.notes)
    assert told is not None or source.notes == ("columns that are not read: 'source'",)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (",label\n0,a\n1,b\n", ["", "label"]),
        ("label,\na,\nb,c\n", ["label", ""]),
        ("text\na\nb c\n", ["text"]),
        ("#,Name\n1,x\n2,y\n", ["#", "Name"]),
        ("Preis, netto;label;text\n1,5;a;x\n2,5;b;y\n", ["Preis, netto", "label", "text"]),
        ("id,a|b|c\n1,x\n2,y\n", ["id", "a|b|c"]),
        ("'CODE','NAME'\n'A0','x, y'\n'B0','it''s'\n", ["CODE", "NAME"]),
    ],
)
def test_headers_that_are_no_titles(tmp_path, text, columns):
    (tmp_path / "t.csv").write_text(text)
    table = read_header(tmp_path / "t.csv")
    assert table.columns == columns
    assert not table.notes


def test_cells_in_single_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("'TEXT','LABEL'\n'a','x'\n'b',\"y, z\"\n\"it's\",'x'\n")
    assert labels(path) == ["x", "y, z", "x"]
    assert [sample.text() for sample in stream_samples(path)] == ["a", "b", "it's"]
    path.write_text("'TEXT','LABEL'\n'a, b','x'\n'b','it''s'\n")
    assert labels(path) == ["x", "it's"]


def test_ragged_rows_are_named_by_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('text,label,source\n"two\nlines",a,x\nquacks,b\nglides,c,z\nmore,d\n')
    with pytest.raises(
        DataError, match=r"line 4 has 2 cells where the header has 3 \(2 such rows\); fill in"
    ):
        open_source(path)
    with pytest.raises(DataError, match="line 4 has 2 cells"):
        list(stream_samples(path))
    path.write_text("# c\ntext,label\nx,y\na,b,c\n")
    with pytest.raises(DataError, match=r"line 4 has 3 cells where the header \(line 2\) has 2 .*enclose"):
        open_source(path)


def test_repeated_columns_matter_only_where_they_are_needed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label,note,note,,\nx,a,1,2,3,4\ny,b,1,2,3,4\n")
    source = open_source(path)
    assert labels(path) == ["a", "b"]
    assert any("2 columns 'note', 2 columns without a name" in note for note in source.notes)
    with pytest.raises(DataError, match="2 columns 'note'; rename them"):
        open_source(path, keep_columns=["note"])
    path.write_text("text,label,label\nx,a,c\n")
    with pytest.raises(DataError, match="2 columns 'label'; rename them"):
        open_source(path)


def test_terms_with_prefixes(tmp_path):
    path = tmp_path / "t.tsv"
    rows = [
        "1\tAves\tParidae\tParus\tParus major\ttit",
        "2\tAves\tTurdidae\tTurdus\tTurdus merula\tblackbird",
    ]
    head = "text\tdwc:class\tcol:family\tdwc:genus\tdwc:scientificName\tdwc:vernacularName"
    path.write_text("\n".join([head, *rows, ""]))
    assert labels(path) == ["Paridae/Parus/Parus major", "Turdidae/Turdus/Turdus merula"]
    assert any("'dwc:vernacularName' holds everyday names" in note for note in open_source(path).notes)
    assert labels(path, label_columns="scientificName") == ["Parus major", "Turdus merula"]


def test_accents_composed_and_decomposed_are_one_class(tmp_path):
    path = tmp_path / "t.csv"
    names = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
    path.write_text(f"text,label\na,drink/{names[0]}\nb,drink/{names[1]}\nc,drink/tea\n", "utf-8")
    source = open_source(path)
    assert source.taxonomy.names[1:] == ["drink", "café", "tea"]
    assert [note for note in source.notes if "written in two ways" in note]
    for name in names:
        taxonomy = Taxonomy.from_paths([("drink", name), ("drink", "tea")])
        source = open_source(path, taxonomy=taxonomy)
        assert source.nodes.tolist() == [2, 2, 3]
        assert [note for note in source.notes if "composed otherwise" in note]
    assert taxonomy.find("café") == taxonomy.find(("drink", "café")) == 2
    with pytest.raises(TaxonomyError, match="not in the taxonomy"):
        taxonomy.find("cafe")


def test_records_of_json(tmp_path):
    path = tmp_path / "t.jsonl"
    records = [{"text": row[0], "label": row[1].split("/"), "of": {"n": 1}} for row in ROWS]
    path.write_text("\n".join(json.dumps(record) for record in records))
    assert labels(path) == LABELS
    assert any(
        "read as paths" in note and "--table.label_separator" in note for note in open_source(path).notes
    )
    several = open_source(path, evidence=LabelEvidence(label_separator=","))
    assert several.label_sets is not None
    (tmp_path / "t.json").write_text(json.dumps(records))
    assert labels(tmp_path / "t.json") == LABELS
    path.write_text('{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": ["y", "x"]}\n')
    assert any("several labels" in note for note in open_source(path).notes)
    path.write_text('{"text": "a", "label": "01", "n": 1}\n\n{"text": "b", "label": "1", "n": "x"}\n')
    assert labels(path) == ["01", "1"]
    for text, said in (
        ('{"text": "a"}\n{"text": \n', "line 2 is not JSON"),
        ('{"text": "a"}\n[1]\n', "line 2 is not a record"),
        ("[" * 100_000, "nested too deeply|is not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            open_source(path)


def write_workbook(path, sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


def test_workbooks(tmp_path):
    path = tmp_path / "t.xlsx"
    table = [("Report of 2023", None, None), ("text", "label", "n"), ("x", "a", 1.0), (), ("y", "b")]
    write_workbook(path, {"Empty": [], "Data": table, "Old": [("text", "label"), ("z", "c")]})
    source = open_source(path, keep_columns=["n"])
    assert labels(path) == ["a", "b"]
    assert source.attributes["n"].tolist() == ["1", ""]
    assert any("the sheet 'Data' is read" in note for note in source.notes)
    assert any("'Report of 2023'" in note for note in source.notes)
    assert labels(path, sheet="Old") == ["c"]
    assert [sample.text() for sample in stream_samples(path, sheet="Old")] == ["z"]
    with pytest.raises(DataError, match="it has no sheet 'New', but 'Empty', 'Data', 'Old'"):
        open_source(path, sheet="New")
    path.write_bytes(b"PK no workbook")
    with pytest.raises(DataError, match="damaged, encrypted, or no workbook"):
        open_source(path)


def test_very_many_empty_rows_end_a_sheet(tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "_EMPTY", 3)
    rows = [("text", "label"), ("x", "a"), *[(None, None)] * 2, ("y", "b"), *[(None, None)] * 4, ("z", "c")]
    write_workbook(tmp_path / "t.xlsx", {"A": rows})
    assert labels(tmp_path / "t.xlsx") == ["a", "b"]
    notes = open_source(tmp_path / "t.xlsx").notes
    assert any("3 empty rows follow row 5; what may stand below is not read" in note for note in notes)


def test_a_workbook_without_openpyxl_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"pip install 'labeltree\[formats\]'"):
        open_source(tmp_path / "t.xlsx")


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "_UNPACKED", 1 << 20)
    monkeypatch.setattr(record_tables, "_UNPACKED", 1 << 20)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 500_000))
    with pytest.raises(DataError, match="unpacks to more"):
        open_source(tmp_path / "t.csv.gz")
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a", "label": "b"}\n' * 100_000))
    with pytest.raises(DataError, match="more than 1,048,576 bytes unpacked"):
        open_source(tmp_path / "t.jsonl.gz")
    monkeypatch.setattr(record_tables, "_LONGEST", 1000)
    (tmp_path / "t.jsonl").write_text('{"text": "' + "a" * 2000)
    with pytest.raises(DataError, match="line 1 is longer than 1,000 characters"):
        open_source(tmp_path / "t.jsonl")
    write_workbook(tmp_path / "t.xlsx", {"A": [("text", "label"), ("x", "a")]})
    monkeypatch.setattr(workbooks, "_CELLS", 3)
    with pytest.raises(DataError, match="more than 3 cells"):
        open_source(tmp_path / "t.xlsx")
    monkeypatch.setattr(workbooks, "_UNPACKED", 100)
    with pytest.raises(DataError, match="and 100 are the most"):
        open_source(tmp_path / "t.xlsx")


def test_a_workbook_that_declares_entities_is_refused(tmp_path):
    write_workbook(tmp_path / "t.xlsx", {"A": [("text", "label"), ("x", "a")]})
    with zipfile.ZipFile(tmp_path / "t.xlsx") as old, zipfile.ZipFile(tmp_path / "u.xlsx", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, b'<!DOCTYPE a [<!ENTITY b "c">]>' + content if "sheet1" in name else content)
    with pytest.raises(DataError, match="declares a document type"):
        open_source(tmp_path / "u.xlsx")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("array.jsonl", '[{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]'),
        ("lines.json", '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n'),
        ("columns.json", '{"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}'),
        ("lists.json", '{"text": ["a", "b"], "label": ["x", "y"]}'),
        ("data.json", '{"schema": {}, "data": [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]}'),
        ("bytes.csv", "text,label\na,b'x'\nb,b'y'\n"),
    ],
)
def test_other_ways_to_write_records(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert labels(tmp_path / name) == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", gzip.compress(b"text,label\n"), "packed by gzip; let its name end in .gz"),
        ("t.csv", b"PK\x03\x04", "a zip file or a workbook"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "a workbook of another kind; save it as .xlsx or .csv"),
        ("t.csv.gz", b"text,label\n", "its packing is damaged"),
        ("t.csv", b"text,label\n1,a,x\n2,b,y\n", "name that column in the header"),
        ("t.json", b'{"images": [], "annotations": []}', "is not a list of records"),
    ],
)
def test_what_is_refused_with_a_remedy(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        open_source(tmp_path / name)


def test_images_named_in_the_other_form_of_unicode(tmp_path, write_image):
    composed, decomposed = (unicodedata.normalize(form, "café.png") for form in ("NFC", "NFD"))
    write_image(tmp_path / decomposed)
    (tmp_path / "t.csv").write_text(f"image,label\n{composed},x\n", "utf-8")
    assert len(open_source(tmp_path / "t.csv")) == 1
    (sample,) = stream_samples(tmp_path / "t.csv")
    assert sample.content == tmp_path / decomposed


PIECES = st.sampled_from(
    [
        *(
            b",",
            b";",
            b"\t",
            b"|",
            b'"',
            b"'",
            b"\n",
            b"\r",
            b"\0",
            b"#",
            b"sep=;\n",
            b"text",
            b"label",
            b"a",
        ),
        *(b" ", b"{", b"}", b"[", b'{"text": "a"}', b"\xff\xfe", b"\xef\xbb\xbf", b"\xe9", b"\xc3\xa9", b"1"),
    ]
)


@given(
    content=st.lists(PIECES, max_size=40).map(b"".join),
    name=st.sampled_from(["t.csv", "t.tsv", "t.jsonl", "t.json"]),
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    table, said = None, ""
    try:
        table = DataTable.read(path)
    except DataError as error:
        said = str(error)
    if table is None:
        assert said.startswith(f"the table '{path}' cannot be read: ")
        assert "\n" not in said
        return
    assert read_header(path).columns == table.columns
    assert sum(len(batch) for batch, _ in placed_batches(path)) == table.num_rows
    for column in table.columns:
        if not table.holds_lists(column):
            table.cells(column)


@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)] * 3),
        min_size=2,
        max_size=6,
    ),
    separator=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, rows, separator, encoding):
    path = tmp_path_factory.getbasetemp() / "w.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerows([("text", "label", "source"), *rows])
    table = DataTable.read(path)
    assert table.columns == ["text", "label", "source"]
    read = [[cell.as_py() for cell in table.arrow.column(place)] for place in range(3)]
    assert [tuple(cell or "" for cell in row) for row in zip(*read, strict=True)] == rows


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("count", [254, 255, 256, 257, 600])
def test_a_sheet_of_any_length_has_all_its_rows(tmp_path, count, above):
    """Also where the rows end among which the header is sought."""
    words = [(f"words {i}", "a") for i in range(count)]
    write_workbook(
        tmp_path / "t.xlsx", {"A": [*[("Prices of the year",)] * above, ("text", "label"), *words]}
    )
    table = workbooks.read_sheet(tmp_path / "t.xlsx").as_texts()
    assert table["text"].to_pylist() == [text for text, _ in words]
