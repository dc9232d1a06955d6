"""The report: a page for people who know their data and need not know the mathematics."""

from labeltree.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
