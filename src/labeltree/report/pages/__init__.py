"""Pages: the report, comparisons, walls of search results."""
