"""Adapters to the libraries of other fields, one per file; each needs an extra of its own."""
