"""Ranks the nodes that the filter lets through."""
