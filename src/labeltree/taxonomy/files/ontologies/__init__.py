"""Readers of published ontologies, thesauri and classifications: RDF, XML and dumps."""
