"""Base classes and types: problems, methods, the iteration loop, points, results and checks."""
