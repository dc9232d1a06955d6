"""Tables of samples: their columns, labels and rows."""
