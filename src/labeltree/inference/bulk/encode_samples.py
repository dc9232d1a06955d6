"""Samples of a batch through the network: one that cannot be read has a reason, not an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.streaming import StreamedSample
from labeltree.errors import DataError
from labeltree.inference.bulk.part_rows import Encoded
from labeltree.training.network import Network

__all__ = ["BATCH", "SampleEncoder"]

BATCH = 256
"""Samples that the network reads at once, at most."""
_NOT_FINITE = "its embedding is not finite"


class SampleEncoder:
    """Reads and encodes samples; threads can share one.

    Args:
        network: Of the run.
    """

    def __init__(self, network: Network) -> None:
        self._network = network.eval()
        self._reads_text = network.modality == "text"
        self._read = StreamedSample.text if self._reads_text else self._pixels

    def contents(self, samples: Sequence[StreamedSample]) -> list[Any]:
        """The pixels or the text of each sample, or the `DataError` that says why there are none."""
        return [read_or_reason(self._read, sample) for sample in samples]

    def _pixels(self, sample: StreamedSample) -> np.ndarray[Any, Any]:
        assert self._network.image_shape is not None
        channels, size, _ = self._network.image_shape
        return sample.pixels(size, channels, self._network.preprocessing)

    def encode(
        self,
        names: Sequence[str | None],
        contents: Sequence[Any],
        labels: Sequence[tuple[str | None, int]],
    ) -> Encoded:
        """A batch after the network.

        Args:
            names: n names.
            contents: Of each, see `contents`; or vectors `(d,)` float32.
            labels: Text and node of each label.
        """
        problems = [str(content) if isinstance(content, DataError) else None for content in contents]
        good = [place for place, problem in enumerate(problems) if problem is None]
        features, embeddings = self._forward([contents[place] for place in good])
        finite = embeddings.isfinite().all(1) & features.isfinite().all(1)
        if not bool(finite.all()):
            for place in np.array(good)[~finite.numpy()].tolist():
                problems[place] = _NOT_FINITE
            features, embeddings = features[finite], embeddings[finite]
        texts, nodes = [text for text, _ in labels], [node for _, node in labels]
        return Encoded(list(names), problems, texts, nodes, features, embeddings)

    def _forward(self, contents: Sequence[Any]) -> tuple[Tensor, Tensor]:
        network = self._network
        if not contents:
            return torch.empty(0, network.encoder.feature_dim), torch.empty(0, network.objective.dim)
        with torch.inference_mode():
            inputs = network.tokens(contents) if self._reads_text else torch.from_numpy(np.stack(contents))
            features, embeddings = network(network.plain(inputs.to(network.device)))
        return features.cpu(), embeddings.cpu()


def read_or_reason(read: Callable[..., Any], *given: Any) -> Any:
    """What is read, or the error that says why it cannot be."""
    try:
        return read(*given)
    except DataError as error:
        return error
