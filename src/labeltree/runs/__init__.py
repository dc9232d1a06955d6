"""What a run leaves on disk: the run folder and the embeddings table."""

from labeltree.runs.embeddings import EmbeddingTable
from labeltree.runs.folder import RunFolder
from labeltree.runs.samples import SampleRecord

__all__ = ["EmbeddingTable", "RunFolder", "SampleRecord"]
