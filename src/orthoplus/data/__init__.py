"""The data matrix in every form it may come in."""
