"""Files of taxonomies: their forms, readers and writers."""
