"""Configuration files: strict loading with errors that name file, line, key and the nearest valid key."""

from leadsman.config.errors import DocumentError, Problem
from leadsman.config.load import load_document, parse_document

__all__ = ["DocumentError", "Problem", "load_document", "parse_document"]
