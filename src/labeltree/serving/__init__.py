"""A run as a service: requests over HTTP, answered in batches."""

from labeltree.serving.service_settings import ServiceSettings

__all__ = ["ServiceSettings"]
