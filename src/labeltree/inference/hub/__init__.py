"""Exported models on the Hugging Face hub: sent there, and fetched from there."""
