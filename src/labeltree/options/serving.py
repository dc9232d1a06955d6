"""The options of `serve` and `explore`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from labeltree.options.schema import Option, Options, Place, RunPlace, argument

__all__ = ["ExploreOptions", "ServeOptions", "ServiceOptions"]

_LIMITS = "limits"
_SCALES = {"max_upload": 1e6, "max_pixels": 1e6, "max_decoding": 1e9}


@dataclass(frozen=True, kw_only=True)
class ServiceOptions(Options):
    """Where a service listens, what it computes with, and what it refuses."""

    host: Annotated[str, Option("address to listen on (default 127.0.0.1: this machine only)")] = "127.0.0.1"
    port: Annotated[int, Option("default 8000; 0: any that is free")] = 8000
    names: Annotated[
        Sequence[str],
        Option("names by which clients may reach it besides localhost", flag="--name", metavar="NAME"),
    ] = ()
    devices: Annotated[
        Sequence[str],
        Option(
            "of the model: cpu, or cuda:0 cuda:1 … (default: a GPU if there is one)",
            flag="--device",
            metavar="DEVICE",
        ),
    ] = ()
    threads: Annotated[int | None, Option("of the model on a CPU (default: all cores but one)")] = None
    timeout: Annotated[float, Option("seconds for a request", metavar="S", group=_LIMITS)] = 30.0
    max_upload: Annotated[float, Option("size of a request", metavar="MB", group=_LIMITS)] = 32.0
    max_pixels: Annotated[
        float,
        Option(
            "pixels of an image, before it is resized (of a JPEG, once it is reduced)",
            "In millions",
            metavar="MILLIONS",
            group=_LIMITS,
        ),
    ] = 50.0
    max_decoding: Annotated[
        float, Option("memory for decoding images, of all requests together", metavar="GB", group=_LIMITS)
    ] = 3.0
    max_text: Annotated[int, Option("characters of a text", metavar="N", group=_LIMITS)] = 20_000
    token: Annotated[str | None, argument("a bearer token that clients must send")] = None
    token_file: Annotated[
        Place | None, Option("clients must send the token in this file", metavar="FILE", either="token")
    ] = None
    token_env: Annotated[
        str | None, Option("the same, in this environment variable", metavar="NAME", either="token")
    ] = None
    access_log: Annotated[bool, Option("print a line for every request")] = False
    say: Annotated[Callable[[str], None], argument("is told once the service answers, and where")] = print

    @property
    def limits(self) -> dict[str, Any]:
        """The limits by the names of `ServiceSettings`, in bytes and pixels."""
        names = ("timeout", "max_upload", "max_pixels", "max_decoding", "max_text")
        return {
            name: round(getattr(self, name) * _SCALES[name]) if name in _SCALES else getattr(self, name)
            for name in names
        }


@dataclass(frozen=True)
class ServeOptions(ServiceOptions):
    """What to serve, and how it is batched."""

    run: Annotated[RunPlace, Option("the run folder, or that of an exported model", positional=True)]
    _: KW_ONLY
    max_batch: Annotated[
        int, Option("samples that the network reads at once", metavar="N", group=_LIMITS)
    ] = 32
    max_wait: Annotated[
        float, Option("milliseconds that an idle network waits for more", metavar="MS", group=_LIMITS)
    ] = 5.0
    max_waiting: Annotated[
        int, Option("samples that may wait; further requests get 503", metavar="N", group=_LIMITS)
    ] = 256
    max_samples: Annotated[int, Option("images or texts of a request", metavar="N", group=_LIMITS)] = 64

    @property
    def limits(self) -> dict[str, Any]:
        """All limits by the names of `ServiceSettings`."""
        return {
            **super().limits,
            "max_batch": self.max_batch,
            "max_wait": self.max_wait,
            "max_waiting": self.max_waiting,
            "max_samples": min(self.max_samples, self.max_waiting),
        }


@dataclass(frozen=True)
class ExploreOptions(ServiceOptions):
    """What to explore, and where decisions are written."""

    index: Annotated[
        RunPlace, Option("the index, or a run that has one (labeltree index RUN)", positional=True)
    ]
    _: KW_ONLY
    images: Annotated[
        Sequence[Place],
        Option(
            "folders whose pictures may be shown (default: those of the data of the index's run)",
            "Relative paths of the index are looked up in them",
            metavar="FOLDER",
        ),
    ] = ()
    suspects: Annotated[
        Place | None, Option("the table of 'labeltree suspects' to review", metavar="FILE")
    ] = None
    corrections: Annotated[
        Place | None,
        Option("where decisions are written (default: reviewed.csv beside FILE)", metavar="FILE"),
    ] = None
    warn: Annotated[Callable[[str], None], argument("is told what cannot be shown, and why")] = print
