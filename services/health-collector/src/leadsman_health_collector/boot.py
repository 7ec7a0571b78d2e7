"""Which boot of the machine this is."""

from pathlib import Path


def read_boot_id(proc: Path) -> str:
    """The kernel's id of this boot; empty if it does not tell."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
