"""An index in a folder of Lance, which is on this machine."""
