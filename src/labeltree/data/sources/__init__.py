"""Sources of any data: folders, tables, lists of files, data sets of other libraries."""
