"""Tables of corrected labels: what is read, what is applied, and what is told instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from labeltree.data import Source, make_splits, open_source
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.data.corrections import DECISIONS, Correction, Corrections, sample_ids
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.workbooks import write_workbook

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
HEADER = "sample,label,suggested,decision\n"


def table(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "corrections.csv"
    path.write_bytes(text.encode(encoding))
    return path


def samples(labels: list[str | None], names: list[str] | None = None) -> Source:
    nodes = TREE.encode(labels)
    return Source.in_order("pets", TREE, nodes, texts=[f"text {i}" for i in range(len(labels))], names=names)


def test_only_decided_rows_are_corrections(tmp_path: Path) -> None:
    rows = (
        HEADER
        + "a,dog,cat,accept\nb,dog,cat,\nc,dog,animal,YES\n"
        + "d,dog,cat, Remove \ne,cat,dog,no  label\nf,cat,dog,reject\n"
    )
    entries = Corrections.load(table(tmp_path, rows)).entries
    assert entries == (
        Correction("a", "dog", "accept", "cat"),
        Correction("c", "dog", "accept", "animal"),
        Correction("d", "dog", "remove"),
        Correction("e", "cat", "no label"),
    )


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (HEADER.replace(",", ";") + "a;dog;cat;x\r\n", "utf-8"),
        (HEADER.replace(",", "\t") + "a\tdog\tcat\tx\n", "utf-8"),
        ("Decision,note,Suggested,sample,Label\nx,why,cat,a,dog\n", "utf-8-sig"),
        ('sample,label,suggested,decision,reason\r\na,dog,cat,x,"two\nlines, and ""quotes"""\r\n', "utf-8"),
    ],
    ids=["semicolons of a spreadsheet", "tabs", "byte order mark and other order", "line breaks in cells"],
)
def test_tables_as_spreadsheets_save_them(tmp_path: Path, text: str, encoding: str) -> None:
    assert Corrections.load(table(tmp_path, text, encoding)).entries == (
        Correction("a", "dog", "accept", "cat"),
    )


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_tables_of_a_german_spreadsheet(tmp_path: Path, encoding: str) -> None:
    rows = HEADER.replace(",", ";") + "Käse & Gemüse/a.jpg;Käse;Obst, frisch;x\r\n"
    assert Corrections.load(table(tmp_path, rows, encoding)).entries == (
        Correction("Käse & Gemüse/a.jpg", "Käse", "accept", "Obst, frisch"),
    )


def test_a_workbook_of_corrections(tmp_path: Path) -> None:
    columns = ["sample", "label", "suggested", "score", "decision"]
    rows = [["a", "dog", "cat", 0.9, "x"], ["7", "dog", "cat", 0.8, None], ["8", "cat", "1", 0.7, "1"]]
    write_workbook(tmp_path / "suspects.xlsx", {"suspects": (columns, rows)})
    assert Corrections.load(tmp_path / "suspects.xlsx").entries == (
        Correction("a", "dog", "accept", "cat"),
        Correction("8", "cat", "accept", "1"),
    )
    write_workbook(tmp_path / "wrong.xlsx", {"suspects": (columns, [*rows, ["b", "dog", "cat", 0.9, "ok"]])})
    with pytest.raises(DataError, match="row 5: the decision 'ok'"):
        Corrections.load(tmp_path / "wrong.xlsx")


def test_letters_that_a_spreadsheet_has_misread_are_told() -> None:
    taken = Corrections((Correction("KÃ¤se/a.jpg", "dog", "accept", "cat"),))
    with pytest.raises(DataError, match=r"'KÃ¤se/a\.jpg' is 'Käse/a\.jpg'.*open the table anew as UTF-8"):
        taken.resolve(["Käse/a.jpg"], TREE.encode(["dog"]), TREE)


def test_rows_about_one_sample_that_agree_are_one_correction(tmp_path: Path) -> None:
    rows = HEADER + "a,dog,cat,accept\na,dog,cat,\na,dog,cat,yes\nb,dog,,reject\nb,dog,cat,no\n,,,no\n"
    assert Corrections.load(table(tmp_path, rows)).entries == (Correction("a", "dog", "accept", "cat"),)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no column"),
        ("sample,label\na,b\n", "no column 'suggested' or 'decision'"),
        (HEADER + "a,dog,cat,cat\n", "row 2: the decision 'cat'"),
        (HEADER + "a,dog,cat,OK\n", r"'OK' does not say .* accept \(yes, x\) .* reject \(no, keep\)"),
        (HEADER + "a,dog,cat,true\n", "row 2: the decision 'true'"),
        (HEADER + "a,dog,,accept\n", "nothing is suggested"),
        (HEADER + ",dog,cat,accept\n", "'sample' is empty"),
        (
            HEADER + "a,dog,cat,accept\na,dog,oak,accept\n",
            "rows 2 and 3 decide differently about sample 'a': 'cat' is accepted where",
        ),
        (HEADER + "a,dog,cat,accept\n\n\na,dog,cat,reject\n", "rows 2 and 5 .* and the label is kept where"),
        (HEADER + "a,dog,,remove\na,cat,,remove\n", "rows 2 and 3 .*where the label is 'cat'"),
        ("sample,label,suggested,decision,Decision \na,b,c,x,\n", "more than one column 'decision'"),
        (HEADER + 'a,"dog,cat,accept\n', "it is not CSV"),
    ],
)
def test_what_is_no_table_of_corrections_is_told(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Corrections.load(table(tmp_path, text))


def test_missing_and_damaged_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table of corrections at"):
        Corrections.load(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"corrections\.csv"):
        Corrections.load(table(tmp_path, HEADER + "собака,dog,cat,accept\n", "cp1251"))
    (tmp_path / "damaged.xlsx").write_bytes(b"PK no workbook")
    with pytest.raises(DataError, match=r"damaged\.xlsx' cannot be read .*: it is damaged"):
        Corrections.load(tmp_path / "damaged.xlsx")


def test_saved_corrections_are_read_back(tmp_path: Path) -> None:
    entries = (
        Correction('odd "name", ü.png', "dog", "accept", "animal/cat"),
        Correction("=1+1", "", "remove"),
        Correction("c", "oak", "no label"),
    )
    Corrections(entries).save(tmp_path / "saved.csv")
    again = Corrections.load(tmp_path / "saved.csv")
    assert again.entries == entries
    assert again.same_as(Corrections(entries[::-1]))
    assert not again.same_as(Corrections(entries[:2]))


def test_every_kind_of_correction_and_every_reason_not_to_apply_one() -> None:
    ids = ["a", "b", "c", "d", "e", "f", "g"]
    nodes = TREE.encode(["dog", "dog", "cat", "oak", None, "cat", "dog"])
    wanted = Corrections(
        (
            Correction("a", "dog", "accept", "cat"),  # another node
            Correction("b", "animal/dog", "accept", "animal"),  # a coarser one; the label as a path
            Correction("c", "cat", "no label"),
            Correction("d", "oak", "remove"),
            Correction("e", "", "accept", "oak"),  # had no label
            Correction("f", "dog", "accept", "oak"),  # the label has changed since
            Correction("g", "dog", "accept", "whale"),  # no such node
            Correction("z", "dog", "accept", "cat"),  # no such sample
        ),
        "c.csv",
    )
    done = wanted.resolve(ids, nodes, TREE)
    assert TREE.decode(done.nodes) == [
        "animal/cat",
        "animal",
        None,
        "plant/oak",
        "plant/oak",
        "animal/cat",
        "animal/dog",
    ]
    assert done.keep.tolist() == [True, True, True, False, True, True, True]
    assert done.counts == {
        "changed": 1,
        "no node": 1,
        "relabelled": 3,
        "removed": 1,
        "unknown": 1,
        "unlabelled": 1,
    }
    for words in ("3 labels replaced", "1 sample removed", "'whale'", "'z'", "has changed since"):
        assert words in done.sentence
    again = wanted.resolve(ids, done.nodes, TREE)  # what is already so is neither done twice nor reported
    assert again.counts["unchanged"] == 4
    assert torch.equal(again.nodes, done.nodes)


def test_a_table_of_other_data_is_refused() -> None:
    wanted = Corrections((Correction("z", "dog", "accept", "cat"),))
    with pytest.raises(DataError, match="belongs to other data"):
        wanted.resolve(["a"], TREE.encode(["dog"]), TREE)
    with pytest.raises(DataError, match="belongs to other data"):
        wanted.resolve([], TREE.encode([]), TREE)
    assert Corrections(()).resolve([], TREE.encode([]), TREE).counts == {}


def test_samples_of_one_name_have_ids_of_their_own() -> None:
    source = samples(["dog", "cat", "oak"], ["a.png", "a.png", "b.png"])
    assert sample_ids(source) == ["a.png #0", "a.png #1", "b.png"]
    assert sample_ids(source.subset([1, 2])) == ["a.png #1", "b.png"]  # a second table finds it by that name
    wanted = Corrections((Correction("a.png", "dog", "accept", "cat"), Correction("b.png", "oak", "remove")))
    done = wanted.resolve(["a.png", "a.png", "b.png"], source.nodes, TREE)
    assert done.counts == {"ambiguous": 1, "removed": 1}
    assert sample_ids(samples(["dog", "cat"]).subset([1])) == ["1"]
    assert sample_ids(samples([])) == []


def test_selections_are_corrected_like_the_whole() -> None:
    source = samples(["dog", "cat", "oak", "dog"], ["a", "b", "c", "d"])
    wanted = Corrections((Correction("d", "dog", "accept", "cat"), Correction("b", "cat", "remove")))
    whole, part = CorrectionRounds((wanted,)).apply(source, source.subset([3, 1, 0]))
    assert TREE.decode(whole.nodes) == ["animal/dog", "plant/oak", "animal/cat"]
    assert whole.instances.tolist() == [0, 2, 3]
    assert TREE.decode(part.nodes) == ["animal/cat", "animal/dog"]
    assert part.instances.tolist() == [3, 0]
    assert "1 label replaced, 1 sample removed" in whole.notes[-1]


def test_open_source_corrects(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text(
        "text,depth1,depth2\nbarks,animal,dog\npurrs,animal,dog\ngrows,plant,oak\n"
    )
    ids = sample_ids(open_source(tmp_path / "notes.csv"))
    path = tmp_path / "corrections.csv"
    Corrections((Correction(ids[1], "dog", "accept", "animal"), Correction(ids[2], "oak", "remove"))).save(
        path
    )
    source = open_source(tmp_path / "notes.csv", corrections=path)
    assert source.taxonomy.decode(source.nodes) == ["animal/dog", "animal"]
    assert make_splits(source, test=0.0, val=0.0).notes == source.notes
    with pytest.raises(DataError, match="no table of corrections"):
        open_source(tmp_path / "notes.csv", corrections=tmp_path / "none.csv")


def test_every_word_of_a_decision_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "corrections.md").read_text("utf-8")
    table = page[page.index("## Decide") :].split("\n|", 1)[1].split("\n\n")[0]
    undocumented = {word for word in DECISIONS if word and f"`{word}`" not in table}
    assert undocumented <= {"accepted", "rejected", "remove the sample"}


@pytest.mark.parametrize(
    ("settings", "suggested", "label"),
    [
        ({}, "Garden > Tool>Spade", "Garden > Tool > Rake"),
        ({"separator": "~"}, "Garden~Tool ~ Spade", "Garden~Tool~Rake"),
        ({"names": "plain"}, "GARDEN > tool > Spade", "Garden > Tool > RAKE"),
        ({"names": "plain"}, "spade", "rake"),
        ({}, "Garden/Tool/Spade", "Garden/Tool/Rake"),
        ({"separator": "::", "names": "plain"}, "garden::Tool::spade", "Rake"),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_labels_are_written_as_in_the_table_of_the_data(
    tmp_path: Path, settings: dict[str, str], suggested: str, label: str, given: bool
) -> None:
    between = settings.get("separator", " > ")
    paths = ["Garden/Tool/Rake", "Garden/Tool/Spade", "Garden/Water", "House/Pan"]
    rows = [f"text number {i},{path.replace('/', between)}\n" for i, path in enumerate(paths)]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(rows))
    corrections = table(
        tmp_path,
        HEADER + f"line 2,{label},{suggested},x\nline 4,{paths[2]},{paths[3].replace('/', between)},x\n",
    )
    tree = Taxonomy.from_paths(paths) if given else None
    source = open_source(tmp_path / "t.csv", taxonomy=tree, corrections=corrections, table=settings)
    assert source.notes[-1] == "corrections of 'corrections.csv': 2 labels replaced"
    assert source.taxonomy.decode(source.nodes[::2]) == [paths[1], paths[3]]


def test_a_path_that_is_not_there_is_told_with_how_paths_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\nfirst text,a/b\nsecond text,a/c\n")
    corrections = table(tmp_path, HEADER + "line 2,a/b,a - c,x\nline 3,a/c,a/b,x\n")
    source = open_source(tmp_path / "t.csv", corrections=corrections)
    assert source.notes[-1].endswith("or not only once ('a - c'); a path is written as 'a/b'")
