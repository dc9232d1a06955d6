"""Embedding a named data set that lies elsewhere than in the cache."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.cli.main import main
from labeltree.data import Source, open_source, register_dataset
from labeltree.data import named_data as registry
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One data set of two names, as a data set and its query images are, and a stranger."""
    registry.list_datasets()  # ours are registered when they are first asked for
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def opener(*, path: Path, image_size: int | None = None, channels: int | None = None) -> Source:
        return open_source(path, image_size=image_size, channels=channels)

    for name, home in (("shop", "shop"), ("shop-query", "shop"), ("other", "")):
        register_dataset(name, summary="", licence="", home=home)(opener)


@pytest.mark.usefixtures("parts")
def test_the_folder_of_the_data(
    tmp_path: Path,
    image_folder: Path,
    recipe_of: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    recipe = recipe_of(data="shop", data_path=image_folder, epochs=1)
    run = train(recipe, tmp_path / "runs", progress_bar=False)
    experiment = load_run(run.path)
    n = len(experiment.source)
    assert len(open_other(experiment, "shop-query")) == n  # where the run's lie
    with pytest.raises(DataError, match="cache/other' is neither a folder"):
        open_other(experiment, "other")
    assert len(open_other(experiment, "other", data_path=str(image_folder))) == n
    with pytest.raises(DataError, match="data_path says where a named data set lies"):
        open_other(experiment, str(image_folder), data_path=str(image_folder))
    out = tmp_path / "table.npz"
    command = ["embed", str(run.path), "--data_path", str(image_folder), "--out", str(out)]
    assert main([*command, "--data", "other"]) == 0
    assert f"{n} samples" in capsys.readouterr().out
    assert main(command) != 0
    assert "--data-path says where the data set of --data lies" in capsys.readouterr().err
