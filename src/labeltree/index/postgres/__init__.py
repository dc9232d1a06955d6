"""The store on PostgreSQL with the extension pgvector."""

from labeltree.index.postgres.postgres_store import PostgresStore

__all__ = ["PostgresStore"]
