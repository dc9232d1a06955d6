"""Projection heads: from features to the vectors that a geometry embeds."""

from torch import Tensor, nn

from labeltree.checks import check_choice

__all__ = ["ProjectionHead"]


class ProjectionHead(nn.Module):
    """A multi-layer perceptron from features (b, in_dim) to vectors (b, out_dim), not normalised.

    Two layers with batch normalisation and ReLU between them are the head of Climbing the Label Tree; one
    layer is a linear map. The geometry's `embed` maps the vectors to the space (sphere, ball).

    Args:
        in_dim: Length of a feature vector.
        out_dim: Length of an output vector.
        hidden_dim: Width between the layers; default `in_dim`.
        num_layers: Number of linear layers, at least 1.
        norm: "batch": batch normalisation after every layer but the last; "none": no normalisation.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int = 128,
        hidden_dim: int | None = None,
        num_layers: int = 2,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        check_choice("norm", norm, ("batch", "none"))
        hidden_dim = in_dim if hidden_dim is None else hidden_dim
        sizes = {"in_dim": in_dim, "out_dim": out_dim, "hidden_dim": hidden_dim, "num_layers": num_layers}
        for name, value in sizes.items():
            if value < 1:
                raise ValueError(f"{name} is {value}; expected at least 1")
        self.in_dim = in_dim
        self.out_dim = out_dim
        layers: list[nn.Module] = []
        width = in_dim
        for _ in range(num_layers - 1):
            layers.append(nn.Linear(width, hidden_dim, bias=norm == "none"))
            if norm == "batch":
                layers.append(nn.BatchNorm1d(hidden_dim))
            layers.append(nn.ReLU(inplace=True))
            width = hidden_dim
        layers.append(nn.Linear(width, out_dim))
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Vectors (b, out_dim) of features (b, in_dim)."""
        vectors: Tensor = self.layers(features)
        return vectors
