"""The version of what is running, for /version, metrics and the hop."""

from importlib import metadata


def version() -> str:
    """Version of the installed `leadsman` library; all members are released together."""
    return metadata.version("leadsman")
