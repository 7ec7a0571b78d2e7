"""What is wrong with a configuration file, with the place of each problem."""

from collections.abc import Sequence
from dataclasses import dataclass

from leadsman.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the line (from 1; 0 if the file as a whole is meant), the key path, and words for people."""

    line: int
    path: str
    words: str

    def text(self, source: str) -> str:
        """`file:line: key.path: words`, leaving out what is not known."""
        place = f"{source}:{self.line}" if self.line else source
        return f"{place}: {self.path}: {self.words}" if self.path else f"{place}: {self.words}"


class DocumentError(ConfigError):
    """A configuration file that cannot be used; the message lists every problem found, in file order."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(problem.text(source) for problem in self.problems))
