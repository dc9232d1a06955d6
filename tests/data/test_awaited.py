"""Data sets that recipes name but that cannot be read yet."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labeltree.data import list_datasets, open_source
from labeltree.data.awaited import AWAITED, not_available
from labeltree.errors import DataError


@pytest.mark.parametrize("name", AWAITED)
def test_one_sentence_says_what_to_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"^data set '{name}' is not available here: [^\n]* instead") as error:
        open_source(name)
    assert "." not in str(error.value).replace(name, "")


def test_names_that_can_be_read_are_not_awaited() -> None:
    assert not set(list_datasets()) & set(AWAITED)
    assert not_available("fashion-mnist") is None
    assert not_available("photos") is None


def test_a_folder_of_that_name_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(AWAITED), "photos")
    for number, leaf in enumerate(("owls/barn owl", "ducks/mallard")):
        (tmp_path / name / leaf).mkdir(parents=True)
        image = Image.fromarray(np.full((8, 8, 3), number, np.uint8))
        image.save(tmp_path / name / leaf / "0.png")
    monkeypatch.chdir(tmp_path)
    assert len(open_source(name)) == 2
