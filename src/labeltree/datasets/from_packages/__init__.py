"""Data sets and other downloads that come out of software packages."""
