"""The named protocols, a file each; importing this package registers them."""
