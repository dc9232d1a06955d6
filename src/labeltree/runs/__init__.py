"""The files of a run: the run folder, the description of its model, and the embeddings table."""

from labeltree.runs.embedding_table import EmbeddingTable
from labeltree.runs.model_description import ModelDescription
from labeltree.runs.parts import PartFolder
from labeltree.runs.run_folder import RunFolder
from labeltree.runs.sample_record import SampleRecord

__all__ = ["EmbeddingTable", "ModelDescription", "PartFolder", "RunFolder", "SampleRecord"]
