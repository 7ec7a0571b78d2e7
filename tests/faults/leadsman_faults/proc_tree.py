"""A procfs that says what this kernel would not: pressure on its disks, filesystems that it lacks."""

import platform
from pathlib import Path

_OWN = frozenset({"filesystems", "pressure"})
_CALM = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


class ProcTree:
    """The tree below `root`, and a folder of kernel modules beside it; all else is the real procfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = root.parent / "modules"
        root.mkdir()
        for name in (entry.name for entry in Path("/proc").iterdir()):
            if not name.isdigit() and name not in _OWN:
                (root / name).symlink_to(Path("/proc", name))
        (root / "pressure").mkdir()
        for resource in ("io", "memory", "cpu"):
            (root / "pressure" / resource).write_text(_CALM, encoding="ascii")
        self.set_filesystems("ext4")
        folder = self.modules / platform.release()
        folder.mkdir(parents=True)
        # A kernel with lists of modules, in which there are none that a network filesystem needs.
        (folder / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n", encoding="ascii")
        (folder / "modules.dep").write_text("", encoding="ascii")

    def set_filesystems(self, *names: str) -> None:
        """Let the kernel know these filesystems."""
        lines = (f"nodev\t{name}\n" for name in ("proc", "tmpfs", *names))
        (self.root / "filesystems").write_text("".join(lines), encoding="ascii")

    def set_io_pressure(self, percent: float) -> None:
        """Let tasks be stalled on IO for this share of the last minute."""
        line = f"avg10={percent:.2f} avg60={percent:.2f} avg300={percent:.2f} total={int(percent * 600_000)}"
        (self.root / "pressure" / "io").write_text(f"some {line}\nfull {line}\n", encoding="ascii")
