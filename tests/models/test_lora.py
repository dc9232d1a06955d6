"""LoRA: only the updates are trained, nothing changes before, and merged weights give the same features."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from labeltree.models import Encoder, MomentumEncoder, add_lora, build_encoder, encode_in_chunks, merged_state
from tiny_checkpoints import OPEN_CLIP, SIZE, write_open_clip, write_timm, write_transformers
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

WRITERS: dict[str, Callable[[Path], object]] = {
    "transformers": write_transformers,
    "open_clip": write_open_clip,
    "timm": write_timm,
    "text": write_tiny_transformer,
}


@pytest.fixture(params=list(WRITERS))
def encoder(request: pytest.FixtureRequest, tmp_path: Path) -> Encoder:
    WRITERS[request.param](tmp_path / "model")
    return build_encoder(f"{request.param}:{tmp_path / 'model'}", image_size=SIZE)


def samples(encoder: Encoder, n: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    if encoder.modality == "text":
        return torch.randint(2, 9, (n, 5), generator=generator)
    return torch.rand(n, 3, SIZE, SIZE, generator=generator)


def features(encoder: Encoder) -> torch.Tensor:
    with torch.no_grad():
        return encoder.eval()(samples(encoder))


def trained(encoder: Encoder, steps: int = 2) -> None:
    optimizer = torch.optim.SGD([p for p in encoder.parameters() if p.requires_grad], lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        encoder.train()(samples(encoder)).square().mean().backward()
        optimizer.step()


def test_it_begins_as_the_encoder_and_changes_only_the_updates(encoder: Encoder) -> None:
    before, state = features(encoder), copy.deepcopy(encoder.state_dict())
    add_lora(encoder, rank=2)
    assert encoder.trainable == "lora"
    assert torch.equal(features(encoder), before)
    trained(encoder)
    after = encoder.state_dict()
    moved = {key for key, value in after.items() if ".lora_B." in key and value.any()}
    assert moved == {key for key in after if ".lora_B." in key}  # each update is part of the features
    assert all(torch.equal(after[_adapted(key, after)], value) for key, value in state.items())
    assert not torch.allclose(features(encoder), before)
    updates = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
    assert updates == sum(value.numel() for key, value in after.items() if ".lora_" in key)


def _adapted(key: str, state: dict[str, torch.Tensor]) -> str:
    module, _, name = key.rpartition(".")
    return key if key in state else f"{module}.base_layer.{name}"


def test_merged_weights_are_those_of_the_plain_encoder(encoder: Encoder) -> None:
    plain = copy.deepcopy(encoder)
    assert merged_state(encoder).keys() == plain.state_dict().keys()
    add_lora(encoder, rank=3, alpha=5)
    trained(encoder)
    unmerged = copy.deepcopy(encoder.state_dict())
    plain.load_state_dict(merged_state(encoder))
    torch.testing.assert_close(features(plain), features(encoder), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, unmerged[key]) for key, value in encoder.state_dict().items())


def test_targets_by_the_end_of_their_names(tmp_path: Path) -> None:
    write_transformers(tmp_path / "model")
    encoder = build_encoder(f"transformers:{tmp_path / 'model'}", image_size=SIZE)
    add_lora(encoder, targets=["q_proj", "v_proj"])
    layers = {key.split(".lora_")[0] for key, p in encoder.named_parameters() if p.requires_grad}
    assert layers == {f"net.layers.{i}.attention.{name}_proj" for i in (0, 1) for name in "qv"}


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    write_open_clip(tmp_path / "model")
    name = f"open_clip:{tmp_path / 'model'}"
    with pytest.raises(
        ValueError, match=r"lora\.targets has 'q_proj', but no layer .* its linear layers are"
    ):
        add_lora(build_encoder(name, image_size=SIZE), targets=["q_proj"])
    for target in ("attn", "out_proj"):
        with pytest.raises(ValueError, match=r"is of torch\.nn\.MultiheadAttention or the like"):
            add_lora(build_encoder(name, image_size=SIZE), targets=[target])
    with pytest.raises(ValueError, match=r"lora\.targets: .* cannot be adapted"):
        add_lora(build_encoder(name, image_size=SIZE), targets=["ln_pre"])
    with pytest.raises(ValueError, match="has no linear layers"):
        add_lora(build_encoder("small-conv"))
    resnet = OPEN_CLIP | {"vision_cfg": {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}}
    write_open_clip(tmp_path / "resnet", resnet)  # its attention pooling reads the weights of its layers
    with pytest.raises(ValueError, match="has no linear layers"):
        add_lora(build_encoder(f"open_clip:{tmp_path / 'resnet'}", image_size=32))


def test_convolutions_by_name_and_batch_statistics() -> None:
    encoder = build_encoder("timm:resnet10t", image_size=32)
    add_lora(encoder, rank=2, targets=["layer4.0.conv1"])
    before = {key: value.clone() for key, value in encoder.state_dict().items() if "running" in key}
    images = torch.rand(4, 3, 32, 32)
    encoder.train()(images).square().mean().backward()
    assert all(torch.equal(encoder.state_dict()[key], value) for key, value in before.items())
    plain = build_encoder("timm:resnet10t", image_size=32)
    plain.load_state_dict(merged_state(encoder))
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(images), encoder.eval()(images), rtol=1e-4, atol=1e-5)


def test_dropout_of_texts_stays_on(tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path / "model")
    encoder = build_encoder(f"text:{tmp_path / 'model'}")
    add_lora(encoder)
    encoder.eval().train()
    assert {m.training for m in encoder.modules() if isinstance(m, nn.Dropout)} == {True}
    assert not torch.equal(encoder(samples(encoder)), encoder(samples(encoder)))


def test_momentum_and_chunks(encoder: Encoder) -> None:
    add_lora(encoder, rank=2)
    momentum = MomentumEncoder(encoder)
    trained(encoder)
    momentum.update(encoder, momentum=0.0)
    momentum.eval()
    torch.testing.assert_close(momentum(samples(encoder)), features(encoder), rtol=1e-5, atol=1e-6)
    whole = _gradients(encoder, None)
    for key, value in _gradients(encoder, 2).items():
        torch.testing.assert_close(value, whole[key], rtol=1e-3, atol=1e-6)


def _gradients(encoder: Encoder, chunk: int | None) -> dict[str, torch.Tensor]:
    encoder.eval()
    encoder.zero_grad()
    encode_in_chunks(encoder, samples(encoder), chunk).square().sum().backward()
    return {key: p.grad.clone() for key, p in encoder.named_parameters() if p.grad is not None}


def test_without_peft_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    encoder = build_encoder("small-conv")
    with pytest.raises(
        ImportError, match=r"trainable 'lora' needs the library peft; .*labeltree\[encoders\]"
    ):
        add_lora(encoder)
    assert merged_state(encoder).keys() == encoder.state_dict().keys()
