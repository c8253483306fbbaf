"""Searches over the supports of S+."""
