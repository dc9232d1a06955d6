"""WordNet: its files, names and trees."""
