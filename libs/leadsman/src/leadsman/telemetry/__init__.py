"""Logs and metrics, set up the same way in every service."""
