"""The replies of the explorer: the schema of its JSON interface, which the page /docs shows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = [
    "Changed",
    "Decided",
    "ExplorerInfo",
    "Hit",
    "HitList",
    "MapInfo",
    "Matches",
    "NodeCount",
    "NodeMatch",
    "NodePage",
    "ReviewItem",
    "ReviewPage",
    "SampleList",
    "SampleMatch",
    "SampleReply",
    "SessionRequest",
    "SplitReply",
    "SuspectSearchInfo",
    "TreeReply",
]


class MapInfo(BaseModel):
    name: str
    state: Literal["ready", "computing", "absent", "failed"]
    problem: str = ""


class DialInfo(BaseModel):
    """Where the run has the dials of its posterior space."""

    tree: float = Field(description="how much the taxonomy counts, 0 to 1")
    instance: float = Field(description="how much samples of a class are told apart; at 0 it stays there")


class ExplorerInfo(BaseModel):
    """What is shown, and what can be asked."""

    title: str
    samples: int
    labelled: int
    geometry: str
    dimensions: int
    version: str = Field(description="of the index, as it was when the explorer was started")
    changed: bool = Field(description="whether the index has changed since then")
    reads: list[str] = Field(description="what can be searched by: image, text; none without a model")
    why_not: str = Field(description="why nothing can be searched by an image or a text, else empty")
    max_upload: int = Field(description="most bytes of an upload")
    max_text: int = Field(description="most characters of a text")
    pictures: bool
    splits: list[str] = Field(description="names; /api/rows has their positions in this list")
    judged: str = Field(description="the split that accuracies are about; 'all'; or empty: no predictions")
    classifier: str = Field(description="what gave the predictions, in words; empty: not known")
    changed_at: str = Field(description="when the index was last changed, UTC; empty: not known")
    suspects: int
    decided: int
    corrections: str | None = Field(description="name of the file that decisions are written to")
    problems: list[str] = Field(description="rows of that file that are not understood, and stay as they are")
    maps: list[MapInfo]
    map: str = Field(description="the map to show first")
    dials: DialInfo | None = Field(None, description="what a search can be given; none without them")


class SuspectSearchInfo(BaseModel):
    """How far the search for labels that look wrong is, which POST starts."""

    state: Literal["absent", "computing", "ready", "failed"]
    message: str = Field(description="what is being done")
    share: float | None = Field(description="how much of that is done, 0 to 1; null: not known")
    problem: str = Field(description="why it failed")
    possible: bool = Field(description="whether it can be started here")


class TreeReply(BaseModel):
    """All nodes in depth-first order, a list for each column; accuracy is right / judged."""

    names: list[str]
    parents: list[int]
    ends: list[int] = Field(description="the nodes below node v are v + 1 … ends[v] − 1")
    samples: list[int] = Field(description="at or below the node")
    judged: list[int] = Field(description="of these, samples with a prediction, of the split that is judged")
    right: list[int] = Field(description="of these, samples whose prediction is their label or lies below it")
    suspects: list[int]
    colours: list[str]


class SampleReply(BaseModel):
    row: int
    id: str
    node: int = Field(description="the label; −1: none")
    path: list[str] = Field(description="names from depth 1 to the label")
    prediction: int | None = None
    predicted_path: list[str] = []
    split: str | None = None
    text: str | None = None
    picture: bool = False
    suspect: bool = False


class SampleList(BaseModel):
    samples: list[SampleReply]


class Hit(BaseModel):
    sample: SampleReply
    distance: float
    similarity: float
    far: float | None = Field(description="LCA-height dissimilarity to the reference; null: not known")
    shared: int | None = Field(description="the finest node that holds this label and the reference")
    colour: str | None = Field(description="of the frame, by `far`")


class HitList(BaseModel):
    """The samples nearest to a query; frames say how far their labels lie from a reference on the tree."""

    query: str
    sample: SampleReply | None = Field(description="the query, where it is a sample of the index")
    reference: int = Field(description="node that hits are compared with; −1: none")
    reference_is: Literal["label", "node", "nearest", "none"]
    hits: list[Hit]


class NodeMatch(BaseModel):
    node: int
    path: list[str]
    samples: int


class SampleMatch(BaseModel):
    row: int
    id: str


class Matches(BaseModel):
    nodes: list[NodeMatch]
    samples: list[SampleMatch]


class NodeCount(BaseModel):
    node: int
    path: list[str]
    count: int


class SplitReply(BaseModel):
    split: str
    samples: int
    judged: int
    right: int


class NodePage(BaseModel):
    node: int
    path: list[str]
    samples: int
    here: int
    children: list[NodeCount]
    splits: list[SplitReply]
    typical: list[SampleReply]
    hardest: list[SampleReply]
    asked: int = Field(description="how many samples the hardest were chosen from")
    confused: list[NodeCount]
    confused_by: Literal["predictions", "neighbours"]


class Decided(BaseModel):
    """A decision about a suspect; `seen` is that of the item that it is based on."""

    id: str = Field(max_length=100_000)
    action: Literal["accept", "keep", "remove", "no label", "undo"]
    node: int | None = Field(None, description="to accept instead of the one that is suggested")
    seen: str = Field("", max_length=100)


class ReviewItem(BaseModel):
    sample: SampleReply
    suggested: int = Field(description="the likelier node; −1: none")
    suggested_path: list[str]
    reason: str
    score: float | None
    action: Literal["accept", "keep", "remove", "no label"] | None = Field(
        description="what was decided; null: open"
    )
    decided: int = Field(description="the node that was decided on; −1: none")
    decided_path: list[str]
    seen: str = Field(description="names this state of the item; empty: open")
    neighbours: list[SampleReply] = []


class ReviewPage(BaseModel):
    total: int
    decided: int
    matching: int
    items: list[ReviewItem]


class Changed(BaseModel):
    """409: somebody else has decided meanwhile."""

    detail: str
    item: ReviewItem


class SessionRequest(BaseModel):
    token: str = Field(max_length=10_000)
