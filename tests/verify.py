"""Run every static check, then list each failure with the command that repairs it.

tests/verify.py            all checks
tests/verify.py ruff types only those named
tests/verify.py --list     their names
"""

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMBERS = (
    "libs/leadsman",
    *(f"services/{name}" for name in ("gateway", "filter", "scorer", "health-collector", "cli")),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One static check: what it runs, where, and what to type when it fails."""

    name: str
    command: tuple[str, ...]
    repair: str
    folder: Path = ROOT


CHECKS = (
    Check("format", ("ruff", "format", "--check", "--quiet", "."), "make fmt"),
    Check("ruff", ("ruff", "check", "--quiet", "."), "make fmt, then mend what remains by hand"),
    Check(
        "types",
        ("mypy", *(f"{member}/src" for member in MEMBERS), "tests", "proto/gen.py"),
        "mend the types named above",
    ),
    Check("layers", ("lint-imports", "--no-cache"), "move the import; the contracts are in pyproject.toml"),
    Check("proto-lint", ("buf", "lint"), "mend proto/leadsman as named above"),
    Check("gen", (sys.executable, "proto/gen.py", "--check"), "make gen"),
    Check("lock", (".tools/bin/uv", "lock", "--check", "--quiet"), ".tools/bin/uv lock"),
    *(
        Check(
            f"deps:{Path(member).name}",
            ("deptry", "src", "--no-ansi"),
            f"declare or drop the dependency in {member}/pyproject.toml",
            ROOT / member,
        )
        for member in MEMBERS
    ),
)


def run(check: Check) -> bool:
    """Run one check and print its line; its output follows only when it failed."""
    start = time.monotonic()
    done = subprocess.run(check.command, cwd=check.folder, capture_output=True, text=True, check=False)
    took = time.monotonic() - start
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'}  {check.name:<22} {took:5.1f} s", flush=True)
    if done.returncode:
        print((done.stdout + done.stderr).rstrip(), flush=True)
    return done.returncode == 0


def main() -> None:
    """Run the checks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CHECK", help="run only these checks")
    parser.add_argument("--list", action="store_true", help="print the names of all checks")
    options = parser.parse_args()
    if options.list:
        print("\n".join(check.name for check in CHECKS))
        return
    unknown = set(options.names) - {check.name for check in CHECKS}
    if unknown:
        parser.error(f"no check called {', '.join(sorted(unknown))}; see --list")
    failed = [check for check in CHECKS if (not options.names or check.name in options.names) and not run(check)]
    if failed:
        print("\nTo repair:")
        print("\n".join(f"  {check.name:<22} {check.repair}" for check in failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
