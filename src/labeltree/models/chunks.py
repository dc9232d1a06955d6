"""Features of a batch whose activations do not fit in memory: it is encoded in chunks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from labeltree.models.encoder import BATCH_NORMS
from labeltree.models.paired import ImagesAndTexts

__all__ = ["encode_in_chunks", "normalises_by_batch"]


def encode_in_chunks(
    encoder: nn.Module, samples: Tensor | ImagesAndTexts, chunk: int | None = None
) -> Tensor:
    """Features `(n, f)` of samples `(n, …)`, encoded at most `chunk` at a time.

    The forward pass keeps only the features. The backward pass recomputes the activations chunk by chunk,
    with the same random numbers, so that only the activations of one chunk are in memory at a time: the
    gradient caching of Gao et al. 2021 ("Scaling Deep Contrastive Learning Batch Size under Memory Limited
    Setup", section 3.2) by the checkpoints of Chen et al. 2016. It takes one more forward pass.

    Value and gradient are those of the encoder called chunk by chunk. If it treats every sample
    independently, these are the same as for the whole batch. Batch normalisation does not: it normalises each
    chunk by the statistics of that chunk. Buffers, such as its running statistics, are updated once per
    chunk, in the forward pass; the recomputation starts from the same buffers and updates copies.

    Args:
        encoder: Module that maps samples to features.
        samples: Images, tokens or both.
        chunk: 1 or more; None = all at once, without recomputation. The chunks have nearly equal sizes.

    Raises:
        ValueError: If `chunk` is below 1.

    Example:
        >>> encoder, samples = nn.Linear(3, 2), torch.randn(10, 3)
        >>> features = encode_in_chunks(encoder, samples, chunk=4)
        >>> torch.allclose(features, encoder(samples))
        True
    """
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be 1 or more, or None for the whole batch at once")
    if chunk is None or len(samples) <= chunk:
        whole: Tensor = encoder(samples)
        return whole
    chunks = samples.tensor_split(math.ceil(len(samples) / chunk))
    if not (torch.is_grad_enabled() and any(p.requires_grad for p in encoder.parameters())):
        return torch.cat([encoder(some) for some in chunks])
    return torch.cat([checkpoint(_TwiceAlike(encoder), some, use_reentrant=False) for some in chunks])


def normalises_by_batch(encoder: nn.Module) -> bool:
    """Whether a part of the encoder that is in training mode normalises by the statistics of its batch."""
    return any(isinstance(module, BATCH_NORMS) and module.training for module in encoder.modules())


class _TwiceAlike:
    """Calls an encoder; further calls start from the buffers of the first call, and update copies."""

    def __init__(self, encoder: nn.Module) -> None:
        self._encoder = encoder
        self._buffers = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
        self._called = False

    def __call__(self, samples: Tensor | ImagesAndTexts) -> Tensor:
        if not self._called:
            self._called = True
            # Else all chunks would share one copy of the weights in half precision, and add their gradients
            # up in it, with an error that grows with the number of chunks.
            torch.clear_autocast_cache()
            features: Tensor = self._encoder(samples)
            return features
        buffers = {name: buffer.clone() for name, buffer in self._buffers.items()}
        again: Tensor = functional_call(self._encoder, buffers, (samples,))
        return again
