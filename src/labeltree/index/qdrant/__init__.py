"""The store on Qdrant."""

from labeltree.index.qdrant.qdrant_store import QdrantStore

__all__ = ["QdrantStore"]
