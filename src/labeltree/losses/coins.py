"""CoIns: a classifier of the coarse labels beside instance discrimination."""

from __future__ import annotations

from torch import Tensor, nn

from labeltree.geometry import Geometry, as_geometry
from labeltree.losses.cross_entropy import CrossEntropyLoss
from labeltree.losses.queue_batch import StoredKeys
from labeltree.losses.queue_loss import ExcludeSelf, check_share
from labeltree.losses.selfcon import SelfConLoss
from labeltree.losses.settings import shown_settings
from labeltree.taxonomy import Taxonomy

__all__ = ["CoInsLoss"]


class CoInsLoss(nn.Module):
    """Cross entropy of the labels and SelfCon (Xu et al. 2021, as Eq. 10 of MaskCon has it).

        L = w·L_ce + (1 − w)·L_selfcon

    Args:
        taxonomy: the tree of the labels, at the depth that is known; its leaves are the classes.
        temperature: τ0 > 0, of SelfCon.
        w: share of the cross entropy, 0 (SelfCon) to 1 (cross entropy alone).
        exclude_self: of SelfCon; see `SelfConLoss`.
        geometry: of the embeddings; the sphere, which None is, is the only one.

    Call with `logits (b, C)` in the order of `classes`, `queries (b, d)`, `keys (b, d)`, `queue`, `nodes
    (b,)` and `instances (b,)`. The cross entropy is the mean over labelled rows, see `CrossEntropyLoss`;
    SelfCon that over all queries, see `QueueLoss`.

    Raises:
        ValueError: an argument of the wrong shape, type or range, or another geometry than the sphere.
    """

    schedulable = ("w",)

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        w: float = 0.5,
        *,
        exclude_self: ExcludeSelf = "drop",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__()
        self.w = check_share(w)
        self.exclude_self = exclude_self
        self.geometry = as_geometry(geometry)
        self.cross_entropy = CrossEntropyLoss(taxonomy)
        self.selfcon = SelfConLoss(temperature, exclude_self=exclude_self, geometry=geometry)

    def extra_repr(self) -> str:
        """What tells two losses apart when printed."""
        return shown_settings(self)

    @property
    def classes(self) -> Tensor:
        """`(C,)` int64, the node of each column of the logits."""
        return self.cross_entropy.classes

    @property
    def temperature(self) -> float:
        """τ0 of SelfCon."""
        return self.selfcon.temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.selfcon.temperature = value

    def predict(self, logits: Tensor) -> Tensor:
        """The node of the likeliest class of each row, `(n,)` int64."""
        return self.cross_entropy.predict(logits)

    def forward(
        self,
        logits: Tensor,
        queries: Tensor,
        keys: Tensor,
        queue: StoredKeys,
        nodes: Tensor,
        instances: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        of_classes = self.cross_entropy(logits, nodes)
        of_samples = self.selfcon(queries, keys, queue, nodes, instances)
        total: Tensor = self.w * of_classes + (1 - self.w) * of_samples
        return total
