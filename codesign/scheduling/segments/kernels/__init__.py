"""Compiled parts of the evaluation and the search of trees of segments."""
