"""``labeltree study``: run methods × grid × seeds on one data set, and tabulate the results."""

from __future__ import annotations

import argparse

SUMMARY = "run methods × settings × seeds, and write their tables"
ELSEWHERE = "a copy of the study's file can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Run, continue, list or tabulate the given study."""
    parser = argparse.ArgumentParser(
        prog="labeltree study",
        description="Do all runs of a study that are not done yet, and write README.md, table.csv, "
        "table.html, figures/ and results.json beside its file. The same command continues a study "
        "that was stopped.",
    )
    parser.add_argument("file", help="the study, a YAML file")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs at a time, one process each; by default one for every four cores",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="METHOD",
        help="only this method, or all its points of the grid; * stands for anything; may be repeated",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--dry-run", action="store_true", help="check the file, and list its runs and how much time is left"
    )
    what.add_argument("--tables", action="store_true", help="rewrite the tables from results.json alone")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    options = parser.parse_args(arguments)

    from labeltree.studies.study_sections import read_sections

    read_sections(options.file)  # before what takes long to load

    from labeltree.studies.book import list_study
    from labeltree.studies.execute import execute, rewrite
    from labeltree.studies.study_sections import StudyError

    if options.jobs is not None and options.jobs < 1:
        raise ValueError(f"--jobs is {options.jobs}; it must be 1 or more")
    if options.dry_run:
        from labeltree.studies.study_worker import default_jobs

        print("\n".join(list_study(options.file, options.only).lines(options.jobs or default_jobs())))
        return
    if options.tables:
        print(f"tables: {rewrite(options.file)}")
        return
    done = execute(options.file, only=options.only, jobs=options.jobs, progress_bar=not options.quiet)
    print(f"tables: {done.tables}")
    if done.failures:
        failed = ", ".join(failure["run"] for failure in done.failures[:3])
        raise StudyError(
            f"{len(done.failures)} runs failed ({failed}); the tables say why, the same command tries again"
        )
