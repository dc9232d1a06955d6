"""How the primitives over pairs can be computed."""

# what users get, dense, and over tiles so small that every batch has several
IMPLEMENTATIONS = {"auto": ("auto", None), "dense": ("dense", None), "streaming": ("streaming", 4)}
