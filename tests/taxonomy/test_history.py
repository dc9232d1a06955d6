"""Releases and histories of taxonomies: kept by .json files, and by nothing that compares taxonomies."""

import datetime
import json
import pickle
from pathlib import Path

import pytest

from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Revision, Taxonomy, TaxonomyDAG, TaxonomyMapping, load_taxonomy

OLD = Taxonomy.from_paths(["fish/trout", "fish/pike", "bird/owl"])
NEW = Taxonomy.from_paths(["fish/trout", "animal/bird/owl"])
DAY = datetime.date(2024, 5, 31)


def revised() -> Taxonomy:
    return TaxonomyMapping.between(OLD.with_release("2023"), NEW)[0].revised("2024", DAY)


def test_a_revision_becomes_history() -> None:
    tree = revised()
    assert tree.release == "2024"
    assert [entry.release for entry in tree.history] == ["2023", "2024"]
    assert [entry.digest for entry in tree.history] == [OLD.digest, NEW.digest]
    assert [entry.date for entry in tree.history] == [None, "2024-05-31"]
    assert tree.history[1].changes == {"remove": 1, "move": 1, "add": 1}
    assert str(tree.history[1]) == (f"2024, 2024-05-31, 1 remove, 1 move, 1 add, digest {NEW.digest[:16]}")
    again = TaxonomyMapping.between(tree, OLD)[0].revised("2025", DAY)
    assert [entry.release for entry in again.history] == ["2023", "2024", "2025"]


def test_files_keep_it(tmp_path: Path) -> None:
    tree = revised()
    tree.save(tmp_path / "tree.json")
    for read in (Taxonomy.from_file, load_taxonomy):
        found = read(tmp_path / "tree.json")
        assert (found.release, found.history) == (tree.release, tree.history)
    assert Taxonomy.from_dict(tree.to_dict()).history == tree.history
    assert pickle.loads(pickle.dumps(tree)).history == tree.history
    dag = TaxonomyDAG.from_tree(tree).with_release("7")
    dag.save(tmp_path / "dag.json")
    assert TaxonomyDAG.from_file(tmp_path / "dag.json").release == "7"
    tree.save(tmp_path / "tree.csv")
    assert Taxonomy.from_file(tmp_path / "tree.csv").release is None


def test_it_does_not_matter_for_comparisons() -> None:
    tree = revised()
    assert tree == NEW
    assert hash(tree) == hash(NEW)
    assert tree.digest == NEW.digest


def test_files_without_it_stay_as_they_are() -> None:
    document = OLD.to_dict()
    assert list(document) == ["format", "version", "names", "parents"]
    assert document["version"] == 1
    assert revised().to_dict()["version"] == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"release": 2024}, "release is 2024, expected text"),
        ({"release": ""}, "the release has an empty name"),
        ({"history": {}}, "'history' is not a list"),
        ({"history": [1]}, "'history' is not a list"),
        ({"history": [{"release": "a"}]}, "lacks digest or changes"),
        ({"history": [{"digest": "a", "changes": {"add": "b"}}]}, "does not count changes"),
        ({"history": [{"digest": "a", "date": "yesterday"}]}, "has the date 'yesterday'"),
        ({"history": [{"digest": "a", "date": 5}]}, "has the date 5"),
    ],
)
def test_damaged_files(tmp_path: Path, damage: dict[str, object], message: str) -> None:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(OLD.to_dict() | damage))
    with pytest.raises(TaxonomyError, match=message) as error:
        Taxonomy.from_file(path)
    assert str(path) in str(error.value)


def test_mappings_say_their_releases(tmp_path: Path) -> None:
    mapping = TaxonomyMapping.between(OLD.with_release("2023 b"), NEW.with_release("no"))[0]
    mapping.save(tmp_path / "changes.yaml")
    assert TaxonomyMapping.load(tmp_path / "changes.yaml", old=OLD).new.release == "no"
    assert TaxonomyMapping.load(tmp_path / "changes.yaml", new=NEW).old.release == "2023 b"
    assert Revision("1", "d") != Revision("2", "d")
    assert len({Revision("1", "d"), Revision("1", "d")}) == 1
