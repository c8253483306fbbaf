"""The nouns: problems, methods and their loop, points, results, and the checks of input."""
