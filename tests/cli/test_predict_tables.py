"""`predict` on a table: every form is a place, its columns stay, and the answers can be joined."""

import csv
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.data.table_columns import settings_of_another
from labeltree.errors import DataError
from labeltree.index.queries import queries_in
from labeltree.inference.answers.answered import Answered
from labeltree.taxonomy import Taxonomy
from labeltree.workbooks import write_workbook

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]

WORDS = {
    ("garden", "hose"): "hose water sprinkler",
    ("garden", "rake"): "rake leaf lawn",
    ("kitchen", "pan"): "pan steel wok",
    ("kitchen", "cup"): "cup tea mug",
}
NEW = [
    ("A 1", 1.5, "rake leaf"),
    ("A 2", None, None),
    ("A 2", 7, "pan steel"),
    ("A 3", 0, "quantum field"),
]
HEAD = ("article", "price", "text")


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the texts of a table."""
    place = tmp_path_factory.mktemp("products")
    rows = [
        (f"{a} {b} {n}", *label)
        for label, said in WORDS.items()
        for n, (a, b) in enumerate((a, b) for _ in range(3) for a in said.split() for b in said.split())
    ]
    pd.DataFrame(rows, columns=["text", "department", "category"]).to_csv(place / "products.csv", index=False)
    lt.train(
        place / "products.csv", "ce", out=place / "run", encoder="small-text", epochs=2, val=0.4,
        batch_size=16, accelerator="cpu", progress_bar=False,
    )  # fmt: skip
    return place / "run"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows in every form of a table."""
    place = tmp_path_factory.mktemp("new")
    frame = pd.DataFrame(NEW, columns=list(HEAD))
    frame.to_csv(place / "new.csv", index=False)
    frame.to_csv(place / "new.tsv.gz", index=False, sep="\t")
    frame.to_parquet(place / "new.parquet")
    frame.to_json(place / "new.jsonl", orient="records", lines=True)
    frame.to_json(place / "new.json", orient="records")
    shutil.make_archive(str(place / "new"), "zip", place, "new.csv")
    write_workbook(place / "new.xlsx", {"new": (("New products",), [(), HEAD, *NEW])})
    return {file.suffix: file for file in sorted(place.iterdir())}


@pytest.mark.parametrize("suffix", [".csv", ".gz", ".parquet", ".jsonl", ".json", ".zip", ".xlsx"])
def test_every_form_is_a_place_and_keeps_its_rows(
    suffix: str, trained: Path, tables: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.csv"
    assert run("predict", trained, tables[suffix], "--out", out) == 1
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert list(rows[0])[:6] == [*HEAD, "answer", "probability", "guess_1"]
    assert "sample" not in rows[0]
    assert [row["article"] for row in rows] == [article for article, _, _ in NEW]
    assert [row["text"] for row in rows] == [text or "" for _, _, text in NEW]
    assert [bool(row["problem"]) for row in rows] == [False, True, False, False]
    assert max(map(len, (value for row in rows for value in row.values()))) < 64
    said = capsys.readouterr().err
    place = {".csv": "line 3", ".gz": "line 3", ".zip": "line 3", ".jsonl": "line 2"}.get(suffix, "row 2")
    place = "row 5 of the sheet" if suffix == ".xlsx" else place
    assert f"no answer for 1 of 4 samples, such as '{place}' (it has no text)" in said
    assert said.count("it has no text") == 1


def test_every_format_has_the_same_answers(trained: Path, tables: dict[str, Path], tmp_path: Path) -> None:
    frames = {}
    for suffix in (".csv", ".xlsx", ".parquet"):
        out = tmp_path / f"answers{suffix}"
        assert run("predict", trained, tables[".xlsx"], "--out", out) == 1
        read = {".csv": pd.read_csv, ".xlsx": pd.read_excel, ".parquet": pd.read_parquet}[suffix]
        frames[suffix] = read(out)
    answered = lt.predict(trained, tables[".xlsx"])
    assert isinstance(answered, Answered)
    wanted = answered.to_pandas()
    assert list(wanted.columns[:3]) == list(HEAD)
    for frame in frames.values():
        said = frame[list(wanted.columns)]
        for name in wanted.columns:
            assert said[name].isna().tolist() == wanted[name].isna().tolist()
        assert said["answer"].dropna().tolist() == wanted["answer"].dropna().tolist()
        assert said["price"].tolist()[2:] == [7, 0]
    assert run("predict", trained, tables[".xlsx"], "--out", tmp_path / "a.json") == 1
    rows = json.loads((tmp_path / "a.json").read_text("utf-8"))["answers"]
    assert [row["input"]["article"] for row in rows] == [article for article, _, _ in NEW]
    assert rows[1]["sample"] == "row 5 of the sheet"


def test_answers_are_a_sequence(trained: Path) -> None:
    answered = lt.predict(trained, texts="rake leaf")
    assert len(answered) == 1, "a text alone is one text, not its letters"
    model = lt.load(trained)
    answered = model.predict(["rake leaf", " ", "tea cup"])
    assert len(answered) == len(list(answered)) == 3
    assert [row["sample"] for row in answered] == ["rake leaf", " ", "tea cup"]
    assert answered[0] == next(iter(answered)) == answered[-3]
    assert answered[1]["problem"] == "the text is empty"
    assert answered[0:2] == [answered[0], answered[1]]
    with pytest.raises(IndexError):
        answered[3]
    assert json.loads(answered.text("json"))["answers"] == list(answered)


def test_a_path_is_a_path_in_python_too(trained: Path, tables: dict[str, Path]) -> None:
    model = lt.load(trained)
    wanted = list(lt.predict(trained, data=tables[".csv"]))
    for place in (tables[".csv"], str(tables[".csv"]), [str(tables[".csv"])]):
        assert list(lt.predict(trained, place)) == wanted
        assert list(model.predict(place)) == wanted
        assert len(model.embed(place)) == 3
    with pytest.raises(ValueError, match="is a file of many samples; answer for it alone"):
        lt.predict(trained, [tables[".csv"], tables[".xlsx"]])
    with pytest.raises(DataError, match="holds many samples; give it alone"):
        model.predict([tables[".csv"], tables[".xlsx"]])
    assert [row["sample"] for row in model.predict("no-such.csv")] == ["no-such.csv"], "a text like others"
    with pytest.raises(DataError, match=r"'rake leaf' is one sample; give a list of samples, \[sample\]"):
        model.answer_batch("rake leaf")
    with pytest.raises(DataError, match="is one sample; give a list"):
        model.embed_batch("rake leaf")


def test_a_file_of_vectors_is_a_path(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(2, 4)) * 9, np.arange(80) % 2
    vectors = (points[labels] + rng.normal(size=(80, 4))).astype(np.float32)
    np.savez(tmp_path / "features.npz", vectors=vectors, label=np.array(["a/x", "b/y"])[labels])
    np.save(tmp_path / "new.npy", vectors[:3])
    lt.train(tmp_path / "features.npz", "ce", out=tmp_path / "run", epochs=1, val=0.4, progress_bar=False)
    wanted = [row["answer"] for row in lt.load(tmp_path / "run").predict(vectors[:3])]
    for place in (tmp_path / "new.npy", str(tmp_path / "new.npy")):
        assert [row["answer"] for row in lt.predict(tmp_path / "run", place)] == wanted
        assert [row["answer"] for row in lt.load(tmp_path / "run").predict(place)] == wanted
        assert len(lt.load(tmp_path / "run").embed(place)) == 3
    frame = pd.DataFrame(vectors[:3], columns=list("abcd")).assign(cell=["p", "q", "r"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert (
        main(["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "o.csv")])
        == 0
    )
    rows = list(csv.DictReader((tmp_path / "o.csv").open(encoding="utf-8")))
    assert list(rows[0])[:2] == ["cell", "answer"], "without the numbers of the vectors"
    assert [row["cell"] for row in rows] == ["p", "q", "r"]


BOOK: dict[str, Any] = {
    "One": (("text",), [("rake leaf",)] * 2),
    "Two": (("text", "said"), [("pan steel", "cup tea")] * 3),
}


def test_a_table_is_read_by_settings_of_its_own(
    trained: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = tmp_path / "book.xlsx"
    write_workbook(book, BOOK)
    assert run("predict", trained, book, "--top", 0) == 0
    assert "the sheet 'One' is read; for another ('Two'), set --table.sheet NAME" in caplog.messages
    caplog.clear()
    assert run("predict", trained, book, "--table.sheet", "Two", "--table.text_column=said") == 0
    assert capfd.readouterr().out.count("cup tea") == 3
    assert not caplog.messages
    answered = lt.predict(trained, (book,), table={"sheet": "Two"})
    assert isinstance(answered, Answered)
    assert len(answered) == 3
    assert len(lt.load(trained).embed(data=book, table={"sheet": "Two"})) == 3
    out = tmp_path / "said.npz"
    assert run("embed", trained, "--data", book, "--unlabelled", "--table.sheet", "Two", "--out", out) == 0
    for words, why in (
        (["--table.shet", "Two"], "unknown setting 'table.shet'; did you mean 'table.sheet'?"),
        (["--table.sheet", "Three"], "no sheet 'Three', but 'One', 'Two'; name one by --table.sheet NAME"),
        (["--table.label_columns", "said"], "table.label_columns says what the labels are"),
    ):
        assert run("predict", trained, book, *words) == 2
        assert why in capfd.readouterr().err
    assert run("predict", trained, "--text", "rake", "--table.sheet", "Two") == 2
    assert "--table.SETTING is about the table of --data; name one" in capfd.readouterr().err


def test_errors_name_the_sheet_that_was_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    book, alone = tmp_path / "book.xlsx", tmp_path / "alone.xlsx"
    cover = (("Products of spring",), [("as of March",)])
    write_workbook(book, {"Cover": cover, "Products": (("text", "maker"), [("a pan", "x"), ("a cup", "y")])})
    write_workbook(alone, {"Cover": cover})
    words = ("train", "--objective", "tree-ridge", "--out", tmp_path / "run", "--data")
    assert run(*words, book) == 2
    read = (
        "book.xlsx' (its sheet 'Cover'; --table.sheet NAME reads another: 'Products') has no column of images"
    )
    assert read in capfd.readouterr().err
    assert run(*words, book, "--table.sheet", "Products") == 2
    assert "book.xlsx' (its sheet 'Products') has no column for labels" in capfd.readouterr().err
    assert run(*words, book, "--table.sheet", "Products", "--table.label_columns", "kind") == 2
    assert "(its sheet 'Products') has no column 'kind'" in capfd.readouterr().err
    assert run(*words, alone) == 2
    assert "alone.xlsx' has no column of images" in capfd.readouterr().err


def test_a_taxonomy_is_read_from_a_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The setting that the note on the sheets names is one of the command; what is printed can be run."""
    monkeypatch.chdir(tmp_path)
    rows = [("a pan", "Home", "pans"), ("a pot", "HOME", "pans"), ("a hoe", "Yard", "hoes")] * 2
    sheets = {"Cover": (("Products",), [("March",)]), "List": (("text", "group", "label"), rows)}
    write_workbook(Path("book.xlsx"), sheets)
    columns = ("--column", "group", "--column", "label")
    for action in ("show", "check"):
        assert run("taxonomy", action, "book.xlsx", "--table.sheet", "List", *columns) == 0
        assert "HOME" in capfd.readouterr().out
    sheet = ("--table.sheet", "List")
    assert run("taxonomy", "review", "book.xlsx", *sheet, *columns, "--out", "changes.yaml") == 0
    lines = [shlex.split(line) for line in capfd.readouterr().out.splitlines() if "labeltree" in line]
    assert [line[-2:] for line in (lines[0], lines[-1])] == [[*sheet], [*sheet]]
    assert run(*lines[0][1:]) == 0
    assert Taxonomy.from_file("OLD.json").num_nodes == 7
    capfd.readouterr()
    for words, why in (
        (
            ("book.xlsx", "--table.id_column", "x"),
            "names id_column; of a taxonomy it names sheet or encoding",
        ),
        (("OLD.json", *sheet), "'OLD.json' is no workbook (.xlsx)"),
        (("book.xlsx", "--table.sheet", "Lst"), "no sheet 'Lst', but 'Cover', 'List'"),
    ):
        assert run("taxonomy", "show", *words) == 2
        assert why in capfd.readouterr().err


def test_a_taxonomy_is_read_by_the_settings_that_its_notes_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        ("a pan", "Home", "Pans"),
        ("a pot", "", "Pans"),
        ("a hoe", "Yard", "Hoes"),
        ("a rake", "", "rakes"),
    ]
    rows += [("a rack", "", "Rakes"), ("another", "", "Rakes")]
    write_workbook(Path("book.xlsx"), {"List": (("text", "Area", "Kind"), rows)})
    columns = ("--table.label_columns", '["Area", "Kind"]')
    assert run("taxonomy", "show", "book.xlsx", *columns) == 2
    setting = re.search(r"--table\.fill_down '[^']*'", capfd.readouterr().err)
    assert setting is not None
    fill = shlex.split(setting[0])
    assert run("taxonomy", "check", "book.xlsx", *columns, *fill) == 0
    assert "Taxonomy(7 nodes" in capfd.readouterr().out
    assert run("taxonomy", "convert", "book.xlsx", "same.json", *columns, *fill) == 0
    assert Taxonomy.from_file("same.json").find("Yard/Rakes") > 0
    capfd.readouterr()
    assert run("taxonomy", "review", "book.xlsx", *columns, *fill, "--out", "changes.yaml") == 0
    lines = [shlex.split(line) for line in capfd.readouterr().out.splitlines() if "labeltree" in line]
    assert [line[-4:] for line in (lines[0], lines[-1])] == [[*columns, *fill]] * 2
    assert run(*lines[0][1:]) == 0
    assert run(*lines[1][1:]) == 0
    for words, why in (
        (("--column", "Kind", *fill), "does not go with --column or --form"),
        (("--form", "edges", *fill), "does not go with --column or --form"),
    ):
        assert run("taxonomy", "show", "book.xlsx", *words) == 2
        assert why in capfd.readouterr().err
    assert run("taxonomy", "convert", "book.xlsx", "x.json", "--form", "edges", *fill) == 2
    assert "names the sheet alone" in capfd.readouterr().err


def test_the_only_sheet_is_read_whatever_its_name(tmp_path: Path) -> None:
    one, two = tmp_path / "one.xlsx", tmp_path / "two.xlsx"
    write_workbook(one, {"New": BOOK["One"]})
    write_workbook(two, BOOK)
    assert settings_of_another(one, None, "Products")["sheet"] is None
    assert settings_of_another(two, None, "Products")["sheet"] == "Products"
    assert [query.value for query in queries_in(two, {"sheet": "Two"})] == ["pan steel"] * 3
    with pytest.raises(DataError, match=r"table\.text_column does not apply to queries"):
        queries_in(two, {"text_column": "said"})


def test_a_version_counts_the_samples_of_a_table_as_its_run_reads_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [(f"{word} {n}", "x", *label) for label in WORDS for n, word in enumerate(WORDS[label].split())]
    head = ("text", "class", "department", "category")
    write_workbook(tmp_path / "shop.xlsx", {"May": (head, said), "June": (head, said[:4])})
    lt.Taxonomy.from_paths(["garden/hose", "garden/rake", "kitchen/pan"]).save(tmp_path / "new.json")
    words = ["taxonomy", "diff", trained, tmp_path / "new.json", "--data", tmp_path / "shop.xlsx"]
    assert run(*words) == 0
    assert "remove        3  kitchen/cup" in capsys.readouterr().out
    assert run(*words, "--table.sheet", "June") == 0
    assert "0 of 4 samples touched" in capsys.readouterr().out
    assert run(*words, "--table.label_columns", "class") == 0
    assert "12 have labels that OLD has not: 'x'" in capsys.readouterr().out
    assert run(*words[:4], "--table.sheet", "June") == 2
    assert "--table.SETTING is about the table of --data" in capsys.readouterr().err


def test_labels_are_asked_of_samples_that_have_some(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", trained, "--text", "rake leaf", "--labelled") == 2
    assert "--labelled is about the samples of --data; name a folder or a table" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'labelled' is about the samples of 'data'"):
        lt.load(trained).predict("rake leaf", labelled=True)
