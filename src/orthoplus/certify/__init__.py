"""Proofs of how good a clustering is."""
