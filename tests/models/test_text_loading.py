"""Loading text encoders: nothing that a folder brings is run, and every failure is one clear sentence."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labeltree.errors import DataError
from labeltree.models import build_encoder
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    return write_tiny_transformer(tmp_path / "model")


def test_weights_that_are_a_pickle_are_refused(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(folder / "kept.safetensors")
    with pytest.raises(DataError, match=r"cannot be loaded: .*model\.safetensors.* in safetensors$"):
        build_encoder(f"text:{folder}")
    (folder / "kept.safetensors").unlink()
    with pytest.raises(DataError, match=r"no file of safetensors in .* could run code when read: convert"):
        build_encoder(f"text:{folder}")


@pytest.mark.parametrize("place", ["config", "modules"])
def test_code_in_the_folder_is_not_run(folder: Path, place: str) -> None:
    mark = folder / "was-run"
    (folder / "harm.py").write_text(f"open({str(mark)!r}, 'w')\nclass Model: pass\n")
    if place == "config":
        config = json.loads((folder / "config.json").read_text())
        config |= {"model_type": "harm", "auto_map": {"AutoModel": "harm.Model", "AutoConfig": "harm.Model"}}
        (folder / "config.json").write_text(json.dumps(config))
    else:
        modules = [{"idx": 0, "name": "0", "path": "", "type": "harm.Model"}]
        (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DataError, match=r"cannot be loaded: .*code"):
        build_encoder(f"text:{folder}")
    assert not mark.exists()


def test_damaged_and_incomplete_folders(folder: Path, tmp_path: Path) -> None:
    def harmed(name: str) -> Path:
        return Path(shutil.copytree(folder, tmp_path / name))

    cut = harmed("cut")
    with (cut / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    without = harmed("without")
    for path in without.glob("tokenizer*"):
        path.unlink()
    bare = harmed("bare")
    (bare / "config.json").unlink()
    for path in (cut, without, bare):
        with pytest.raises(DataError, match=f"'text:{path}'"):
            build_encoder(f"text:{path}")


def test_names_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("name or service not known")

    monkeypatch.delenv("LABELTREE_OFFLINE", raising=False)
    monkeypatch.setattr("socket.getaddrinfo", fail)
    monkeypatch.setattr("socket.create_connection", fail)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with pytest.raises(DataError, match=r"'nobody/has-such-a-model' is not in the cache .*cannot be reached"):
        build_encoder("text:nobody/has-such-a-model")
    for name in (f"{tmp_path}/nothing", "a/b/c"):
        with pytest.raises(DataError, match=f"'text:{name}': there is no folder '{name}'; name the folder"):
            build_encoder(f"text:{name}")
    assert sum(waits) < 1  # the library alone would try again and again
    with pytest.raises(ValueError, match="the name or the folder of a model must follow"):
        build_encoder("text:")


def test_a_folder_needs_no_connection(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("nothing may be asked")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    monkeypatch.setattr("socket.socket.connect", fail)
    build_encoder(f"text:{folder}")


def test_fresh_weights_are_others_each_time(folder: Path) -> None:
    tokens = torch.tensor([[2, 4, 5, 3]])
    pretrained = [build_encoder(f"text:{folder}").eval()(tokens) for _ in range(2)]
    assert torch.equal(*pretrained)
    fresh = [build_encoder(f"text:{folder}", pretrained=False).eval()(tokens) for _ in range(2)]
    assert not torch.equal(*fresh)
    assert not torch.equal(fresh[0], pretrained[0])


def test_weights_in_half_precision_become_float32(folder: Path) -> None:
    import transformers

    transformers.BertModel.from_pretrained(folder).half().save_pretrained(folder)
    encoder = build_encoder(f"text:{folder}")
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # importing it fails
    with pytest.raises(ImportError, match=r"pip install 'labeltree\[text\]'"):
        build_encoder("text:any")


def test_libraries_do_not_report_their_loading(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    capfd.readouterr()
    build_encoder(f"text:{folder}")
    assert capfd.readouterr() == ("", "")  # the libraries report their loading; we do not
