"""Sounds the storage of one node and publishes what it finds."""
