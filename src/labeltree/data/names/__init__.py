"""What the name of a label is: cleaned, parsed, and replaced by the accepted one of its synonyms."""
