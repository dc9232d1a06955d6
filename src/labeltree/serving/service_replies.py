"""What a service takes as JSON, and what it replies."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, WithJsonSchema
from pydantic_core import PydanticCustomError

__all__ = [
    "About",
    "Answer",
    "DriftReply",
    "Embedding",
    "Embeddings",
    "Guess",
    "Health",
    "Images",
    "Info",
    "Predictions",
    "Problem",
    "TaxonomyReply",
    "Texts",
    "Vectors",
]


def _decode(value: object) -> object:
    """The bytes of a text in base64; line breaks in it are no error, as other characters are."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        what = "the content of an image file in base64"
        hint = ", without 'data:…;base64,' before it" if value.startswith("data:") else ""
        raise PydanticCustomError("base64", f"this is not base64; send {what}{hint}") from None


Base64 = Annotated[bytes, BeforeValidator(_decode), WithJsonSchema({"type": "string", "format": "base64"})]


class Images(BaseModel):
    """Images as JSON: the content of image files in base64."""

    model_config = ConfigDict(extra="forbid")

    images: list[Base64] = Field(min_length=1)


class Texts(BaseModel):
    """Texts as JSON."""

    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1)


class Vectors(BaseModel):
    """Vectors as JSON."""

    model_config = ConfigDict(extra="forbid")

    vectors: list[list[FiniteFloat]] = Field(min_length=1)


class About(BaseModel):
    """Which model answered, when, and what was asked of it.

    A model on another version of its taxonomy adds `mapping`, the fingerprint of the mapping to it.
    """

    model_config = ConfigDict(extra="allow")

    model: str = Field(description="fingerprint of weights, classifier, calibration and taxonomy")
    labeltree: str = Field(description="version of labeltree")
    date: str
    asked: str
    taxonomy: str = Field(description="fingerprint of the taxonomy")


class Guess(BaseModel):
    """A class, and its probability."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    name: str = Field(alias="class")
    probability: float


class Answer(BaseModel):
    """The answer for a sample, as `labeltree predict --format json` gives it."""

    sample: str
    answer: str | None = Field(None, description="a node of the taxonomy, as a path")
    probability: float | None = None
    cut: bool | None = Field(None, description="whether the answer is coarser than the classes")
    unknown: bool | None = Field(None, description="whether the sample fits no known class")
    p_known: float | None = Field(None, description="p-value of being like the samples of known classes")
    guesses: list[Guess] = []
    problem: str | None = Field(None, description="why there is no answer")


class Predictions(BaseModel):
    """An answer for each sample of a request, in order."""

    about: About
    answers: list[Answer]


class Embedding(BaseModel):
    """Embedding and features of a sample."""

    sample: str
    embedding: list[float] | None = None
    features: list[float] | None = None
    problem: str | None = Field(None, description="why there is no embedding")


class Embeddings(BaseModel):
    """An embedding for each sample of a request, in order."""

    about: About
    geometry: str
    curvature: float
    embeddings: list[Embedding]


class TaxonomyReply(BaseModel):
    """The taxonomy of the answers."""

    digest: str
    classes: list[str] = Field(description="the finest answers, as paths, in the order of the classifier")
    taxonomy: dict[str, Any] = Field(description="as .json files hold it: names and parents of the nodes")


class DriftReply(BaseModel):
    """Whether the last samples are like the held-out ones that coverage was calibrated on."""

    p_value: float | None = Field(description="none if the window could not be tested")
    alarm: bool = Field(description="whether they differ: of windows that do not, at most 5 % are said to")
    samples: int = Field(description="samples of the window")
    says: str | None = Field(None, description="how they differ and what to do, or why there is no test")
    evidence: float | None = Field(
        None,
        description="highest so far that samples since the start differ: 20 or more in at most 5 % of "
        "services without drift",
    )


class Health(BaseModel):
    """Whether the service answers."""

    status: str
    model: str = Field(description="fingerprint of the model")
    labeltree: str = Field(description="version of labeltree")
    devices: list[str]
    reads: str = Field(description="image or text")
    waiting: int = Field(description="samples that are decoded or wait for the network")
    answered: int = Field(description="samples answered so far")
    batches: int = Field(description="batches computed so far")
    drift: DriftReply | None = Field(None, description="of the last full window; none before the first")


class Info(BaseModel):
    """What this service is, and how to use it."""

    service: str
    reads: str
    model: str
    labeltree: str
    paths: dict[str, str]


class Problem(BaseModel):
    """What is wrong, in one sentence."""

    detail: str
