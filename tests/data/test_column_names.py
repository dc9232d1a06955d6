"""The same header has the same meaning wherever a table is read: as a taxonomy, and for training."""

from itertools import product

import pytest

import labeltree as lt
from labeltree.data import open_source
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy.column_names import IMAGES, LABELS, LESS_USUAL_LABELS, TEXTS, TEXTS_OF_CLASSES
from sweeps import some_now

NAMES_OF_LABELS = (*LABELS, *LESS_USUAL_LABELS)


def _table(tmp_path, sample, label, kind="cat"):
    path = tmp_path / "animals.csv"
    rows = [f"a {name} of mine.jpg,{name}" for name in (kind, "dog", kind)]
    rows[2] = rows[2].replace("a ", "another ", 1)
    path.write_text("\n".join([f"{sample},{label}", *rows]) + "\n")
    return path


PAIRS = list(product(sorted({*IMAGES, *TEXTS} - TEXTS_OF_CLASSES), sorted(NAMES_OF_LABELS)))
SOME = PAIRS[::4]  # with every name


@pytest.mark.parametrize(
    ("sample", "label"), some_now([*SOME, *(pair for pair in PAIRS if pair not in SOME)], len(SOME))
)
def test_a_file_that_is_refused_as_a_taxonomy_is_read_as_it_says(tmp_path, sample, label):
    path = _table(tmp_path, sample, label)
    with pytest.raises(TaxonomyError, match=f"'{sample}' holds samples and '{label}' their labels"):
        lt.Taxonomy.from_file(path)
    assert [*lt.open_taxonomy(str(path)).names][1:] == ["cat", "dog"]


@pytest.mark.parametrize("label", NAMES_OF_LABELS)
def test_training_reads_what_taxonomy_show_reads(tmp_path, label):
    source = open_source(_table(tmp_path, "text", label))
    assert [source.taxonomy.names[node] for node in source.nodes] == ["cat", "dog", "cat"]


@pytest.mark.parametrize("sample", ["File Name", "fileName", "image-path", "Image_Name"])
def test_names_are_compared_by_their_letters(tmp_path, write_image, sample):
    for name in ("cat", "dog"):
        write_image(tmp_path / f"{name}.png")
    path = tmp_path / "t.csv"
    path.write_text(f"{sample},Label\ncat.png,cat\ndog.png,dog\n")
    assert open_source(path).nodes.tolist() == [1, 2]
    with pytest.raises(TaxonomyError, match="holds samples and 'Label' their labels"):
        lt.Taxonomy.from_file(path)


def test_less_usual_names_come_last(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,target,category\nred one,1,cat\nblue one,1,dog\n")
    assert [*open_source(path).taxonomy.names][1:] == ["cat", "dog"]
    rows = ["Parus,Parus major", "Parus,Parus ater", "Corvus,Corvus corax", "Corvus,Corvus cornix"]
    cells = "".join(f"text {number},x,{row}\n" for number, row in enumerate(rows))
    path.write_text(f"text,target,genus,species\n{cells}")
    assert "Parus" in open_source(path).taxonomy.names


def test_a_target_of_a_regression_is_no_label(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,target\nred one,0.25\nblue one,1.75\n")
    with pytest.raises(DataError, match="no column for labels"):
        open_source(path)


def test_target_beside_source_is_the_end_of_an_edge(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "source,target,text\ncat,animal,it is one\ndog,animal,it is one, too\n".replace(", too", "")
    )
    assert {"cat", "dog", "animal"} <= {*lt.open_taxonomy(str(path)).names}


def test_numbers_beside_a_target_are_the_vectors(tmp_path):
    path = tmp_path / "iris.csv"
    rows = [f"{number}.5,{number}.25,{number % 2}" for number in range(6)]
    path.write_text("\n".join(["length,width,target", *rows]) + "\n")
    source = open_source(path)
    assert source.nodes.unique().numel() == 2
    assert source.modalities == ("vector",)
