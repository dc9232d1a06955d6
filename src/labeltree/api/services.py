"""Models and indexes as services, and studies of many runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.options.schema import takes
from labeltree.options.serving import ExploreOptions, ServeOptions
from labeltree.options.studies import StudyOptions

if TYPE_CHECKING:
    from labeltree.studies.execute import Executed

__all__ = ["explore", "serve", "study"]


@takes(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve a run over HTTP until Ctrl-C or SIGTERM; requests in progress are still answered.

    Raises:
        RunError: If the folder is not a finished run.
        DataError: If the address cannot be listened on.
        ImportError: If the libraries of the service are missing.
    """
    from labeltree.serving.server import serve as run_service

    run_service(options)


@takes(ExploreOptions)
def explore(options: ExploreOptions) -> None:
    """Show an index on a page in the browser until Ctrl-C or SIGTERM.

    Raises:
        DataError: If there is no such index, or a file cannot be read.
        ValueError: If others reach the host, and there is no token.
    """
    from labeltree.serving.explorer.open_explorer import explore as run_explorer

    run_explorer(options)


@takes(StudyOptions)
def study(options: StudyOptions) -> Executed:
    """Do all runs of a study that are not done yet, and write its tables beside its file.

    Raises:
        StudyError: If the study file is not valid.
    """
    from labeltree.studies.execute import execute

    return execute(options)
