"""The pages of the data sets say what the registry does: names, kinds, counts; every name is on its page."""

import inspect
import re
from pathlib import Path

import pytest

from labeltree.data import get_dataset, list_datasets

PAGES = Path(__file__).parents[2] / "docs" / "data"
ROW = re.compile(
    r"^\| \[`([^`]+)`\]\(([\w-]+\.md)\) \| (\w+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| (`get`|bring) \|$",
    re.MULTILINE,
)
ROWS = {name: cells for name, *cells in ROW.findall((PAGES / "index.md").read_text("utf-8"))}


def ours():
    entries = [get_dataset(name) for name in list_datasets()]
    return [e for e in entries if e.is_data and e.opener.__module__.startswith("labeltree.")]


def test_every_data_set_has_a_row_and_is_on_its_page():
    assert set(ROWS) == {entry.name for entry in ours()}
    for name, (page, *_) in ROWS.items():
        text = (PAGES / page).read_text("utf-8")
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), f"{page} does not name {name}"


@pytest.mark.parametrize("entry", ours(), ids=lambda entry: entry.name)
def test_a_row_says_what_the_registry_says(entry):
    _, kind, samples, nodes, files = ROWS[entry.name]
    reads_images = {"image_size", "images"} & inspect.signature(entry.opener).parameters.keys()
    assert kind == ("images" if reads_images else "texts")
    assert files == ("`get`" if entry.fetch else "bring")
    if entry.published is not None:
        splits = entry.published.splits
        counts = [splits[split] for split in ("train", "val", "test", "all") if splits.get(split)]
        assert samples == " + ".join(f"{count:,}" for count in counts)
        classes = ["–" if count is None else f"{count:,}" for count in entry.published.classes]
        assert nodes == (", ".join(classes) or "as the hierarchy")
