"""What happens between the steps of a training: saving, checks that all is finite, stopping."""
