"""Evaluate runs and write reports: pages for readers who know their data but not the mathematics."""

from labeltree.report.pages.comparison_page import comparison_page, write_comparison_page
from labeltree.report.pages.report_page import render_report, write_report

__all__ = ["comparison_page", "render_report", "write_comparison_page", "write_report"]
