"""The names of labels as a table is read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree.data import Source, open_source
from labeltree.data.names.label_names import LabelNames
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy


def opened(tmp_path: Path, header: str, *rows: str, synonyms: str | None = None, **settings: Any) -> Source:
    table = tmp_path / "table.csv"
    table.write_text("\n".join([f"text;{header}", *(f"t{i};{row}" for i, row in enumerate(rows))]), "utf-8")
    if synonyms is not None:
        (tmp_path / "synonyms.csv").write_text(synonyms, "utf-8")
        settings["synonyms"] = tmp_path / "synonyms.csv"
    columns = header.split(";")
    return open_source(table, label_columns=columns if len(columns) > 1 else header, **settings)


def labels(source: Source) -> list[str | None]:
    return source.taxonomy.decode(source.nodes)


def test_exact_names_are_as_they_are(tmp_path: Path) -> None:
    source = opened(tmp_path, "label", "Dog ", "dog", "DOG")
    assert labels(source) == ["Dog", "dog", "DOG"]
    assert not source.notes


def test_plain_names_take_the_most_frequent_spelling(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "label",
        "a/Dog",
        "a/dog",
        "A/Dog",
        "a/Dog",
        "b/dog",
        "a/Cafe\u0301",
        "a/Café",
        names="plain",
    )
    assert labels(source) == ["a/Dog", "a/Dog", "a/Dog", "a/Dog", "b/dog", "a/Café", "a/Café"]
    assert any("in 2 rows the spelling" in note for note in source.notes)


def test_plain_names_in_several_columns(tmp_path: Path) -> None:
    source = opened(tmp_path, "kind;name", "Pet;Dog", "pet;dog", "Pet;Dog", "Farm;", names="plain")
    assert labels(source) == ["Pet/Dog", "Pet/Dog", "Pet/Dog", "Farm"]


def test_a_column_of_scientific_names_becomes_a_tree(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "scientificName",
        *("Parus major Linnaeus, 1758", "PARUS MAJOR", "Parus sp.", "Parus major newtoni", "?Parus major"),
        *("Platanus acerifolia", "Platanus x acerifolia", "Larus argentatus/fuscus", "Aves/Passer L."),
        "Some virus",
        names="scientific",
    )
    species = "Parus/Parus major"
    assert labels(source) == [
        *(species, species, "Parus", f"{species}/Parus major newtoni", None),
        *("Platanus/Platanus × acerifolia", "Platanus/Platanus × acerifolia", "Larus", "Aves/Passer"),
        "Some virus",
    ]
    assert source.unused is not None
    assert [row for row, _, _ in source.unused.lines()] == [4, 6, 9]
    assert "'?Parus major' is uncertain" in source.unused.lines()[1][2]
    notes = "; ".join(source.notes)
    assert "in 2 rows authorship" in notes
    assert "in 3 rows the name is uncertain" in notes
    assert "'Some virus'" in notes


def test_ranks_with_scientific_names(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "family;genus;species",
        *("Paridae Vigors;Parus L.;Parus major L.", "PARIDAE;;Parus major", "Paridae;;Parus cf. major"),
        *("Paridae;Parus;Parus major newtoni", "Paridae;Parus;Parus L.", "Paridae;Parus;"),
        names="scientific",
    )
    species = "Paridae/Parus/Parus major"
    assert labels(source) == [
        *(species, species, "Paridae/Parus", f"{species}/Parus major newtoni"),
        *("Paridae/Parus", "Paridae/Parus"),
    ]


def test_synonyms_take_the_place_of_the_accepted_name(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "family;genus;species",
        *(
            "Paridae;Parus;Parus caeruleus",
            "Paridae;Cyanistes;Cyanistes caeruleus",
            "Paridae;Parus;Parus ater",
        ),
        synonyms="synonym,accepted\nParus caeruleus,Cyanistes caeruleus\nParus ater,Periparus ater\nx,y\n",
    )
    blue = "Paridae/Cyanistes/Cyanistes caeruleus"
    assert labels(source) == [blue, blue, "Paridae/Periparus/Periparus ater"]
    assert "2 synonyms in 2 rows replaced by accepted names; 1 more occur in no row: 'x'" in source.notes


def test_synonyms_of_any_domain_with_paths(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "label",
        *("clothes/tee", "clothes/t-shirt", "sport/tee", "sofas/couch/leather"),
        synonyms="synonym,accepted\nclothes/tee,clothes/t-shirt\nsofas,furniture\ncouch,sofa\n",
    )
    assert labels(source) == [
        *("clothes/t-shirt", "clothes/t-shirt", "sport/tee", "furniture/sofa/leather"),
    ]


def test_a_path_longer_than_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 3 names, but there are 2 columns"):
        opened(tmp_path, "a;b", "x;y", synonyms="synonym,accepted\ny,1/2/3\n")


def test_names_are_found_in_a_given_taxonomy(tmp_path: Path) -> None:
    taxonomy = Taxonomy.from_paths(
        ["Aves/Paridae/Cyanistes/Cyanistes caeruleus", "Aves/Paridae/Parus/Parus major"]
    )
    rows = ("Parus caeruleus L.", "PARUS MAJOR", "Parus sp.", "Paridae", "")
    synonyms = "synonym,accepted\nParus caeruleus,Cyanistes caeruleus\n"
    source = opened(tmp_path, "label", *rows, synonyms=synonyms, names="scientific", taxonomy=taxonomy)
    assert source.taxonomy == taxonomy
    assert [None if node < 0 else taxonomy.names[node] for node in source.nodes.tolist()] == [
        *("Cyanistes caeruleus", "Parus major", "Parus", "Paridae", None)
    ]
    rows = ("Paridae;Parus;Parus caeruleus", "PARIDAE;Parus;parus major L.")
    source = opened(
        tmp_path,
        "family;genus;species",
        *rows,
        synonyms=synonyms,
        names="scientific",
        taxonomy=taxonomy,
    )
    assert [taxonomy.names[node] for node in source.nodes.tolist()] == ["Cyanistes caeruleus", "Parus major"]


def test_missing_labels_are_cut_after_names_are_read(tmp_path: Path) -> None:
    rows = ("Parus major L.", "unknown", "Parus/unknown", "")
    source = opened(tmp_path, "label", *rows, names="scientific", missing_labels=["unknown"])
    assert labels(source) == ["Parus/Parus major", None, "Parus", None]


def test_unknown_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names is 'latin'; it must be exact, plain or scientific"):
        LabelNames("latin")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="there is no table"):
        opened(tmp_path, "label", "a", synonyms=None) and LabelNames(synonyms=tmp_path / "absent.csv")


NAMES = st.text(st.sampled_from("aAbBé ×x.?/ "), min_size=1, max_size=8).filter(str.strip)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), max_size=8, unique=True))
def test_no_label_is_lost(found: list[tuple[str, ...]]) -> None:
    """Every label is there again, or is coarser or missing for a reason."""
    for names in ("plain", "scientific"):
        read = LabelNames(names).read(found, [1] * len(found))  # type: ignore[arg-type]
        assert len(read.labels) == len(found)
        again = LabelNames(names).read(read.labels, [1] * len(found))  # type: ignore[arg-type]
        for number, label in enumerate(read.labels):
            assert label or number in read.reasons
            if names == "plain":
                assert len(label) == len(found[number])
                assert again.labels[number] == label


@pytest.mark.parametrize(
    ("path", "label"),
    [("Aves/Muscicapidae/Oenanthe", "Apiaceae/Oenanthe"), ("Clothes/Hats/Other", "Shoes/Other")],
)
def test_a_path_that_the_taxonomy_lacks_is_not_its_last_name(path: str, label: str, tmp_path: Path) -> None:
    taxonomy = Taxonomy.from_paths([path])
    for names in ("plain", "scientific"):
        with pytest.raises(TaxonomyError, match=label):
            opened(tmp_path, "label", label, names=names, taxonomy=taxonomy)
        last = opened(tmp_path, "label", label.split("/")[1].lower(), names="plain", taxonomy=taxonomy)
        assert labels(last) == [path]


def test_only_species_take_the_accepted_name_of_their_genus(tmp_path: Path) -> None:
    synonyms = "synonym,accepted\nTV,Television\nCat,Pet\n"
    source = opened(tmp_path, "label", "TV/TV stands", "Cat/Cat food", synonyms=synonyms, names="plain")
    assert labels(source) == ["Television/TV stands", "Pet/Cat food"]
    synonyms = "synonym,accepted\nParus,Cyanistes\n"
    source = opened(tmp_path, "label", "Parus caeruleus", synonyms=synonyms, names="scientific")
    assert labels(source) == ["Cyanistes/Cyanistes caeruleus"]


@pytest.mark.parametrize("accepted", ["Muscicapidae/Oenanthe", "Aves/Muscicapidae/Oenanthe"])
def test_a_path_synonym_keeps_the_names_above_it(accepted: str, tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        "label",
        *("Aves/Turdidae/Oenanthe", "Turdidae/Oenanthe"),
        synonyms=f"synonym,accepted\nTurdidae/Oenanthe,{accepted}\n",
    )
    assert labels(source) == ["Aves/Muscicapidae/Oenanthe", accepted]


def test_labels_that_are_read_one_by_one_leave_what_is_known() -> None:
    taxonomy = Taxonomy.from_paths(["Parus/Parus major"])
    names = LabelNames("scientific")
    cleaner = names._cleaner
    names.read([("Parus major",)], [1], taxonomy=taxonomy, whole=False)
    known = cleaner._parsed
    found = names.read([("Parus Major",)], [1], taxonomy=taxonomy, whole=False)
    assert found.labels == [("Parus", "Parus major")]
    assert cleaner._parsed is known
