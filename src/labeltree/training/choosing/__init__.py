"""What is chosen where the recipe leaves it open."""
