"""labeltree: representation learning that respects a label taxonomy."""

