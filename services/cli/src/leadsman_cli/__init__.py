"""The leadsman command: run the pipeline locally, break it, ask it."""
