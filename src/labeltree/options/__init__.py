"""The options of all commands and of the functions behind them, each stated once; imports no torch."""
