"""Tables: main numbers, metrics, nodes, protocols, errors."""
