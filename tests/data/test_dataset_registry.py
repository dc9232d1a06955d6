"""The registry of data sets."""

import pytest

from labeltree.cli.main import main
from labeltree.data import (
    check_layout,
    data_home,
    fetch,
    get_dataset,
    list_datasets,
    open_source,
    register_dataset,
)
from labeltree.data import named_data as registry
from labeltree.errors import DataError


@pytest.fixture(autouse=True)
def _own_entries(monkeypatch):
    list_datasets()  # ours are registered when they are first asked for
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


def test_ours_are_listed():
    assert "fashion-mnist" in list_datasets()
    assert list_datasets("fashion*") == ["fashion-mnist"]
    assert list_datasets("x*") == []
    entry = get_dataset("fashion-mnist")
    assert entry.licence.startswith("MIT")
    assert entry.summary
    assert entry.size


def test_unknown_names_get_a_hint():
    with pytest.raises(DataError, match="no data set 'fashionmnist'; did you mean fashion-mnist"):
        get_dataset("fashionmnist")


def test_others_can_add_theirs():
    opened = []

    @register_dataset("mine", summary="my images", licence="CC0")
    def open_mine(*, image_size=None, channels=None):
        opened.append((image_size, channels))

    assert "mine" in list_datasets()
    with pytest.raises(DataError, match="returned NoneType; it must return a Source"):
        open_source("mine", image_size=8, channels=1)
    assert opened == [(8, 1)]
    with pytest.raises(DataError, match="'mine' cannot be downloaded"):
        fetch("mine")
    with pytest.raises(DataError, match="'mine' brings its own taxonomy"):
        open_source("mine", taxonomy=open_source)
    register_dataset("mine", summary="again", licence="CC0")(open_mine)  # a module that is imported again
    with pytest.raises(ValueError, match="'mine' is already registered"):

        @register_dataset("mine", summary="another", licence="CC0")
        def open_other(*, image_size=None, channels=None):
            pass


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path))
    assert data_home() == tmp_path
    monkeypatch.delenv("LABELTREE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_home().name == "labeltree"


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["data", "check", "cub-200", str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert (
        f"problem: there is no folder '{tmp_path / 'none'}'. It should hold the list of images, from"
        in said.out
    )
    assert "1 problem(s) are listed above" in said.err
    (tmp_path / "file").touch()
    assert "there is no folder" in check_layout(get_dataset("cub-200"), tmp_path / "file").problems[0]
    with pytest.raises(DataError, match=r"It needs the list of images, from CUB_200_2011.tgz; the class of"):
        fetch("cub-200")
    assert main(["data", "check", "minilm"]) == 2
    said = capsys.readouterr().err
    assert "'minilm' is not a data set but an encoder's weights; use it with --encoder minilm" in said
    assert "'labeltree data get minilm' fetches it; there are no samples to check" in said
