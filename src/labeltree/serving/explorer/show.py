"""Everything that the explorer shows, as replies to its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from labeltree.errors import DataError
from labeltree.progress import Progress
from labeltree.report.charts.tree_colours import TreeColours, nearness_colour
from labeltree.serving.engine import Engine
from labeltree.serving.explorer.collection import Collection, Found
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.explorer_replies import (
    Decided,
    DialInfo,
    ExplorerInfo,
    Hit,
    HitList,
    MapInfo,
    Matches,
    NodeCount,
    NodePage,
    ReviewItem,
    ReviewPage,
    SampleReply,
    SplitReply,
    SuspectSearchInfo,
    TreeReply,
)
from labeltree.serving.explorer.maps import Maps
from labeltree.serving.explorer.node_facts import count_below, facts_of_node
from labeltree.serving.explorer.review_decisions import Decision, DecisionFile, Review, Suspect
from labeltree.serving.explorer.suspect_search import SuspectSearch
from labeltree.serving.explorer.word_search import WordSearch

__all__ = ["Show"]

Array = np.ndarray[Any, Any]
_LONGEST_TEXT = 2000  # characters of a text that a card has
_PROBLEMS = 20  # rows of the corrections that are told
_EVIDENCE = 6  # neighbours shown beside a suspect


class Show:
    """A collection with its maps, pictures and review.

    Args:
        collection: The samples.
        pictures: Of the samples.
        maps: Of the collection.
        review: Suspects and decisions.
        why_no_model: Why nothing can be searched by an image or a text, if nothing can.
        version_now: The version of the index at this moment.
        find_suspects: Looks for suspects; None: it cannot be done here.
        keep_decisions: Opens the file of decisions about suspects that were found here; None: there is none.
        classifier: What gave the predictions, in words; empty if that is not known.
        changed_at: When the index was last changed, in words; empty if that is not known.
    """

    def __init__(
        self,
        collection: Collection,
        pictures: Pictures,
        maps: Maps,
        review: Review,
        *,
        why_no_model: str = "there is no model to search by",
        version_now: Callable[[], str] | None = None,
        find_suspects: Callable[[Progress], list[Suspect]] | None = None,
        keep_decisions: Callable[[], DecisionFile | None] | None = None,
        classifier: str = "",
        changed_at: str = "",
    ) -> None:
        self.collection = collection
        self.pictures = pictures
        self.maps = maps
        self.review = review
        self.why_no_model = why_no_model
        self._version_now = version_now
        self._has_pictures = pictures.any
        self._keep_decisions = keep_decisions
        self._classifier = classifier
        self._changed_at = changed_at
        self.suspect_search = (
            None if find_suspects is None else SuspectSearch(find_suspects, self.take_suspects)
        )
        self.take_suspects(review.suspects)
        self._words = WordSearch(collection)

    def take_suspects(self, suspects: list[Suspect]) -> None:
        """Have these suspects in the review from now on, and keep decisions about them."""
        if suspects and self.review.kept is None and self._keep_decisions is not None:
            self.review.kept = self._keep_decisions()
        self.review.suspects = suspects
        self._suspects = {suspect.row: suspect for suspect in suspects}

    def search_state(self) -> SuspectSearchInfo:
        """How far the search for suspects is."""
        if self.suspect_search is None:
            return SuspectSearchInfo(state="absent", message="", share=None, problem="", possible=False)
        return SuspectSearchInfo(**vars(self.suspect_search.state), possible=True)

    def prepare(self) -> None:
        """Compute what the page asks for first, so that the first visitor need not wait for it."""
        self.maps.get("PCA")
        self.tree()
        self.rows()

    def info(self, engine: Engine | None) -> ExplorerInfo:
        """See `ExplorerInfo`."""
        it = self.collection
        kept, problems = self._read_decisions()
        now = it.version if self._version_now is None else self._version_now()
        return ExplorerInfo(
            title=it.name,
            samples=len(it),
            labelled=int((it.nodes >= 0).sum()),
            geometry=it.geometry,
            dimensions=int(it.vectors.shape[1]),
            version=it.version,
            changed=now != it.version,
            reads=_reads(engine),
            why_not=self.why_no_model if engine is None else "",
            max_upload=0 if engine is None else engine.settings.max_upload,
            max_text=0 if engine is None else engine.settings.max_text,
            pictures=self._has_pictures,
            splits=it.split_names,
            judged=it.judged[1],
            classifier=self._classifier if it.predictions is not None else "",
            changed_at=self._changed_at,
            suspects=len(self.review.suspects),
            decided=sum(str(it.ids[suspect.row]) in kept for suspect in self.review.suspects),
            problems=problems,
            corrections=None if self.review.kept is None else self.review.kept.path.name,
            maps=[MapInfo(name=m.name, state=m.state, problem=m.problem) for m in self.maps.states()],
            map=self.maps.default,
            dials=None if it.dials is None else DialInfo(tree=it.dials.tree, instance=it.dials.instance),
        )

    def _read_decisions(self) -> tuple[dict[str, Decision], list[str]]:
        """The decisions by sample id, and what is wrong with their file."""
        try:
            kept = self.review.read()
        except DataError as error:
            return {}, [str(error)]
        return kept.decisions, list(kept.problems.values())[:_PROBLEMS]

    def tree(self) -> TreeReply:
        """See `TreeReply`."""
        it, tree = self.collection, self.collection.taxonomy
        judged, _ = it.judged
        suspects = np.zeros(len(it), bool)
        suspects[list(self._suspects)] = True
        colours = TreeColours(tree, torch.from_numpy(np.asarray(it.nodes, np.int64)))
        return TreeReply(
            names=list(tree.names),
            parents=tree.parent.tolist(),
            ends=tree.subtree_end.tolist(),
            samples=count_below(it, np.ones(len(it), bool)).tolist(),
            judged=count_below(it, judged).tolist(),
            right=count_below(it, judged & it.right).tolist(),
            suspects=count_below(it, suspects).tolist(),
            colours=[colours.colour(node) for node in range(tree.num_nodes)],
        )

    def rows(self) -> bytes:
        """Node, state and split of all rows, as `/api/rows` says."""
        it = self.collection
        judged, _ = it.judged
        state = 2 * judged.astype(np.uint8) + 4 * (judged & it.right)
        state[list(self._suspects)] += 1
        split = np.full(len(it), 255, np.uint8)
        if it.splits is not None:
            for place, name in enumerate(it.split_names):
                split[it.splits == name] = place
        return it.nodes.astype("<i4").tobytes() + state.astype(np.uint8).tobytes() + split.tobytes()

    def samples(self, rows: Sequence[int]) -> list[SampleReply]:
        """Samples by row."""
        return [self._sample(int(row)) for row in rows]

    def _sample(self, row: int) -> SampleReply:
        it = self.collection
        node = int(it.nodes[row])
        answer = -1 if it.predictions is None else int(it.predictions[row])
        return SampleReply(
            row=row,
            id=str(it.ids[row]),
            node=node,
            path=self._path(node),
            prediction=None if answer < 0 else answer,
            predicted_path=self._path(answer),
            split=None if it.splits is None else str(it.splits[row]),
            text=None if it.texts is None else str(it.texts[row])[:_LONGEST_TEXT],
            picture=self._has_pictures,
            suspect=row in self._suspects,
        )

    def _path(self, node: int) -> list[str]:
        return list(self.collection.taxonomy.path(node)) if node > 0 else []

    def find(self, words: str) -> Matches:
        """Nodes and samples whose name or id contains the words, those that begin with them first."""
        return self._words.find(words, self._counts)

    @cached_property
    def _counts(self) -> Array:
        return count_below(self.collection, np.ones(len(self.collection), bool))

    def like(
        self, row: int, k: int, within: int | None, tree: float | None = None, instance: float | None = None
    ) -> HitList:
        """Samples nearest to one of the collection, compared with its label; see `Collection.nearest_by`."""
        it = self.collection
        hits = it.nearest_by(tree, instance)(np.array(it.vectors[row : row + 1], np.float32), k + 1, within)[
            0
        ]
        kept = hits.rows != row
        hits = Found(hits.rows[kept][:k], hits.distances[kept][:k], hits.similarities[kept][:k])
        node = int(it.nodes[row])
        node, kind = (node, "label") if node > 0 else (-1, "none")
        return self._hits(str(it.ids[row]), hits, node, kind, self._sample(row))

    def near(
        self,
        vector: Array,
        name: str,
        k: int,
        within: int | None,
        reference: int | None,
        tree: float | None = None,
        instance: float | None = None,
    ) -> HitList:
        """Samples nearest to a vector `(d,)`, compared with a node, else with the label of the nearest."""
        hits = self.collection.nearest_by(tree, instance)(vector[None], k, within)[0]
        if reference is not None:
            return self._hits(name, hits, reference, "node")
        labels = self.collection.nodes[hits.rows]
        first, kind = (int(labels[labels > 0][0]), "nearest") if bool((labels > 0).any()) else (-1, "none")
        return self._hits(name, hits, first, kind)

    def _hits(
        self, query: str, nearest: Found, reference: int, kind: Any, sample: SampleReply | None = None
    ) -> HitList:
        labels = self.collection.nodes[nearest.rows]
        far = self.collection.far(reference, labels).tolist()
        hits = []
        for place, row in enumerate(nearest.rows.tolist()):
            known = far[place] == far[place]
            shared = None
            if known:
                shared = int(
                    self.collection.taxonomy.lca(torch.tensor(reference), torch.tensor(labels[place]))
                )
            hits.append(
                Hit(
                    sample=self._sample(row),
                    distance=float(nearest.distances[place]),
                    similarity=float(nearest.similarities[place]),
                    far=far[place] if known else None,
                    shared=shared,
                    colour=nearness_colour(far[place]) if known else None,
                )
            )
        return HitList(query=query, sample=sample, reference=reference, reference_is=kind, hits=hits)

    def node(self, node: int) -> NodePage:
        """The page of a node."""
        facts = facts_of_node(self.collection, node)
        counts = self._counts
        return NodePage(
            node=node,
            path=self._path(node),
            samples=facts.samples,
            here=facts.here,
            children=[self._count(c, int(counts[c])) for c in self.collection.taxonomy.children(node)[:200]],
            splits=[
                SplitReply(split=s.split, samples=s.samples, judged=s.judged, right=s.right)
                for s in facts.splits
            ],
            typical=self.samples(facts.typical),
            hardest=self.samples(facts.hardest),
            asked=facts.asked,
            confused=[self._count(c.node, c.count) for c in facts.confused],
            confused_by=facts.confused_by,
        )

    def _count(self, node: int, count: int) -> NodeCount:
        return NodeCount(node=node, path=self._path(node), count=count)

    def review_page(
        self, state: str, node: int, offset: int, limit: int, after: int | None = None
    ) -> ReviewPage:
        """A part of the queue.

        Args:
            state: `open`, `decided` or `all`.
            node: That the labels lie at or below.
            offset: How many to leave out.
            limit: How many at most.
            after: The row of a suspect; only those that follow it in the queue. None: all.

        Raises:
            DataError: If that row is no suspect.
        """
        it, decisions = self.collection, self.review.read().decisions
        end = int(it.taxonomy.subtree_end[node])
        every = self.review.suspects  # once, as a search may bring others meanwhile
        ranks = {suspect.row: rank for rank, suspect in enumerate(every)}
        suspects = [s for s in every if node == 0 or node <= it.nodes[s.row] < end]
        decided = [str(it.ids[s.row]) in decisions for s in suspects]
        if after is not None and after not in ranks:
            raise DataError(f"row {after} is not a suspect; give the row of one, or none")
        from_rank = -1 if after is None else ranks[after]
        wanted = [
            s
            for s, done in zip(suspects, decided, strict=True)
            if (state == "all" or done == (state == "decided")) and ranks[s.row] > from_rank
        ]
        return ReviewPage(
            total=len(suspects),
            decided=sum(decided),
            matching=len(wanted),
            items=[self._item(s.row, decisions) for s in wanted[offset : offset + limit]],
        )

    def review_item(self, sample: str) -> ReviewItem:
        """The item of a sample."""
        return self._item(self._row_of(sample), self.review.read().decisions)

    def decide(self, asked: Decided) -> ReviewItem:
        """Decide about a sample.

        Raises:
            Conflict: See `Review.decide`.
            DataError: If there is no such sample or node, or the decision needs one.
        """
        row = self._row_of(asked.id)
        suspect = self._suspects.get(row)
        decision: Decision | None = None
        if asked.action == "keep":
            decision = Decision("keep", int(self.collection.nodes[row]))
        elif asked.action == "accept":
            node = asked.node if asked.node is not None else -1 if suspect is None else suspect.suggested
            if not 0 < node < self.collection.taxonomy.num_nodes:
                raise DataError("no node is suggested for this sample, or named; name one below the root")
            decision = Decision("accept", node)
        elif asked.action != "undo":
            decision = Decision(asked.action, -1)
        self.review.decide(asked.id, decision, asked.seen)
        return self.review_item(asked.id)

    def _row_of(self, sample: str) -> int:
        row = self.collection.row_of.get(sample)
        if row is None:
            raise DataError(f"there is no sample '{sample[:100]}'")
        return row

    def _item(self, row: int, decisions: dict[str, Decision]) -> ReviewItem:
        suspect, decision = self._suspects.get(row), decisions.get(str(self.collection.ids[row]))
        suggested = -1 if suspect is None else suspect.suggested
        vector = np.array(self.collection.vectors[row : row + 1], np.float32)
        near = self.collection.nearest(vector, _EVIDENCE + 1, None)[0].rows
        node = -1 if decision is None else decision.node
        return ReviewItem(
            sample=self._sample(row),
            suggested=suggested,
            suggested_path=self._path(suggested),
            reason="" if suspect is None else suspect.reason,
            score=None if suspect is None else suspect.score,
            action=None if decision is None else decision.action,
            decided=node,
            decided_path=self._path(node),
            seen="" if decision is None else str(decision),
            neighbours=self.samples([other for other in near.tolist() if other != row][:_EVIDENCE]),
        )


def _reads(engine: Engine | None) -> list[str]:
    """What can be searched by, beside samples and nodes."""
    if engine is None or engine.modality == "vector":
        return []
    return ["image", "text"] if engine.modality == "both" else [engine.modality]
