"""Embedding and prediction of any number of samples, into a folder of Parquet files, in constant memory."""

from labeltree.inference.bulk.job import BulkDone, BulkJob, writes_folder
from labeltree.inference.bulk.launch_processes import run_bulk

__all__ = ["BulkDone", "BulkJob", "run_bulk", "writes_folder"]
