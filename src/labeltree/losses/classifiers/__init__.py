"""Losses of classifiers and class embeddings."""
