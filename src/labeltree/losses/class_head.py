"""What stands before the linear layer of a classifier on embeddings or features."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["ClassHead", "HeadForm"]

HeadForm = Literal["linear", "reference"]

_LARGEST = 2.0**40  # the square of what is far larger is beyond float32


class ClassHead(nn.Module):
    """Nothing, or ReLU and batch normalisation, as the published code of Barz & Denzler 2019 has it.

    Args:
        width: of the vectors.
        form: `"linear"`: vectors pass as they are. `"reference"`: ReLU, then batch normalisation; a batch of
            fewer than two rows has no statistics of its own and is normalised by the running ones. These take
            in nothing that is not finite.
    """

    def __init__(self, width: int, form: HeadForm = "linear") -> None:
        super().__init__()
        if form not in get_args(HeadForm):
            raise ValueError(f"head must be 'linear' or 'reference'; got {form!r}")
        if not (isinstance(width, int) and width > 0):
            raise ValueError(f"the width of the vectors must be a whole number above 0; got {width!r}")
        self.width = width
        self.form = form
        self.norm = nn.BatchNorm1d(width) if form == "reference" else None

    def extra_repr(self) -> str:
        """What tells two heads apart when printed."""
        return f"form={self.form}"

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors `(n, width)` of vectors `(n, width)`, widened to float32 at least."""
        if not isinstance(vectors, Tensor):
            got = type(vectors).__name__
            raise ValueError(f"expected a floating-point tensor of shape (n, {self.width}); got {got}")
        if vectors.dim() != 2 or vectors.shape[1] != self.width or not vectors.is_floating_point():
            dtype = str(vectors.dtype).removeprefix("torch.")
            raise ValueError(
                f"expected a floating-point tensor of shape (n, {self.width}); "
                f"got {dtype} of shape {tuple(vectors.shape)}"
            )
        vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        if self.norm is None:
            return vectors
        vectors = vectors.relu()
        if not self.norm.training:
            normalised: Tensor = self.norm(vectors)
            return normalised
        if len(vectors) > 1:
            return _normalise(self.norm, vectors)
        return functional.batch_norm(
            vectors,
            self.norm.running_mean,
            self.norm.running_var,
            self.norm.weight,
            self.norm.bias,
            eps=self.norm.eps,
        )


def _normalise(norm: nn.BatchNorm1d, vectors: Tensor) -> Tensor:
    """Call `norm` in training, with columns that are too large for their squares divided by a power of 2."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    with torch.no_grad():
        largest = vectors.abs().amax(0)
        scale = torch.where(largest > _LARGEST, torch.exp2((largest / _LARGEST).log2().ceil()), 1.0)
        mean, variance = norm.running_mean / scale, norm.running_var / scale / scale
    normalised = functional.batch_norm(
        vectors / scale, mean, variance, norm.weight, norm.bias, True, norm.momentum or 0.0, norm.eps
    )
    with torch.no_grad():
        mean, variance = mean * scale, variance * scale * scale
        finite = mean.isfinite() & variance.isfinite()
        norm.running_mean.copy_(torch.where(finite, mean, norm.running_mean))
        norm.running_var.copy_(torch.where(finite, variance, norm.running_var))
        norm.num_batches_tracked += 1
    return normalised
