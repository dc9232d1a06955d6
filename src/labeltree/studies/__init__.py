"""Studies: methods × seeds on one data set, resumable, with the table they end in."""
