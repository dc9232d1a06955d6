"""Columns that are ranks: which are taken, how deep a row's label is, and gaps between given ones."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree.data import Source, open_source
from labeltree.data.biology.rank_gaps import LabelFinder, bridge, has_gap
from labeltree.data.tables.table_source import table_labels
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.ranks import Ranks, rank_of

HEAD = ("kingdom", "class", "order", "family", "genus", "species")
TIT = ("Animalia", "Aves", "Passeriformes", "Paridae", "Parus", "Parus major")
OAK = ("Plantae", "Magnoliopsida", "Fagales", "Fagaceae", "Quercus", "Quercus robur")
FISH = ("Animalia", "Actinopterygii", "", "Pomacentridae", "Chromis", "Chromis viridis")


def write(path: Path, rows: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> Path:
    file = path / "seen.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["text", *head])
        writer.writerows([f"seen {number}", *row] for number, row in enumerate(rows))
    return file


def paths(source: Source) -> list[tuple[str, ...]]:
    return [source.taxonomy.path(node) for node in source.nodes.tolist()]


def test_ranks_are_the_depths_whatever_their_order_and_beside_class(tmp_path: Path) -> None:
    order = [3, 5, 1, 0, 2, 4]
    rows = [tuple(row[i] for i in order) for row in (TIT, OAK, FISH)]
    source = open_source(write(tmp_path, rows, tuple(HEAD[i] for i in order)))
    assert source.columns["labels"] == HEAD
    assert paths(source)[0] == TIT
    assert any("are ranks" in note for note in source.notes)


@pytest.mark.parametrize(
    "head",
    [
        ("Kingdom", "CLASS", "Order", "family_name", "Genus", "species"),
        tuple(f"taxon_{rank}_name" for rank in HEAD),
        ("regnum", "Classis", "ordo", "familia", "genus", "Species"),
    ],
)
def test_ranks_in_any_spelling(tmp_path: Path, head: tuple[str, ...]) -> None:
    source = open_source(write(tmp_path, [TIT, OAK], head))
    assert source.columns["labels"] == head


def test_class_and_order_of_a_shop_are_no_ranks(tmp_path: Path) -> None:
    rows = [(f"o{n}", "toys" if n % 2 else "books") for n in range(8)]
    source = open_source(write(tmp_path, rows, ("order", "class")))
    assert source.columns["labels"] == ("class",)


def test_a_missing_rank_becomes_a_node_of_its_own(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, [TIT, OAK, FISH]))
    assert paths(source)[2][2] == "Pomacentridae (order incertae sedis)"
    assert (source.taxonomy.depth[source.nodes] == 6).all()
    note = next(note for note in source.notes if "incertae" in note)
    assert "in 1 row " in note
    assert "--table.gaps" in note
    skipped = open_source(write(tmp_path, [TIT, OAK, FISH]), gaps="skip")
    assert paths(skipped)[2] == tuple(name for name in FISH if name)


def test_a_gap_is_first_filled_from_rows_that_agree(tmp_path: Path) -> None:
    """One taxon is one node; homonyms whose given names differ stay apart."""
    lost = ("Animalia", "Aves", "", "", "Parus", "Parus major")
    bird = ("Animalia", "Aves", "Passeriformes", "Prunellidae", "Prunella", "Prunella modularis")
    herb = ("Plantae", "Magnoliopsida", "Lamiales", "Lamiaceae", "Prunella", "Prunella vulgaris")
    either = ("", "", "", "", "Prunella", "Prunella indet")
    source = open_source(
        write(tmp_path, [TIT, lost, bird, herb, ("Plantae", "", "", "", "Prunella", "P. x"), either])
    )
    found = paths(source)
    assert found[0] == found[1]
    assert found[4][:4] == herb[:4]
    assert found[5][3] == "Prunella (family incertae sedis)"
    assert any("in 2 rows" in note and "other rows" in note for note in source.notes)


def test_gaps_that_are_errors_are_all_listed(tmp_path: Path) -> None:
    rows = [(*TIT[:2], "", "", f"G{n}", f"G{n} s") for n in range(30)] + [TIT, OAK]
    with pytest.raises(DataError) as caught:
        open_source(write(tmp_path, rows), gaps="error")
    text = str(caught.value)
    assert "in 30 of 32 rows" in text
    assert "given ones: line 2, order, family: it is empty, but the finer label 'G0' is given; line 3" in text
    assert text.count("; line ") == 2
    assert "; and 27 more lines; all are listed in '" in text
    assert "\n" not in text, "the command line prints one sentence"
    listed = Path(text.rpartition("listed in '")[2].partition("'")[0])
    assert f"'{listed}'. Fill them, or" in text
    lines = list(csv.DictReader(listed.open(encoding="utf-8")))
    assert [int(line["row"]) for line in lines] == list(range(2, 32))
    assert lines[0]["columns"] == "order, family"
    assert "G0" in lines[0]["reason"]


def test_gaps_of_one_kind_are_named_together(tmp_path: Path) -> None:
    rows = [(*TIT[:2], "", "", "G", "G s")] * 8 + [(*TIT[:2], "", "", "H", "H s")] * 2 + [TIT, OAK]
    with pytest.raises(DataError) as caught:
        open_source(write(tmp_path, rows), gaps="error")
    said = (
        "lines 2, 3, 4 and 5 more, order, family: it is empty, but the finer label 'G' is given; lines 10 and"
    )
    assert f"given ones: {said} 11, order, family: " in str(caught.value)
    assert "more lines" not in str(caught.value)


def test_bad_rows_are_named_where_the_list_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    file = write(tmp_path, [FISH, TIT])
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"line 2, order: it is empty(.|\n)*cannot be written"):
        open_source(file, gaps="error")


def test_the_rank_of_a_row_ends_its_label(tmp_path: Path) -> None:
    head = (*HEAD[:-1], "scientificName", "taxonRank")
    rows = [
        (*TIT, "SPECIES"),
        (*TIT[:-1], "Parus sp.", "GENUS"),
        (*TIT[:-2], "", "Paridae", "Family"),
        (*OAK[:-1], "Quercus", ""),  # a name that repeats the genus
    ]
    source = open_source(write(tmp_path, rows, head))
    assert source.columns["labels"] == head[:-1]
    assert [len(path) for path in paths(source)] == [6, 5, 4, 5]


def test_epithets_follow_the_genus(tmp_path: Path) -> None:
    head = (*HEAD[:-1], "specificEpithet", "infraspecificEpithet")
    rows = [(*TIT[:-1], "major", "minor"), (*OAK[:-1], "robur", "robur")]
    source = open_source(write(tmp_path, rows, head))
    assert paths(source)[0][-2:] == ("Parus major", "Parus major minor")


def test_constant_and_rarely_given_ranks_are_left_out(tmp_path: Path) -> None:
    head = ("kingdom", "family", "subgenus", "genus", "species")
    rows = [("Animalia", f"F{n % 2}", "", f"G{n % 4}", f"G{n % 4} s{n}") for n in range(12)]
    rows[0] = ("Animalia", "F0", "rare", "G0", "G0 s0")
    source = open_source(write(tmp_path, rows, head))
    assert source.columns["labels"] == ("family", "genus", "species")
    said = " ".join(source.notes)
    assert "'kingdom' is always 'Animalia'" in said
    assert "'subgenus' is given in 1 of 12 rows" in said


def test_a_name_alone_is_the_label(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, [("Parus major",), ("Quercus robur",)], ("scientificName",)))
    assert source.columns["labels"] == ("scientificName",)


def test_rows_of_one_person_may_be_groups(tmp_path: Path) -> None:
    rows = [(*TIT, "A"), (*OAK, "A"), (*FISH, "B")]
    source = open_source(write(tmp_path, rows, (*HEAD, "recordedBy")))
    assert any("--table.group_column recordedBy" in note for note in source.notes)
    assert "groups" not in source.columns


def test_a_given_taxonomy_decides_what_a_gap_means(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths([TIT, (*FISH[:2], "Perciformes", *FISH[3:]), OAK])
    source = open_source(write(tmp_path, [TIT, FISH]), taxonomy=tree)
    assert paths(source)[1][2] == "Perciformes"
    assert LabelFinder(tree).find(["Animalia", "Parus"]) == TIT[:5]
    assert LabelFinder(tree).find(["Plantae", "Parus"]) is None


def test_rows_without_a_label_are_listed(tmp_path: Path) -> None:
    file = write(tmp_path, [TIT, ("",) * 6, OAK])
    source = open_source(file)
    assert source.unused is not None
    assert source.unused.lines() == [(3, ", ".join(HEAD), "it has no label")]
    assert (source.nodes >= 0).tolist() == [True, False, True]
    assert table_labels(file)[1].tolist() == source.nodes.tolist()


@pytest.mark.usefixtures("few_words")
def test_a_run_keeps_the_list_and_what_was_done(tmp_path: Path) -> None:
    import labeltree as lt

    rows = [(*row[:-1], f"{row[-1]}{n % 2}") for n in range(12) for row in (TIT, OAK, FISH)]
    file = write(tmp_path, [*rows, ("",) * 6])
    run = lt.train(
        file,
        "ce",
        out=tmp_path / "run",
        encoder="small-text",
        epochs=1,
        progress_bar=False,
        val=0.2,
        test=0.2,
    )
    listed = list(csv.DictReader((Path(run.path) / "unused-rows.csv").open(encoding="utf-8")))
    assert [(line["row"], line["reason"]) for line in listed] == [("38", "it has no label")]
    kept = json.loads((Path(run.path) / "data.json").read_text())
    assert any("incertae sedis" in note for note in kept["notes"])
    said = "1 row is not used, or only in part (unused-rows.csv): no label (1)"
    assert any(said in note for note in kept["notes"])


def test_names_of_columns() -> None:
    assert [rank_of(name) for name in ("dwc:family", "species name", "familial", "infraspecificEpithet")] == [
        "family",
        "species",
        None,
        "subspecies",
    ]
    assert not Ranks(["genus", "family"], []).are_known  # finer before coarser
    assert Ranks(["family", "genus"], ["TaxonRank"]).depth_column == "TaxonRank"


NAMES = st.one_of(st.none(), st.sampled_from("abc"))
LABELS = st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES), min_size=1, max_size=12, unique=True)


@settings(max_examples=60)
@given(LABELS, st.sampled_from(["placeholder", "skip", "error", None]))
def test_every_label_is_bridged_or_remains(labels: Any, gaps: Any) -> None:
    """No given name is lost, their order stays, and with placeholders depth is rank."""
    found = bridge(labels, "wxyz", gaps)
    for label, one in zip(labels, found, strict=True):
        given = [name for name in label if name is not None]
        if one.path is None:
            assert has_gap(label)
            assert gaps in ("error", None)
            assert one.bridged
            continue
        left = iter(one.path)
        assert all(name in left for name in given)
        if gaps == "placeholder" and given:
            assert len(one.path) == max(place for place, name in enumerate(label) if name is not None) + 1
        if not has_gap(label):
            assert list(one.path) == given
