"""Samples of one name are told apart in the record of a run."""

from labeltree.runs.sample_record import _keys


def test_samples_of_one_name_are_told_apart() -> None:
    assert list(_keys(["a", "b", "a", "a", "b"])) == [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1)]
    assert list(_keys(None)) == []
