"""Weights on disk: exact round trips, safe reading, errors that name what does not fit."""

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from labeltree.models import AdaptedEncoder, build_encoder, load_weights, save_weights, set_trainable

pytestmark = pytest.mark.slow


def same_state(a, b):
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    encoder = build_encoder("small-conv", channels=1).to(memory_format=torch.channels_last)
    encoder(torch.randn(8, 1, 28, 28))  # batch statistics of its own
    return encoder.eval()


def test_round_trip_through_safetensors(encoder, tmp_path):
    save_weights(encoder, tmp_path / "encoder.safetensors")
    other = build_encoder("small-conv", channels=1, weights=tmp_path / "encoder.safetensors").eval()
    assert same_state(encoder, other)
    x = torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(other(x), encoder(x), rtol=1e-5, atol=1e-6)
    assert os.listdir(tmp_path) == ["encoder.safetensors"]


def test_a_frozen_encoder_saves_the_same_state(encoder, tmp_path):
    set_trainable(encoder, "head")
    save_weights(encoder, tmp_path / "encoder.safetensors")
    assert same_state(
        encoder, build_encoder("small-conv", channels=1, weights=tmp_path / "encoder.safetensors")
    )


@pytest.mark.parametrize("wrap", [dict, lambda s: {"state_dict": s, "epoch": 3}])
@pytest.mark.parametrize("prefix", ["", "module.", "encoder.", "module.encoder."])
def test_pytorch_files_and_prefixes(encoder, tmp_path, wrap, prefix):
    torch.save(wrap({prefix + k: v for k, v in encoder.state_dict().items()}), tmp_path / "weights.pt")
    assert same_state(encoder, build_encoder("small-conv", channels=1, weights=str(tmp_path / "weights.pt")))


@pytest.mark.parametrize("write", [save_file, torch.save], ids=["safetensors", "pytorch"])
def test_a_runs_file_gives_its_encoder(write, encoder, tmp_path):
    path = tmp_path / ("encoder.safetensors" if write is save_file else "last.ckpt")
    state = {f"encoder.{k}": v.contiguous() for k, v in encoder.state_dict().items()}
    state |= {"objective.head.layers.0.weight": torch.zeros(8, 96), "taxonomy": torch.zeros(3)}
    write(state, path)
    assert same_state(encoder, build_encoder("small-conv", channels=1, weights=path))


def test_an_encoder_whose_own_parts_have_that_prefix(tmp_path):
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.neck = nn.Linear(2, 2), nn.Linear(2, 2)

    one, other = Wrapper(), Wrapper()
    save_weights(one, tmp_path / "both.safetensors")
    load_weights(other, tmp_path / "both.safetensors")
    assert same_state(one, other)


@pytest.mark.parametrize("name", ["timm:resnet10t", "torchvision:resnet18"])
def test_a_librarys_own_file_with_its_classifier(name, tmp_path):
    encoder = build_encoder(name, channels=3)
    state = encoder.net.state_dict() | {"fc.weight": torch.zeros(10, 512), "fc.bias": torch.zeros(10)}
    torch.save(state, tmp_path / "weights.pth")
    assert same_state(encoder, build_encoder(name, channels=3, weights=tmp_path / "weights.pth"))


class Code:
    def __reduce__(self):
        return (os.system, ("false",))


def test_a_file_that_could_run_code_is_refused(tmp_path):
    torch.save({"weight": Code()}, tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="holds more than tensors and plain values, which could run code"):
        build_encoder("small-conv", weights=tmp_path / "weights.pt")


def test_what_does_not_fit_is_named(encoder, tmp_path):
    state = dict(encoder.state_dict())
    first = next(iter(state))
    del state[first]
    state["surplus"] = torch.zeros(1)
    torch.save(state, tmp_path / "weights.pt")
    with pytest.raises(ValueError, match=f"missing {first}; not part of it surplus"):
        load_weights(encoder, tmp_path / "weights.pt")
    save_weights(encoder, tmp_path / "gray.safetensors")
    with pytest.raises(ValueError, match=f"of another shape {first}"):
        build_encoder("small-conv", channels=3, weights=tmp_path / "gray.safetensors")


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt"])
def test_unreadable_files_are_named(tmp_path, name):
    with pytest.raises(ValueError, match=f"there is no '.*{name}' to be read as weights"):
        build_encoder("small-conv", weights=tmp_path / name)
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=name):
        build_encoder("small-conv", weights=tmp_path / name)


def test_a_file_without_a_state_dict_is_refused(tmp_path):
    torch.save([torch.zeros(2)], tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="it holds no state dict"):
        build_encoder("small-conv", weights=tmp_path / "weights.pt")


def test_a_failed_write_leaves_the_old_file(encoder, tmp_path, monkeypatch):
    path = tmp_path / "encoder.safetensors"
    save_weights(encoder, path)
    content = path.read_bytes()

    def fail(unfinished, content):
        with unfinished.open("wb") as file:
            file.write(content[:4])
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        save_weights(nn.Linear(2, 2), path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["encoder.safetensors"]


def test_the_encoder_below_an_adapter(tmp_path):
    """Of a run with an adapter, a new run takes the encoder; its adapter is its own."""
    trained = AdaptedEncoder(build_encoder("small-conv"), 5)
    file = tmp_path / "encoder.safetensors"
    state = {f"encoder.{name}": value for name, value in trained.state_dict().items()}
    save_file({**state, "objective.x": torch.ones(1)}, file)
    again = build_encoder("small-conv", weights=file)
    for name, value in trained.base.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    load_weights(whole := AdaptedEncoder(build_encoder("small-conv"), 5), file)
    assert torch.equal(whole.adapter[0].weight, trained.adapter[0].weight)
