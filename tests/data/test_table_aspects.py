"""Tables with several labels a sample: a taxonomy per column, and ratings where they are numbers."""

import pandas as pd
import pytest
import torch

from labeltree.data import make_splits, open_source
from labeltree.errors import DataError, TaxonomyError


@pytest.fixture
def table(tmp_path, write_image):
    def write(suffix=".csv", **columns):
        for seed in range(4):
            write_image(tmp_path / f"{seed}.png", seed)
        frame = pd.DataFrame({"image": [f"{seed}.png" for seed in range(4)], "label": list("abab")} | columns)
        path = tmp_path / f"hotels{suffix}"
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
        return path

    return write


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_taxonomy_per_column(table, suffix):
    path = table(
        suffix,
        service=[4, 5, None, 1],
        rooms=["positive/4", "positive", "negative/2", None],
        region=["eu/fr", "eu/de", "us", "eu/fr"],
    )
    source = open_source(path, aspect_columns=["service", "rooms", "region"])
    assert source.taxonomy.decode(source.nodes) == list("abab")
    assert [
        tree.decode(source.aspects[:, a].tolist()) for a, tree in enumerate(source.aspect_taxonomies)
    ] == [
        ["4", "5", None, "1"] if suffix == ".parquet" else ["4.0", "5.0", None, "1.0"],
        ["positive/4", "positive", "negative/2", None],
        ["eu/fr", "eu/de", "us", "eu/fr"],
    ]
    assert source.ratings.tolist() == [[4, 4, -1], [5, -1, -1], [-1, 2, -1], [1, -1, -1]]
    assert source.aspects.dtype == source.ratings.dtype == torch.int64
    split = make_splits(source, val=0.25, test=0.25)
    parts = [split.of_split(name) for name in ("train", "val", "test")]
    joined = torch.cat([part.aspects for part in parts])
    order = torch.cat([part.instances for part in parts])
    assert torch.equal(joined, source.aspects[order])


def test_names_are_no_ratings(table):
    path = table(taste=["good", "bad", "good", "3"], code=["-1", "2", "3", "4"])
    source = open_source(path, aspect_columns=["taste", "code"])
    assert source.ratings is None
    assert len(source.aspect_taxonomies) == 2


def test_one_column_and_none(table):
    path = table(taste=[3, 2, 3, 1])
    one = open_source(path, aspect_columns="taste")
    assert one.aspects.shape == (4, 1)
    assert one.ratings.tolist() == [[3], [2], [3], [1]]
    for columns in (None, []):
        plain = open_source(path, aspect_columns=columns)
        assert (plain.aspect_taxonomies, plain.aspects, plain.ratings) == ((), None, None)


def test_what_can_be_wrong(table):
    path = table(taste=[None] * 4, smell=["a//b", "a", "a", "a"])
    with pytest.raises(DataError, match=r"no column 'tast'; did you mean 'taste'\?"):
        open_source(path, aspect_columns=["tast"])
    with pytest.raises(DataError, match="has no labels: every taste is empty"):
        open_source(path, aspect_columns=["taste"])
    with pytest.raises(TaxonomyError, match=r"hotels\.csv', smell: "):
        open_source(path, aspect_columns=["smell"])
