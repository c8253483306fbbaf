"""The calls, and what happens around a run."""
