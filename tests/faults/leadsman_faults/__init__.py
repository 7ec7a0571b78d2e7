"""Breaks real storage in every way this machine can, and times how a real collector tells and forgets it."""
