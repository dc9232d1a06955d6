"""Scientific names: authorship, hybrids, ranks below the species, open nomenclature, spelling."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree.data.names.scientific import parse_scientific, plain_text

CERTAIN = [
    # authorship
    ("Parus major Linnaeus, 1758", "Parus > Parus major"),
    ("Parus major L.", "Parus > Parus major"),
    ("Parus major L", "Parus > Parus major"),
    ("Parus L.", "Parus"),
    ("Parus Linnaeus, 1758", "Parus"),
    ("Paridae Vigors, 1825", "Paridae"),
    ("Carex Linné", "Carex"),
    ("Pomatomus saltator (Linnaeus, 1766)", "Pomatomus > Pomatomus saltator"),
    ("Pinus nigra J. F. Arnold", "Pinus > Pinus nigra"),
    ("Dendroctonus brevicomis LeConte", "Dendroctonus > Dendroctonus brevicomis"),
    ("Aus bus Linnaeus in Smith, 1801", "Aus > Aus bus"),
    ("Aus bus de Vries, 1900", "Aus > Aus bus"),
    ("Aus bus van der Hoeven", "Aus > Aus bus"),
    ("Aus bus d'Orbigny, 1842", "Aus > Aus bus"),
    ("Abies alba Mill. ex Smith", "Abies > Abies alba"),
    ("Abies alba Mill., nom. cons.", "Abies > Abies alba"),
    ("Rubus fruticosus auct. non L.", "Rubus > Rubus fruticosus"),
    ("Rubus fruticosus sensu lato", "Rubus > Rubus fruticosus"),
    ("Rubus fruticosus L., s.l.", "Rubus > Rubus fruticosus"),
    ("Polygonum aviculare Hook.f. & Thomson", "Polygonum > Polygonum aviculare"),
    ("parus major linnaeus, 1758", "Parus > Parus major"),
    # a subgenus, and sections
    ("Larus (Larus) argentatus Pontoppidan, 1763", "Larus > Larus argentatus"),
    ("Carex sect. Acutae", "Carex"),
    # below the species
    ("Parus major newtoni Prazák, 1894", "Parus > Parus major > Parus major newtoni"),
    ("Parus major ssp newtoni", "Parus > Parus major > Parus major newtoni"),
    ("Aus (Bus) cus dus (Smith & Jones, 1900)", "Aus > Aus cus > Aus cus dus"),
    (
        "Quercus robur L. subsp. pedunculiflora (K.Koch) Menitsky",
        "Quercus > Quercus robur > Quercus robur pedunculiflora",
    ),
    (
        "Brassica oleracea L. var. capitata L.",
        "Brassica > Brassica oleracea > Brassica oleracea var. capitata",
    ),
    ("Carex flava L. f. alba Hook.f.", "Carex > Carex flava > Carex flava f. alba"),
    (
        "Rosa canina var. dumetorum f. alba",
        "Rosa > Rosa canina > Rosa canina var. dumetorum > Rosa canina var. dumetorum f. alba",
    ),
    (
        "Pseudomonas syringae pv. tomato",
        "Pseudomonas > Pseudomonas syringae > Pseudomonas syringae pv. tomato",
    ),
    ("Ficus carica 'Brown Turkey'", "Ficus > Ficus carica > Ficus carica 'Brown Turkey'"),
    ("Solanum lycopersicum cv. Roma", "Solanum > Solanum lycopersicum > Solanum lycopersicum 'Roma'"),
    ("Poa annua agg.", "Poa > Poa annua"),
    # hybrids
    ("Platanus × acerifolia (Aiton) Willd.", "Platanus > Platanus × acerifolia"),
    ("Platanus x acerifolia", "Platanus > Platanus × acerifolia"),
    ("Platanus ×acerifolia", "Platanus > Platanus × acerifolia"),
    ("Salix X rubens", "Salix > Salix × rubens"),
    ("×Cupressocyparis leylandii", "× Cupressocyparis > × Cupressocyparis leylandii"),
    ("x Triticosecale", "× Triticosecale"),
    ("Mentha aquatica L. × M. spicata L.", "Mentha > Mentha aquatica × Mentha spicata"),
    ("Passer domesticus × montanus", "Passer > Passer domesticus × Passer montanus"),
    ("Anas × Aix", "Anas × Aix"),
    # spelling
    ("PARUS MAJOR", "Parus > Parus major"),
    ("PARUS MAJOR LINNAEUS, 1758", "Parus > Parus major"),
    ("parus_major", "Parus > Parus major"),
    ("<i>Parus major</i> L.", "Parus > Parus major"),
    ("  Parus\u00a0 major ", "Parus > Parus major"),
    ("Aster novae-angliae L.", "Aster > Aster novae-angliae"),
    ("Coccinella 7-punctata", "Coccinella > Coccinella 7-punctata"),
    ("Selaginella müelleri", "Selaginella > Selaginella mueelleri"),
    ("Isoëtes lacustris", "Isoetes > Isoetes lacustris"),
]

UNCERTAIN = [
    ("Parus sp.", "Parus", "sp."),
    ("Parus spp", "Parus", "spp"),
    ("Parus sp. nov. 1", "Parus", "sp."),
    ("Parus sp1", "Parus", "sp1"),
    ("Parus n. sp.", "Parus", "n."),
    ("Parus indet.", "Parus", "indet."),
    ("Paridae gen. sp.", "Paridae", "gen."),
    ("Parus cf. major", "Parus", "cf."),
    ("Parus cf major L.", "Parus", "cf"),
    ("Parus (cf.) major", "Parus", "(cf.)"),
    ("Parus aff. major L.", "Parus", "aff."),
    ("Parus nr. major", "Parus", "nr."),
    ("Parus near major", "Parus", "near"),
    ("Parus ? major", "Parus", "?"),
    ("Parus major?", "Parus", "?"),
    ("Parus major ?", "Parus", "?"),
    ("Rumex ?", "Rumex", "?"),
    ("Larus argentatus/fuscus", "Larus", "/"),
    ("Parus major ssp.", "Parus > Parus major", "ssp."),
    ("Parus major subsp. indet.", "Parus > Parus major", "subsp."),
    ("Parus major cf. newtoni", "Parus > Parus major", "cf."),
    ("cf. Parus major", "", "cf."),
    ("?Parus major", "", "?"),
    ("Parus? major", "", "?"),
    ("Cirsium × Carduus nutans", "Cirsium", "×"),
]


@pytest.mark.parametrize(("text", "path"), CERTAIN)
def test_names(text: str, path: str) -> None:
    found = parse_scientific(text)
    assert found is not None
    assert " > ".join(found.path) == path
    assert not found.uncertain


@pytest.mark.parametrize(("text", "path", "mark"), UNCERTAIN)
def test_open_nomenclature_ends_above_the_uncertain_name(text: str, path: str, mark: str) -> None:
    found = parse_scientific(text)
    assert found is not None
    assert (" > ".join(found.path), found.uncertain) == (path, mark)


@pytest.mark.parametrize(
    "text", ["", "  ", "Tobacco mosaic virus", "BOLD:AAA1234", "unknown", "12", "P. major", "?", "n/a", "鸟"]
)
def test_other_texts_are_no_scientific_names(text: str) -> None:
    assert parse_scientific(text) is None


def test_what_is_cut_is_told() -> None:
    cut = [parse_scientific(text) for text in ("Parus major L.", "Parus major", "Poa annua agg.")]
    assert [name is not None and name.cut for name in cut] == [True, False, True]


def test_a_capital_epithet_is_an_author_unless_the_species_is_known() -> None:
    for known, path in (([], ("Parus",)), (["parus major"], ("Parus", "Parus major"))):
        found = parse_scientific("Parus Major", known)
        assert found is not None
        assert found.path == path


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = parse_scientific(text)
    assert found is None or all(name == plain_text(name) and name for name in found.path)


@given(st.sampled_from([path for _, path in CERTAIN]))
def test_canonical_names_stay_as_they_are(path: str) -> None:
    names = path.split(" > ")
    found = parse_scientific(names[-1])
    assert found is not None
    assert list(found.path) == names
    decomposed = parse_scientific(unicodedata.normalize("NFD", names[-1]))
    assert decomposed == found
