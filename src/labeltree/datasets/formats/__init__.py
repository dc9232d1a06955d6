"""File formats of official data sets: lists of text, IDX, pickles."""
