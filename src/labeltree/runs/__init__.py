"""The files of a run: the run folder and the embeddings table."""

from labeltree.runs.embeddings import EmbeddingTable
from labeltree.runs.folder import RunFolder
from labeltree.runs.samples import SampleRecord

__all__ = ["EmbeddingTable", "RunFolder", "SampleRecord"]
