"""The commands of the program, each found by its entry point."""
