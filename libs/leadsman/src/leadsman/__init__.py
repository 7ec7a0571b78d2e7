"""Vocabulary, bus, wire formats and runtime shared by the Leadsman services."""
