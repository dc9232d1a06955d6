"""What stands before the linear layer of a classifier on embeddings or features."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["ClassHead", "HeadForm"]

HeadForm = Literal["linear", "reference"]


class ClassHead(nn.Module):
    """Nothing, or ReLU and batch normalisation, as the published code of Barz & Denzler 2019 has it.

    Args:
        width: of the vectors.
        form: `"linear"`: vectors pass as they are. `"reference"`: ReLU, then batch normalisation; a batch of
            fewer than two rows has no statistics of its own and is normalised by the running ones.
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
        if len(vectors) > 1 or not self.norm.training:
            normalised: Tensor = self.norm(vectors)
            return normalised
        return functional.batch_norm(
            vectors,
            self.norm.running_mean,
            self.norm.running_var,
            self.norm.weight,
            self.norm.bias,
            eps=self.norm.eps,
        )
