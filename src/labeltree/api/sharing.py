"""Send models to the Hugging Face hub, and fetch them from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.options.hub_options import PullOptions, PushOptions
from labeltree.options.schema import takes

if TYPE_CHECKING:
    from labeltree.inference.hub.push_export import Pushed

__all__ = ["pull", "push"]


@takes(PushOptions)
def push(options: PushOptions) -> Pushed:
    """Send an exported model, or a run that is exported for it, to the Hugging Face hub.

    The repository is private, unless it is `public`. Embeddings of samples stay here.

    Returns:
        What was sent, with its commit.

    Raises:
        LabeltreeError: See `labeltree.inference.hub.push_export.push_export`.
    """
    from labeltree.inference.hub.push_export import push_export

    return push_export(options)


@takes(PullOptions)
def pull(options: PullOptions) -> Path:
    """Fetch an exported model from the Hugging Face hub into a new folder, which `load` opens.

    Only tensors, JSON and text are fetched, each checked by its digest, and no file is run.

    Returns:
        The folder.

    Raises:
        LabeltreeError: See `labeltree.inference.hub.pull_export.pull_export`.
    """
    from labeltree.inference.hub.pull_export import pull_export

    return pull_export(options)
