"""Shards: tar files as WebDataset writes them, and Parquet files with the bytes of images."""
