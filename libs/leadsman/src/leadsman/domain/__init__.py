"""Leadsman's vocabulary and rules as plain values and functions: no I/O, no asyncio, no wire format."""
