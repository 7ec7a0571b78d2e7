"""The collector and the API server: what it reads of its node there, and what it tells people there. All optional."""
