"""The user-facing functions, and everything around a run."""
