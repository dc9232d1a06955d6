"""The actions of the command taxonomy."""
