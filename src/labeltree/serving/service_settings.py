"""Limits and timing of a service."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["ServiceSettings"]


@dataclass(frozen=True)
class ServiceSettings:
    """How a service batches, and what it refuses.

    Attributes:
        max_batch: Most samples that the network reads at once.
        max_wait: Milliseconds that a sample waits for others while the network is idle.
        max_waiting: Most samples that are decoded or wait for the network; further requests
            are refused (503).
        timeout: Seconds from the first byte of a request's body to its answer; also for the head of a
            request before it, and for the client to read the reply.
        max_upload: Most bytes of a request's body.
        max_pixels: Most pixels of an image, before it is resized; of a JPEG, once it is reduced while it is
            decoded.
        max_decoding: Most bytes of memory that decoding takes, of all requests together; an image
            that takes more is refused, others wait for their turn.
        max_samples: Most images or texts of a request.
        max_text: Most characters of a text.
        max_connections: Most open connections; the next ones are refused (503), and closed from an eighth
            more on.

    Raises:
        ValueError: If a value is not positive; `max_wait` may be 0.
    """

    max_batch: int = 32
    max_wait: float = 5.0
    max_waiting: int = 256
    timeout: float = 30.0
    max_upload: int = 32_000_000
    max_pixels: int = 50_000_000
    max_decoding: int = 3_000_000_000
    max_samples: int = 64
    max_text: int = 20_000
    max_connections: int = 512

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "max_wait" else 1
            small = value < least if field.name != "timeout" else value <= 0
            if not math.isfinite(value) or small:
                wanted = "more than 0" if field.name == "timeout" else f"at least {least}"
                raise ValueError(f"{field.name} is {value}; expected {wanted}")
        if self.max_samples > self.max_waiting:
            raise ValueError(
                f"max_samples is {self.max_samples}, more than max_waiting, {self.max_waiting}: no request "
                "of so many samples would ever be taken; raise max_waiting"
            )

    @property
    def max_held(self) -> int:
        """Most bytes of all bodies that are held at once."""
        return 8 * self.max_upload
