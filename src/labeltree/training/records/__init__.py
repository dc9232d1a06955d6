"""What a training writes down: versions, origins of losses, lines of epochs."""
