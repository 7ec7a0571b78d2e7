"""Configuration files: strict loading with errors that name file, line, key and the nearest valid key."""
