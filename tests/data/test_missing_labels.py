"""Classes that stand for missing labels, in every kind of data."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.data import ArrayStore, Source, from_dataset, open_source, with_missing_labels
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

ROWS = """text,depth1,depth2
barks,mammal,dog
purrs,mammal,Unknown
swims,fish,trout
hides,UNKNOWN,
lurks,n/a,shark
"""
WANTED = ["mammal/dog", "mammal", "fish/trout", None, None]


def labels(source: Source) -> list[str | None]:
    return source.taxonomy.decode(source.nodes)


def test_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text(ROWS)
    source = open_source(tmp_path / "notes.csv", missing_labels=["unknown", "N/A"])
    assert labels(source) == WANTED
    assert source.taxonomy.num_nodes == 5
    assert dict(source.missing_labels) == {"unknown": 2, "N/A": 1}
    kept = open_source(tmp_path / "notes.csv")  # nothing is dropped without being asked for
    assert kept.taxonomy.num_nodes == 9
    assert not kept.missing_labels


def test_of_a_table_in_a_given_taxonomy(tmp_path: Path) -> None:
    """Which need not have them; one that has them loses them."""
    (tmp_path / "notes.csv").write_text(
        "text,label\nbarks,dog\npurrs,unknown\nswims,mammal/unknown\nlurks,n/a\n"
    )
    without = Taxonomy.from_paths(["mammal/dog", "fish/trout"])
    having = Taxonomy.from_paths(["mammal/dog", "mammal/unknown", "fish/trout"])
    for taxonomy in (without, having):
        source = open_source(tmp_path / "notes.csv", taxonomy=taxonomy, missing_labels=["unknown", "n/a"])
        assert labels(source) == ["mammal/dog", None, "mammal", None]
        assert source.taxonomy == without


def test_of_paths_and_aspects_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("text,label,stars\na,x/unknown,4\nb,x/y,unknown\nc,N/A,3\nd,z,4\n")
    source = open_source(tmp_path / "notes.csv", missing_labels=["unknown"], aspect_columns="stars")
    assert labels(source) == ["x", "x/y", "N\\/A", "z"]  # one name, not a path
    assert source.ratings is not None
    assert source.ratings[:, 0].tolist() == [4, -1, 3, 4]
    assert source.aspects is not None
    assert source.aspects[:, 0].tolist()[1] == -1


def test_of_a_folder(tmp_path: Path, write_image) -> None:  # type: ignore[no-untyped-def]
    for number, folder in enumerate(["mammal/dog", "mammal/unknown", "fish/trout", "Unknown", "unknown/big"]):
        write_image(tmp_path / "photos" / folder / "0.png", seed=number)
    source = open_source(tmp_path / "photos", missing_labels="unknown")
    by_file = dict(zip([Path(p).parent.name for p in source.paths(range(5))], labels(source), strict=True))
    assert by_file == {
        "Unknown": None,
        "trout": "fish/trout",
        "dog": "mammal/dog",
        "unknown": "mammal",
        "big": None,
    }
    assert dict(source.missing_labels) == {"unknown": 3}
    assert source.taxonomy.num_nodes == 5
    with pytest.raises(DataError, match="no class is left"):
        open_source(tmp_path / "photos" / "mammal", missing_labels=["dog", "unknown"])


def test_of_a_listing() -> None:
    tree = Taxonomy.from_paths(["mammal/dog", "mammal/unknown", "fish/trout", "?"])
    nodes = torch.tensor([2, 3, 5, 6, -1])
    rows = torch.arange(5)
    images = ArrayStore(np.zeros((5, 2, 2), np.uint8))
    listed = Source(
        "listed", tree, nodes, rows, images, rows, aspect_taxonomies=(tree,), aspects=nodes[:, None]
    )
    source = with_missing_labels(listed, ["UNKNOWN", "?"])
    assert labels(source) == ["mammal/dog", "mammal", "fish/trout", None, None]
    assert source.aspects is not None
    assert source.aspects[:, 0].tolist() == source.nodes.tolist()
    assert source.aspect_taxonomies[0] == source.taxonomy
    assert dict(source.missing_labels) == {"UNKNOWN": 1, "?": 1}


def test_of_another_library() -> None:
    class Items:
        column_names = ("text", "label")

        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> dict[str, str]:
            return {"text": f"t{i}", "label": ["a", "", " ", "Unknown"][i]}

    assert labels(from_dataset(Items(), text="text", labels="label")) == ["a", None, None, "Unknown"]
    for taxonomy in (None, Taxonomy.from_paths(["a", "b"])):
        source = from_dataset(Items(), taxonomy, text="text", labels="label", missing_labels=["unknown"])
        assert labels(source) == ["a", None, None, None]
        assert dict(source.missing_labels) == {"unknown": 1}
