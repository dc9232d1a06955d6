"""A download of occurrences with everything that makes them hard: its tree, and no row is lost."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import gbif
from labeltree.cli.main import main
from labeltree.data import Source, open_source
from labeltree.data.biology.rank_gaps import placeholder_name
from labeltree.data.tables.table_source import table_labels
from labeltree.errors import DataError
from labeltree.taxonomy import TaxonomyMapping


@pytest.fixture(scope="module")
def download(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gbif.write_download(tmp_path_factory.mktemp("gbif"), occurrences=600)


@pytest.fixture(scope="module")
def source(download: Path) -> Source:
    photos = {"image_folder": download.parent / "photos", "image_name": "{gbifID}_*.png"}
    return open_source(download, **photos, names="scientific", synonyms=str(download.parent / "synonyms.csv"))


def test_the_tree_is_that_of_the_species(source: Source) -> None:
    """Each species is one leaf, whatever its rows leave out; both Prunella and both Morus stay."""
    expected = set()
    for path, _ in gbif.species():
        names = list(path)
        names[3] = names[3] or placeholder_name(names[4], "order")
        expected.add(tuple(names))
    tree = source.taxonomy
    assert {tree.path(leaf) for leaf in tree.leaves.tolist()} == expected
    assert [tree.names.count(name) for name in ("Prunella", "Morus", "Pomacentridae")] == [2, 2, 1]
    depths = tree.depth[source.nodes.clamp_min(0)].bincount(minlength=8).tolist()
    assert depths[5] > 0 < depths[6] < depths[7]  # identified to the family, the genus, the species


def test_the_names_that_gbif_adds_need_no_cleaning(tmp_path: Path, source: Source) -> None:
    file = gbif.write_download(tmp_path, occurrences=300, interpreted=True)
    added = open_source(file, image_folder=tmp_path / "photos", image_name="{gbifID}_*.png")
    tree = source.taxonomy
    assert {added.taxonomy.path(leaf) for leaf in added.taxonomy.leaves.tolist()} == {
        tree.path(leaf) for leaf in tree.leaves.tolist()
    }


def test_every_row_is_used_or_listed(download: Path, source: Source) -> None:
    assert source.unused is not None
    assert source.names is not None
    number = {f"{4_000_000_000 + row}": row for row in range(600)}
    used = {number[Path(name).name.partition("_")[0]] for name in source.names}
    listed = {row - 2 for row, _, reason in source.unused.lines() if "no image" in reason}
    assert used | listed == set(range(600))
    assert not used & listed
    assert listed == set(range(99, 600, 100))
    unlabelled = {row - 2 for row, _, reason in source.unused.lines() if reason == "it has no label"}
    assert len(unlabelled) == int((table_labels(download)[1] < 0).sum())


def test_the_revision_has_every_kind_of_change(download: Path, source: Source, tmp_path: Path) -> None:
    revised, changes = gbif.write_revision(tmp_path, source.taxonomy)
    mapping = TaxonomyMapping.load(changes, old=source.taxonomy)
    assert {change.kind for change in mapping.changes()} >= {"move", "merge", "split", "rename"}
    assert main(["taxonomy", "check", str(revised)]) == 0
    assert main(["taxonomy", "show", str(download), "--depth", "2"]) == 0


CELLS = st.one_of(st.just(""), st.sampled_from(["A", "B"]))


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS, st.sampled_from(["", "GENUS", "species", "?"])), min_size=1),
    gaps=st.sampled_from(["placeholder", "skip", "error", None]),
)
def test_no_row_of_any_table_is_lost(tmp_path_factory: pytest.TempPathFactory, rows: Any, gaps: Any) -> None:
    file = tmp_path_factory.mktemp("table") / "seen.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["text", "family", "genus", "species", "taxonRank"])
        writer.writerows([f"{'' if number % 5 == 4 else number}", *row] for number, row in enumerate(rows))
    try:
        source = open_source(file, gaps=gaps, label_columns=["family", "genus", "species"], on_error="skip")
    except DataError:
        event("refused")
        return
    assert source.unused is not None
    labelled = set(source.instances[source.nodes >= 0].tolist())
    assert labelled | set(source.unused.rows.tolist()) == set(range(len(rows)))
    assert not labelled & set(source.unused.rows.tolist())
