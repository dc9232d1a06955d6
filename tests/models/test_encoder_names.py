"""What the name of an encoder says, before any library is imported."""

import sys
from pathlib import Path

import pytest

from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.models import (
    build_encoder,
    check_encoder,
    encoder_modality,
    encoder_summaries,
    encoder_with_absolute_path,
    list_encoders,
    usual_images,
    usually_pretrained,
)


@pytest.mark.parametrize(
    ("name", "modality", "pretrained"),
    [
        ("small-conv", "image", False),
        ("timm:resnet18", "image", False),
        ("timm:./resnet18", "image", True),
        ("timm:local-dir:resnet18", "image", True),
        ("torchvision:resnet18", "image", False),
        ("transformers:dino", "image", True),
        ("open_clip:clip", "image", True),
        ("open_clip:ViT-B-32@clip.pt", "image", True),
        ("text:model", "text", True),
    ],
)
def test_what_a_name_says(name: str, modality: str, pretrained: bool) -> None:
    assert encoder_modality(name) == modality
    assert usually_pretrained(name) is pretrained
    if modality == "text" or name.startswith("small"):
        assert usual_images(name) is None


def test_paths_become_absolute_where_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my @ model").mkdir()
    (tmp_path / "clip.pt").touch()
    for prefix in ("transformers:", "open_clip:", "text:", "timm:./"):
        library = prefix.removesuffix("./")
        assert encoder_with_absolute_path(f"{prefix}my @ model") == f"{library}{tmp_path / 'my @ model'}"
    given = encoder_with_absolute_path("open_clip:ViT-B-32@clip.pt")
    assert given == f"open_clip:ViT-B-32@{tmp_path / 'clip.pt'}"
    for name in ("small-conv", "timm:resnet18", "text:all-MiniLM-L6-v2", "open_clip:x@y", "transformers:"):
        assert encoder_with_absolute_path(name) == name


@pytest.mark.slow
def test_folders_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("timm"), pytest.importorskip("open_clip"), pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    for name in (
        "transformers:nowhere",
        "transformers:",
        "open_clip:nowhere",
        "open_clip:",
        "timm:./nowhere",
    ):
        with pytest.raises(DataError, match=r"there is no folder"):
            check_encoder(name)
    (tmp_path / "resnet").mkdir()
    with pytest.raises(ValueError, match=r"a folder is written with its path: 'timm:\./resnet'"):
        build_encoder("timm:resnet")


def test_the_list_tells_how_checkpoints_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list-encoders"]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == list(encoder_summaries())
    assert lines[: len(list_encoders())] == list_encoders()
    assert {"hf:OWNER/NAME", "transformers:FOLDER", "open_clip:FOLDER", "timm:./FOLDER", "text:NAME"} <= set(
        lines
    )


def test_names_import_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("timm", "transformers", "open_clip", "peft"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("transformers:x", "open_clip:x@y", "timm:./x", "text:x"):
        assert usually_pretrained(name)
        assert encoder_with_absolute_path(name) == name
