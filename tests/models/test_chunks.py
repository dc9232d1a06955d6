"""Chunks of a batch: value, gradient, random numbers, buffers are those of the encoder, called by chunk."""

import copy
import doctest
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from labeltree.models import (
    AdaptedEncoder,
    MomentumEncoder,
    build_encoder,
    chunks,
    encode_in_chunks,
    normalises_by_batch,
    set_trainable,
)

pytestmark = pytest.mark.slow

IMAGES = torch.randn(11, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def convolutions(norm: nn.Module, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), norm, nn.ReLU(inplace=True), nn.Dropout(dropout),
        nn.Flatten(), nn.Linear(8 * 49, 6), nn.Dropout(dropout),
    ).double()  # fmt: skip


def loss_of(features: Tensor) -> Tensor:
    """Every sample meets every other, as in a pairwise loss."""
    unit = nn.functional.normalize(features, dim=1)
    return (unit @ unit.T / 0.1).logsumexp(1).mean()


def learned(encoder: nn.Module, samples: Tensor, chunk: int | None) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(5)
    features = encode_in_chunks(encoder, samples, chunk)
    encoder.zero_grad()
    loss_of(features).backward()
    return features.detach(), {name: p.grad.clone() for name, p in encoder.named_parameters()}


def assert_close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("chunk", [1, 2, 4, 10, 11, 50])
def test_samples_by_themselves_are_exact(chunk):
    encoder = convolutions(nn.GroupNorm(2, 8))
    assert_close(learned(encoder, IMAGES, chunk), learned(encoder, IMAGES, None))


def test_gradient_of_the_samples():
    encoder = convolutions(nn.GroupNorm(2, 8))
    grads = []
    for chunk in (None, 3):
        images = IMAGES.clone().requires_grad_()
        loss_of(encode_in_chunks(encoder, images, chunk)).backward()
        grads.append(images.grad)
    assert_close(*grads)


def test_texts_in_chunks():
    """A chunk is as wide as its longest text."""
    encoder = build_encoder("small-text").double().eval()
    tokens = torch.randint(0, 1000, (13, 9), generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([9, 1, 0, 3, 2, 2, 2, 0, 0, 5, 4, 1, 9])
    tokens[torch.arange(9) >= lengths[:, None]] = -1
    assert_close(learned(encoder, tokens, 3), learned(encoder, tokens, None))


def test_both_computations_draw_the_same_numbers():
    encoder = convolutions(nn.Identity(), dropout=0.5)
    masks: list[Tensor] = []
    encoder[3].register_forward_hook(lambda module, given, made: masks.append(made.detach() == 0))
    ours = learned(encoder, IMAGES, 4)
    after = torch.rand(())
    assert len(masks) == 6  # three chunks, each twice; the last is computed again first
    assert all(torch.equal(masks[i], masks[5 - i]) for i in range(3))
    assert not torch.equal(masks[0], masks[1])
    torch.manual_seed(5)
    features = torch.cat([encoder(some) for some in IMAGES.tensor_split(3)])
    encoder.zero_grad()
    loss_of(features).backward()
    assert_close(ours, (features.detach(), {name: p.grad for name, p in encoder.named_parameters()}))
    assert torch.equal(after, torch.rand(()))  # what is drawn later does not depend on it either


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(8), nn.BatchNorm2d(8, momentum=None), spectral_norm(nn.Conv2d(8, 8, 1))]
)
def test_buffers_move_once_a_chunk(norm):
    """Spectral normalisation's output depends on its buffers: both computations must find the same."""
    ours, theirs = (convolutions(copy.deepcopy(norm)) for _ in range(2))
    before = {name: buffer.clone() for name, buffer in ours.named_buffers()}
    addresses = [buffer.data_ptr() for buffer in ours.buffers()]
    found = learned(ours, IMAGES, 4)
    theirs_features = torch.cat([theirs(some) for some in IMAGES.tensor_split(3)])
    loss_of(theirs_features).backward()
    assert_close(found, (theirs_features.detach(), {n: p.grad for n, p in theirs.named_parameters()}))
    buffers = dict(ours.named_buffers())
    assert_close(buffers, dict(theirs.named_buffers()))
    assert any(not torch.equal(buffers[name], before[name]) for name in before)
    assert [buffer.data_ptr() for buffer in ours.buffers()] == addresses
    if isinstance(norm, nn.BatchNorm2d):
        assert int(ours[1].num_batches_tracked) == 3


def test_the_graph_can_be_walked_twice():
    encoder = convolutions(spectral_norm(nn.Conv2d(8, 8, 1)))
    loss = loss_of(encode_in_chunks(encoder, IMAGES, 4))
    weights = [p for p in encoder.parameters() if p.requires_grad]
    first = torch.autograd.grad(loss, weights, retain_graph=True)
    assert_close(first, torch.autograd.grad(loss, weights))


def test_only_one_chunk_has_activations():
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    class Watched(nn.Module):
        def forward(self, maps: Tensor) -> Tensor:
            nonlocal most
            made = maps.exp()  # keeps its result for the backward pass
            alive.append(weakref.ref(made))
            most = max(most, sum(ref() is not None for ref in alive))
            return made

    encoder = nn.Sequential(nn.Flatten(), nn.Linear(768, 4), Watched(), nn.Linear(4, 2)).double()
    learned(encoder, IMAGES, 2)
    assert len(alive) == 12
    assert most == 1
    alive.clear()
    torch.cat([encoder(some) for some in IMAGES.tensor_split(6)]).sum().backward()
    assert most == 6


def test_bf16_autocast_holds_in_the_second_computation():
    encoder = convolutions(nn.GroupNorm(2, 8)).float()
    found = []
    for chunk in (4, None):
        with torch.autocast("cpu", torch.bfloat16):
            features = encode_in_chunks(encoder, IMAGES.float(), chunk)
        assert features.dtype == torch.bfloat16
        encoder.zero_grad()
        loss_of(features.float()).backward()
        found.append((features.detach(), {name: p.grad.clone() for name, p in encoder.named_parameters()}))
    assert torch.equal(found[0][0], found[1][0])
    assert_close(found[0], found[1], tolerance=0.02)


def test_many_chunks_in_bf16_are_as_accurate_as_few():
    """Their gradients are summed up in float32."""
    encoder = convolutions(nn.GroupNorm(2, 8)).float()
    images = torch.randn(128, 3, 16, 16, generator=torch.Generator().manual_seed(3))

    def gradient(chunk: int | None, precise: bool) -> Tensor:
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=not precise):
            features = encode_in_chunks(encoder, images, chunk)
        loss_of(features.float()).backward()
        return torch.cat([p.grad.flatten() for p in encoder.parameters()])

    exact = gradient(None, precise=True)
    whole, few, many = ((gradient(chunk, precise=False) - exact).norm() for chunk in (None, 64, 1))
    assert 0 < many < 1.2 * min(whole, few)


def test_without_gradient_nothing_is_computed_twice():
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    encoder = build_encoder("small-conv", channels=3, image_size=16).double()
    encoder.register_forward_hook(count)
    with torch.no_grad():
        encode_in_chunks(encoder, IMAGES, 4)
    assert calls == 3
    set_trainable(encoder, "head")
    adapted = AdaptedEncoder(encoder, 5).double()
    features = adapted.adapt(encode_in_chunks(adapted.without_adapter, IMAGES, 4))
    features.sum().backward()
    assert calls == 6
    assert_close(features, adapted(IMAGES))  # frozen normalisation does not look at the batch


def test_keys_in_chunks():
    encoder = build_encoder("small-conv", channels=3, image_size=16).double().eval()
    momentum = MomentumEncoder(encoder).eval()
    seen: list[int] = []
    momentum.encoder.register_forward_hook(lambda module, given, made: seen.append(len(given[0])))
    assert_close(momentum(IMAGES, chunk=4), momentum(IMAGES))
    assert seen == [4, 4, 3, 11]


def test_who_normalises_by_batch():
    encoder = build_encoder("small-conv", channels=3, image_size=16).train()
    assert normalises_by_batch(encoder)
    set_trainable(encoder, "head")
    assert not normalises_by_batch(encoder.train())
    assert not normalises_by_batch(build_encoder("small-text").train())
    assert not normalises_by_batch(convolutions(nn.GroupNorm(2, 8)))


def test_a_chunk_of_nothing():
    with pytest.raises(ValueError, match="chunk is 0; it must be 1 or more"):
        encode_in_chunks(nn.Identity(), IMAGES, 0)


def test_example():
    assert doctest.testmod(chunks).failed == 0
