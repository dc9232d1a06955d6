"""Several tables of corrections in order, and samples that are named by their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeltree.data import Source, open_source
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.data.corrections import Correction, Corrections, sample_contents, sample_ids
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
FIRST = Corrections(
    (
        Correction("a", "dog", "accept", "cat"),
        Correction("b", "cat", "remove"),
        Correction("c", "oak", "no label"),
    ),
    "first.csv",
)


def test_each_table_is_compared_with_what_those_before_it_have_left() -> None:
    second = Corrections(
        (
            Correction("a", "cat", "accept", "oak"),  # the label of the first round
            Correction("c", "", "accept", "dog"),
            Correction("b", "cat", "accept", "dog"),  # removed by the first
            Correction("d", "dog", "accept", "cat"),
        ),
        "second.csv",
    )
    nodes = TREE.encode(["dog", "cat", "oak", "dog"])
    done = CorrectionRounds((FIRST, second)).resolve(list("abcd"), nodes, TREE)
    assert TREE.decode(done.nodes) == ["plant/oak", "animal/cat", "animal/dog", "animal/cat"]
    assert done.keep.tolist() == [True, False, True, True]
    assert done.counts == {"gone": 1, "relabelled": 4, "removed": 1, "unlabelled": 1}
    assert "corrections of 'first.csv': 1 label replaced, 1 label taken away" in done.sentence
    assert (
        "corrections of 'second.csv': 3 labels replaced; not applied: 1 are of samples that an earlier"
        in (done.sentence)
    )
    other = CorrectionRounds((second,)).resolve(
        list("abcd"), nodes, TREE
    )  # without the first, it does not fit
    assert other.counts == {"changed": 2, "relabelled": 2}
    assert CorrectionRounds(()).resolve(list("abcd"), nodes, TREE).sentence == ""


def test_a_table_of_only_removed_samples_is_no_table_of_other_data() -> None:
    again = Corrections((Correction("b", "cat", "remove"),), "again.csv")
    done = CorrectionRounds((FIRST, again)).resolve(list("abc"), TREE.encode(["dog", "cat", "oak"]), TREE)
    assert done.counts["gone"] == 1
    with pytest.raises(DataError, match=r"'other\.csv' is among the data"):
        CorrectionRounds((FIRST, Corrections((Correction("z", "", "remove"),), "other.csv"))).resolve(
            list("abc"), TREE.encode(["dog", "cat", "oak"]), TREE
        )
    # a run that was trained with the first has no longer the sample that the second is about
    known = CorrectionRounds((FIRST,))
    left, nodes = list("ac"), TREE.encode(["cat", "oak"])
    assert known.removed == {"b"}
    further = CorrectionRounds((FIRST, again)).without(known)
    assert further.resolve(left, nodes, TREE, gone=known.removed).counts == {"gone": 1}
    with pytest.raises(DataError, match=r"'again\.csv' is among the data"):
        further.resolve(left, nodes, TREE)


def test_a_table_in_which_nothing_is_decided_does_not_hide_those_after_it() -> None:
    empty, known = Corrections((), "empty.csv"), CorrectionRounds((FIRST,))
    assert CorrectionRounds((empty, FIRST)).without(known).tables == ()
    assert CorrectionRounds((FIRST, empty)).without(known).tables == ()


def test_tables_are_read_in_order_and_named_apart(tmp_path: Path) -> None:
    second = Corrections((Correction("a", "cat", "accept", "oak"),))
    (tmp_path / "run").mkdir()
    files = [tmp_path / "suspects.csv", tmp_path / "run" / "suspects.csv"]
    FIRST.save(files[0])
    second.save(files[1])
    rounds = CorrectionRounds.load(files)
    assert [table.name for table in rounds.tables] == list(map(str, files))
    assert CorrectionRounds.load(str(files[0])).tables[0].name == "suspects.csv"
    assert not rounds.same_as(CorrectionRounds.load(files[::-1]))
    known = CorrectionRounds((FIRST,))
    assert rounds.without(known).tables == rounds.tables[1:]
    assert rounds.without(CorrectionRounds((second,))).tables == rounds.tables
    assert rounds.without(CorrectionRounds(())).tables == rounds.tables
    for alone in files:  # of a run that was trained with both
        assert CorrectionRounds.load(alone).without(rounds).tables == ()
    assert CorrectionRounds.load(files[::-1]).without(rounds).same_as(known), "in another order"
    with pytest.raises(DataError, match="named twice"):
        CorrectionRounds.load([files[0], tmp_path / "run" / ".." / "suspects.csv"])


def test_open_source_takes_several(tmp_path: Path) -> None:
    data = tmp_path / "notes.csv"
    data.write_text("text,depth1,depth2\nbarks,animal,dog\npurrs,animal,dog\ngrows,plant,oak\n")
    Corrections((Correction("row 2", "dog", "accept", "animal"),)).save(tmp_path / "a.csv")
    Corrections((Correction("row 2", "animal", "accept", "oak"),)).save(tmp_path / "b.csv")
    source = open_source(data, corrections=[tmp_path / "a.csv", tmp_path / "b.csv"])
    assert source.taxonomy.decode(source.nodes) == ["animal/dog", "plant/oak", "plant/oak"]
    assert [note for note in source.notes if "corrections of 'b.csv': 1 label replaced" in note]


def texts(*words: str, names: list[str] | None = None) -> Source:
    nodes = TREE.encode(["dog"] * len(words))
    return Source.in_order("pets", TREE, nodes, texts=list(words), names=names)


def fingerprints(source: Source) -> list[str]:
    return sample_contents(sample_ids(source), source.sample_digests())


def test_only_samples_named_by_rows_have_a_fingerprint() -> None:
    found = fingerprints(
        texts("a", "b", "c", "a", "d", names=["row 1", "x/row 2", "c.png", "e.png", "e.png"])
    )
    assert [bool(one) for one in found] == [True, True, False, True, True]
    assert found[0] == found[3] != found[1]
    assert all(len(one) == 16 and one.isalpha() for one in found if one)  # no spreadsheet makes it a number
    assert all(fingerprints(texts("a", "b")))
    assert fingerprints(texts()) == []


def test_rows_that_were_inserted_or_removed_are_noticed() -> None:
    before = texts("one", "two", "three", "four")
    seen = fingerprints(before)
    wanted = Corrections(
        tuple(Correction(str(row), "dog", "accept", "cat", seen[row]) for row in (0, 2)), "c.csv"
    )
    rounds = CorrectionRounds((wanted,))
    assert TREE.decode(rounds.apply(before)[0].nodes) == ["animal/cat", "animal/dog"] * 2
    # all labels are equal, so the column of labels sees nothing
    (after,) = rounds.apply(texts("one", "new", "two", "three", "four"))
    assert TREE.decode(after.nodes) == ["animal/cat", *["animal/dog"] * 4]
    assert "are of rows that hold another sample now" in after.notes[-1]
    assert "('2')" in after.notes[-1]
    with pytest.raises(DataError, match="named by their rows, and rows of the data have been inserted"):
        rounds.apply(texts("new", "one", "two", "three", "four"))
    without = Corrections(tuple(Correction(one.sample, "dog", "accept", "cat") for one in wanted.entries))
    assert CorrectionRounds((without,)).of_source(texts("new", "one", "two")).counts == {"relabelled": 2}


def test_a_sample_with_a_name_is_found_whatever_its_content() -> None:
    before = texts("one", "two", names=["a.txt", "b.txt"])
    wanted = Corrections((Correction("b.txt", "dog", "accept", "cat", fingerprints(before)[1]),))
    after = CorrectionRounds((wanted,)).of_source(texts("new", "one", "2", names=["0.txt", "a.txt", "b.txt"]))
    assert after.counts == {"relabelled": 1}
