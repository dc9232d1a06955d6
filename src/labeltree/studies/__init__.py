"""Studies: methods × grid × seeds on one data set, resumable, and their tables and pages."""
