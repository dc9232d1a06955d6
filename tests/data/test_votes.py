"""Votes of annotators, in columns or in rows, and labels with a confidence."""

from collections import Counter
from fractions import Fraction

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree.data import open_source
from labeltree.data.tables.multi_label import LabelEvidence
from labeltree.data.tables.votes import agreed_nodes, vote_note
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import TableRecipe

TREE = Taxonomy.from_paths(["naevus/blue", "naevus/Spitz", "melanoma/nodular", "melanoma/superficial/early"])
READERS = ("reader1", "reader2", "reader3")
VOTES = [
    ("naevus/blue", "naevus/blue", "naevus/blue"),
    ("naevus/blue", "naevus/blue", "naevus/Spitz"),
    ("naevus/blue", "naevus/Spitz", None),
    ("naevus/blue", "melanoma/nodular", None),
    ("melanoma", "melanoma/nodular", "naevus/blue"),
    (None, "naevus/Spitz", None),
    (None, None, None),
]
AGREED = ["naevus/blue", "naevus/blue", "naevus", None, "melanoma", "naevus/Spitz", None]
NOTE = (
    "of 6 samples with votes, all votes are equal for 1, one of several labels is agreed on for 2, and only "
    "a coarser node for 1; 1 agree on nothing below the root and have no label; 1 have a single vote, which "
    "is their label"
)


def write(path, **columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def vote_columns(path):
    votes = {name: [row[reader] for row in VOTES] for reader, name in enumerate(READERS)}
    return write(path, text=[f"t{number}" for number in range(len(VOTES))], **votes)


def slow_agreement(votes, agreement):
    """The deepest node that enough votes lie at or below, by counting ancestors."""
    support = Counter(node for vote in votes for node in {vote, *TREE.ancestors_of(vote)})
    enough = [
        node
        for node, count in support.items()
        if node > 0 and (count > Fraction(str(agreement)) * len(votes) or count == len(votes))
    ]
    return max(enough, key=lambda node: int(TREE.depth[node]), default=-1)


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(-1, TREE.num_nodes - 1), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([0.5, 0.6, 0.57, 2 / 3, 0.75, 0.99, 1.0]),
)
def test_the_finest_node_that_is_agreed_on(votes, agreement):
    found = agreed_nodes(torch.tensor(votes), TREE, agreement)
    assert found.tolist() == [slow_agreement([v for v in row if v >= 0], agreement) for row in votes]


def test_exactly_the_share_is_not_more_than_it():
    """57 of 100 votes are not more than 0.57, although 0.57 · 100 is less than 57 in floating point."""
    blue, spitz = TREE.encode(["naevus/blue", "naevus/Spitz"]).tolist()
    votes = torch.tensor([[blue] * 57 + [spitz] * 43, [blue] * 58 + [spitz] * 42])
    assert TREE.decode(agreed_nodes(votes, TREE, 0.57)) == ["naevus", "naevus/blue"]


def test_columns_of_votes(tmp_path):
    source = open_source(
        vote_columns(tmp_path / "skin.csv"), taxonomy=TREE, evidence=LabelEvidence(vote_columns=READERS)
    )
    assert source.taxonomy.decode(source.nodes) == AGREED
    assert source.label_sets is None
    asked = "labels are the finest nodes that more than 50 % of the votes in reader1, reader2, reader3"
    assert f"{asked} agree on: {NOTE}" in source.notes
    assert source.columns["votes"] == source.columns["labels"] == READERS
    assert [(row, why) for row, _, why in source.unused.lines()] == [
        (5, "its annotators agree on nothing below the root"),
        (8, "it has no label"),
    ]


def test_all_votes(tmp_path):
    evidence = LabelEvidence(vote_columns=READERS, agreement=1)
    source = open_source(vote_columns(tmp_path / "skin.csv"), taxonomy=TREE, evidence=evidence)
    wanted = ["naevus/blue", "naevus", "naevus", None, None, "naevus/Spitz", None]
    assert source.taxonomy.decode(source.nodes) == wanted


def test_rows_of_votes_say_the_same_as_columns(tmp_path):
    rows = [
        (f"t{sample}", reader, vote)
        for reader in range(3)
        for sample, row in enumerate(VOTES)
        if (vote := row[reader]) is not None
    ]
    texts, readers, votes = zip(*rows, strict=True)
    path = write(tmp_path / "votes.csv", text=texts, annotator=readers, label=votes)
    evidence = LabelEvidence(sample_column="text", annotator_column="annotator")
    source = open_source(path, taxonomy=TREE, evidence=evidence)
    found = dict(zip(source.read(range(len(source))), TREE.decode(source.nodes), strict=True))
    assert found == {f"t{sample}": node for sample, node in enumerate(AGREED[:6])}
    assert any(NOTE in note for note in source.notes)


def test_an_annotator_votes_once(tmp_path):
    path = write(
        tmp_path / "votes.csv", text=["a", "b", "a"], who=["x", "x", "x"], label=["p/q", "p/r", "p/r"]
    )
    evidence = LabelEvidence(sample_column="text", annotator_column="who")
    with pytest.raises(DataError, match="line 2 and line 4 are two votes of the annotator 'x' on one sample"):
        open_source(path, evidence=evidence)


def test_confidence(tmp_path):
    path = write(
        tmp_path / "skin.csv",
        text=list("abcde"),
        label=["naevus/blue", "naevus/Spitz", "melanoma", "melanoma/nodular", None],
        sure=[0.9, 0.2, 0.1, None, 0.1],
    )
    evidence = LabelEvidence(confidence_column="sure", min_confidence=0.5)
    source = open_source(path, taxonomy=TREE, evidence=evidence)
    assert source.taxonomy.decode(source.nodes) == ["naevus/blue", "naevus", None, "melanoma/nodular", None]
    assert source.notes == (
        "2 of 4 labels have a confidence below 0.5 (sure) and became their parent; 1 of these lay at depth 1 "
        "and are missing now; 1 label without a confidence: as before",
    )


def test_doubtful_votes_count_for_the_parent(tmp_path):
    path = write(
        tmp_path / "votes.csv",
        text=["a", "a", "a"],
        who=["x", "y", "z"],
        label=["naevus/blue", "naevus/blue", "naevus/Spitz"],
        sure=[1, 0.1, 1],
    )
    evidence = LabelEvidence(
        sample_column="text", annotator_column="who", confidence_column="sure", min_confidence=0.5
    )
    source = open_source(path, taxonomy=TREE, evidence=evidence)
    assert TREE.decode(source.nodes) == ["naevus"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"vote_columns": READERS, "agreement": 0.4}, "agreement is 0.4; it must be from 0.5 to 1"),
        ({"vote_columns": READERS, "agreement": 50}, "agreement is 50; it must be from 0.5 to 1"),
        ({"agreement": 0.5}, "agreement is about votes"),
        ({"vote_columns": ["reader1"]}, "vote_columns names a single column, 'reader1'"),
        ({"vote_columns": ["a", "b", "a"]}, "vote_columns names 'a' twice"),
        ({"annotator_column": "who"}, "annotator_column needs sample_column"),
        ({"vote_columns": READERS, "label_separator": ";"}, "label_separator does not go with votes"),
        ({"vote_columns": READERS, "sample_column": "text"}, "vote_columns and sample_column exclude"),
        ({"confidence_column": "sure"}, "confidence_column and min_confidence belong together"),
        ({"min_confidence": 0.5}, "confidence_column and min_confidence belong together"),
        ({"confidence_column": "sure", "min_confidence": 80}, "min_confidence is 80; it must be above 0"),
    ],
)
def test_settings_that_contradict_each_other(settings, said):
    with pytest.raises(DataError, match=said):
        LabelEvidence(**settings)


@pytest.mark.parametrize("value", ["85", "-0.1", "high"])
def test_a_confidence_that_is_none(tmp_path, value):
    path = write(tmp_path / "skin.csv", text=["a", "b"], label=["p/q", "p/r"], sure=["0.5", value])
    with pytest.raises(DataError, match=rf"line 3: the confidence '{value}' in column 'sure' is not a"):
        open_source(path, evidence=LabelEvidence(confidence_column="sure", min_confidence=0.5))


def test_columns_with_two_purposes(tmp_path):
    path = vote_columns(tmp_path / "skin.csv")
    votes = LabelEvidence(vote_columns=READERS)
    with pytest.raises(DataError, match="'reader1' is named for votes and for labels"):
        open_source(path, label_columns=["reader1"], evidence=votes)
    with pytest.raises(DataError, match="label_columns and vote_columns exclude each other"):
        open_source(path, label_columns=["text"], evidence=votes)
    with pytest.raises(DataError, match="'reader2' is named for votes and for groups"):
        open_source(path, group_column="reader2", evidence=votes)
    with pytest.raises(DataError, match="no column 'raeder1'; did you mean 'reader1'"):
        open_source(path, evidence=LabelEvidence(vote_columns=["raeder1", "reader2"]))


def test_recipes_hold_them():
    columns = TableRecipe(text_column="text", vote_columns=list(READERS), agreement=0.75).columns
    assert columns["evidence"].given == {"vote_columns": list(READERS), "agreement": 0.75}
    assert TableRecipe(text_column="text").columns == {"text_column": "text"}


def test_a_note_without_losses():
    votes = TREE.encode(["naevus/blue"]).repeat(3, 2)
    said = vote_note(votes, votes[:, 0], 1.0, None)
    assert said == (
        "labels are the finest nodes that all votes agree on: of 3 samples with votes, all votes are equal "
        "for 3, one of several labels is agreed on for 0, and only a coarser node for 0"
    )
