"""Tables with several labels a sample: cells with a separator, lists, several rows."""

import dataclasses

import pandas as pd
import pytest
import torch

from labeltree.data import make_splits, open_source, summarize
from labeltree.data.opening_sources import with_missing_labels
from labeltree.data.tables.multi_label import LabelEvidence
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy

PATHS = ["heart/valve", "heart/rhythm", "lung/asthma", "lung/tumour/small", "lung/tumour/large"]


def write(path, **columns):
    frame = pd.DataFrame(columns)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def names_of(source):
    """The labels of every sample, as sets of the finest names."""
    sets = source.nodes[:, None] if source.label_sets is None else source.label_sets
    return [{source.taxonomy.names[node] for node in row if node >= 0} for row in sets.tolist()]


CELLS = ["heart/valve; heart/rhythm", "lung/asthma;", "heart/valve;lung/tumour/small", None, " ; "]
WANTED = [{"valve", "rhythm"}, {"asthma"}, {"valve", "small"}, set(), set()]


@pytest.mark.parametrize("with_taxonomy", [False, True])
def test_a_separator(tmp_path, with_taxonomy):
    path = write(tmp_path / "notes.csv", text=list("abcde"), label=CELLS)
    taxonomy = Taxonomy.from_paths(PATHS) if with_taxonomy else None
    source = open_source(path, taxonomy=taxonomy, evidence=LabelEvidence(label_separator=";"))
    assert names_of(source) == WANTED
    tree = source.taxonomy
    assert tree.decode(source.nodes) == ["heart", "lung/asthma", "/", None, None]
    assert source.notes == (
        "2 of 5 samples have several labels, up to 2; what reads one label a sample reads their common "
        "ancestor",
    )
    assert [line for line in source.unused.lines() if "no label" in line[2]] == [
        (5, "label", "it has no label"),
        (6, "label", "it has no label"),
    ]


def test_lists_need_no_separator(tmp_path):
    cells = [["heart/valve", "heart/rhythm"], ["lung/asthma"], ["heart/valve", "lung/tumour/small"], [], None]
    path = write(tmp_path / "notes.parquet", text=list("abcde"), labels=cells)
    source = open_source(path, label_columns=["labels"])
    assert names_of(source) == WANTED
    with pytest.raises(DataError, match="'labels' holds lists; leave label_separator out"):
        open_source(path, label_columns=["labels"], evidence=LabelEvidence(label_separator=";"))


def test_several_rows_a_sample(tmp_path):
    path = write(
        tmp_path / "visits.csv",
        text=["a", "a", "b", "c", "c"],
        label=["heart/valve", "heart/rhythm", "lung/asthma", "heart/valve", "lung/tumour/small"],
        patient=["p", "p", "p", "q", "q"],
    )
    evidence = LabelEvidence(sample_column="text")
    source = open_source(path, evidence=evidence, group_column="patient")
    assert names_of(source) == [{"valve", "rhythm"}, {"asthma"}, {"valve", "small"}]
    assert source.sample_names() == ["line 2", "line 4", "line 5"]
    assert source.group_names.tolist() == ["p", "p", "q"]
    with pytest.raises(
        DataError, match=r"line 2 and line 4 are one sample \('p' in 'patient'\) but differ in 'text'"
    ):
        open_source(path, evidence=LabelEvidence(sample_column="patient"))


def test_one_row_a_sample_is_as_without(tmp_path):
    labels = ["heart/valve", "lung/asthma", "heart/valve"]
    path = write(tmp_path / "notes.csv", text=list("abc"), label=labels)
    plain = open_source(path)
    for evidence in (LabelEvidence(label_separator=";"), LabelEvidence(sample_column="text")):
        source = open_source(path, evidence=evidence)
        assert source.label_sets is None
        assert torch.equal(source.nodes, plain.nodes)
        assert source.taxonomy == plain.taxonomy


def test_a_label_above_another_says_nothing_new(tmp_path):
    path = write(tmp_path / "notes.csv", text=list("ab"), label=["heart;heart/valve;heart/valve", "lung"])
    source = open_source(path, evidence=LabelEvidence(label_separator=";"))
    assert source.label_sets is None
    assert source.taxonomy.decode(source.nodes) == ["heart/valve", "lung"]


def test_missing_labels_within_a_set(tmp_path):
    cells = ["heart/valve;unknown", "unknown", "heart/valve;lung/asthma", "heart/rhythm"]
    path = write(tmp_path / "notes.csv", text=list("abcd"), label=cells)
    evidence = LabelEvidence(label_separator=";")
    source = open_source(path, evidence=evidence, missing_labels="unknown")
    assert names_of(source) == [{"valve"}, set(), {"valve", "asthma"}, {"rhythm"}]
    later = with_missing_labels(open_source(path, evidence=evidence), "asthma")
    assert names_of(later)[2] == {"valve", "lung"}


def test_an_unknown_label_in_a_set(tmp_path):
    path = write(tmp_path / "notes.csv", text=list("ab"), label=["heart/valve;heart/vavle", "lung/asthma"])
    with pytest.raises(TaxonomyError, match="heart/vavle"):
        open_source(path, taxonomy=Taxonomy.from_paths(PATHS), evidence=LabelEvidence(label_separator=";"))


def test_subsets_splits_and_changed_labels(tmp_path):
    path = write(tmp_path / "notes.csv", text=[f"t{i}" for i in range(20)], label=CELLS[:3] * 6 + CELLS[1:3])
    source = open_source(path, evidence=LabelEvidence(label_separator=";"))
    assert names_of(source.subset([2, 1])) == [{"valve", "small"}, {"asthma"}]
    assert source.subset([1, 4]).label_sets is None
    split = make_splits(source, val=0.2, test=0.2)
    assert summarize(split).notes == source.notes
    nodes = source.nodes.clone()
    nodes[0] = source.taxonomy.find("lung/asthma")  # as a correction does
    assert names_of(dataclasses.replace(source, nodes=nodes))[:3] == [
        {"asthma"},
        {"asthma"},
        {"valve", "small"},
    ]


@pytest.mark.parametrize("separator", ["", " ", "/"])
def test_separators_that_cannot_be(separator):
    with pytest.raises(DataError, match="label_separator is"):
        LabelEvidence(label_separator=separator)


def test_a_separator_and_several_label_columns(tmp_path):
    path = write(tmp_path / "notes.csv", text=list("ab"), depth1=["x", "y"], depth2=["x1;x2", "y1"])
    with pytest.raises(DataError, match="one label column, of names or paths; there are depth1, depth2"):
        open_source(path, evidence=LabelEvidence(label_separator=";"))


def test_folders_have_no_columns(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="leave label_separator out, or name a table"):
        open_source(tmp_path / "photos", evidence=LabelEvidence(label_separator=";"))


def test_labels_that_look_joined(tmp_path):
    """Without a separator they are read as they stand, and a note says how they could be read."""
    cells = ["heart/valve", "heart/rhythm", "heart/valve; heart/rhythm", "other; thing"]
    path = write(tmp_path / "notes.csv", text=list("abcd"), label=cells)
    source = open_source(path)
    assert source.label_sets is None
    assert source.notes == (
        "labels such as 'heart/valve; heart/rhythm' are read as one label each; if they are several labels, "
        "set --table.label_separator ';'",
    )
