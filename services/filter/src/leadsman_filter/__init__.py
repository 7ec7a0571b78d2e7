"""Keeps pods off nodes whose storage is broken for them."""
