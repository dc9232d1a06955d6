"""The momentum encoder: a slow copy of encoder and head that makes keys (MoCo)."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, distributed, nn

from labeltree.models.chunks import encode_in_chunks
from labeltree.models.paired import ImagesAndTexts
from labeltree.pairs import gather_rows, num_ranks, sum_over_ranks

__all__ = ["MomentumEncoder"]


class MomentumEncoder(nn.Module):
    """A copy of an encoder and a head that follows them slowly and without gradient (He et al. 2020).

        θ_key ← m·θ_key + (1 − m)·θ_query

    Only parameters are averaged: the copy's batch normalisation keeps its own statistics. On several ranks,
    images are shuffled across the ranks first, so that a batch's statistics do not tell which keys and
    queries came from one rank, and the keys are brought back in order.

    Args:
        encoder: Module that maps images to features.
        head: Module that maps features to vectors; None: the features are the keys.

    Example:
        >>> query = nn.Linear(2, 2, bias=False)
        >>> momentum = MomentumEncoder(query, nn.Identity())
        >>> with torch.no_grad():
        ...     before, _ = query.weight.clone(), query.weight.add_(1.0)
        >>> momentum.update(query, nn.Identity(), momentum=0.9)
        >>> torch.allclose(momentum.encoder.weight, before + 0.1)
        True
    """

    def __init__(self, encoder: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.head = nn.Identity() if head is None else copy.deepcopy(head)
        self.requires_grad_(False)

    @torch.no_grad()
    def update(self, encoder: nn.Module, head: nn.Module | None = None, momentum: float = 0.99) -> None:
        """Move the parameters towards those of `encoder` and `head`; to be called before the step's forward.

        Args:
            encoder: The encoder that is trained.
            head: The head that is trained.
            momentum: m, from 0 (a copy) to 1 (no change). MaskCon's published code has 0.99, MoCo 0.999.

        Raises:
            ValueError: m is out of range, or the modules and the copies have different parameters.
        """
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must lie between 0 and 1; got {momentum}")
        pairs = [(self.encoder, encoder), (self.head, nn.Identity() if head is None else head)]
        own = [(name, p) for mine, _ in pairs for name, p in mine.named_parameters()]
        leading = [(name, p) for _, theirs in pairs for name, p in theirs.named_parameters()]
        if [(name, p.shape) for name, p in own] != [(name, p.shape) for name, p in leading]:
            raise ValueError(
                "encoder and head must have the parameters of those that the momentum encoder was made from; "
                "make a new MomentumEncoder for another model"
            )
        for (_, mine), (_, theirs) in zip(own, leading, strict=True):
            mine.lerp_(theirs.detach().to(mine), 1 - momentum)

    @torch.no_grad()
    def forward(self, images: Tensor | ImagesAndTexts, *, seed: int = 0, chunk: int | None = None) -> Tensor:
        """Vectors `(b, d)` of this rank's images `(b, …)`, the output of the head.

        All ranks must call it together, with as many images as they have.

        Args:
            images: The images of this rank; or tokens `(b, t)`, filled up with −1; ranks may differ in t.
            seed: Seed of the shuffle across ranks: the same on every rank, different at every step. On one
                rank nothing is shuffled.
            chunk: Number of images encoded at a time, see `encode_in_chunks`; None = all.
        """
        if num_ranks() == 1:
            return self._vectors(images, chunk)
        if isinstance(images, ImagesAndTexts):
            raise ValueError("a momentum encoder of images and texts runs on one device only")
        rank = distributed.get_rank()
        everything = gather_rows(_pad_to_widest(images))
        first = int(gather_rows(torch.tensor([len(images)], device=images.device))[:rank].sum())
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(everything))).to(images.device)
        vectors = gather_rows(self._vectors(everything[order.tensor_split(num_ranks())[rank]], chunk))
        self._share_buffers()
        return vectors[order.argsort()[first : first + len(images)]]

    def _vectors(self, images: Tensor | ImagesAndTexts, chunk: int | None) -> Tensor:
        vectors: Tensor = self.head(encode_in_chunks(self.encoder, images, chunk))
        return vectors

    def _share_buffers(self) -> None:
        """Average running statistics over ranks, so that all ranks have the same module."""
        running = [b for b in self.buffers() if b.is_floating_point()] if self.training else []
        if running:
            mean = sum_over_ranks(torch.cat([b.flatten().float() for b in running])) / num_ranks()
            parts = mean.split_with_sizes([b.numel() for b in running])
            for buffer, part in zip(running, parts, strict=True):
                buffer.copy_(part.view_as(buffer))


def _pad_to_widest(tokens: Tensor) -> Tensor:
    """Tokens (b, t) filled up with −1 to the longest text of all ranks; anything else as it is."""
    if tokens.dim() != 2 or tokens.is_floating_point():
        return tokens
    widths = gather_rows(torch.tensor([tokens.shape[1]], device=tokens.device))
    return nn.functional.pad(tokens, (0, int(widths.max()) - tokens.shape[1]), value=-1)
