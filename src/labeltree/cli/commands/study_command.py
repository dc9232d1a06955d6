"""`labeltree study`: run methods × grid × seeds on one data set, and tabulate the results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.schema import Option
from labeltree.options.studies import StudyOptions


@dataclass(frozen=True)
class _Instead:
    dry_run: Annotated[
        bool, Option("check the file, and list its runs and how much time is left", either="instead")
    ] = False
    tables: Annotated[bool, Option("rewrite the tables from results.json alone", either="instead")] = False
    quiet: Annotated[bool, Option("no progress bars")] = False


SUMMARY = "run methods × settings × seeds, and write their tables"
ELSEWHERE = "a copy of the study's file can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Run, continue, list or tabulate the given study."""
    parser = make_parser(
        "study",
        StudyOptions,
        _Instead,
        description="Do all runs of a study that are not done yet, and write README.md, table.csv, "
        "table.html, figures/ and results.json beside its file. The same command continues a study "
        "that was stopped.",
    )
    words = parser.parse_args(arguments)

    from labeltree.studies.study_sections import read_sections

    read_sections(words.file)  # before what takes long to load

    from labeltree.api import study
    from labeltree.studies.execute import rewrite
    from labeltree.studies.study_results import list_study
    from labeltree.studies.study_sections import StudyError

    options = read_options(StudyOptions, words)
    if words.dry_run:
        from labeltree.studies.study_processes import default_jobs

        print("\n".join(list_study(options.file, options.only).lines(options.jobs or default_jobs())))
        return
    if words.tables:
        print(f"tables: {rewrite(options.file)}")
        return
    done = study(replace(options, progress_bar=not words.quiet))
    print(f"tables: {done.tables}")
    if done.failures:
        failed = ", ".join(failure["run"] for failure in done.failures[:3])
        raise StudyError(
            f"{len(done.failures)} runs failed ({failed}); the tables say why, the same command tries again"
        )
