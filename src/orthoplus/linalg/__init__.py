"""Linear algebra: singular vectors of groups, symmetric eigenproblems, starts."""
