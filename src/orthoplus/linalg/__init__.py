"""Linear algebra: singular vectors of groups, symmetric eigenproblems, starting points."""
