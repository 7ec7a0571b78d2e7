"""One source as the book keeps it."""

from dataclasses import dataclass

from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.strikes import SourceHealth


@dataclass(slots=True)
class Watched:
    """A source and the state of its strikes."""

    source: Source
    health: SourceHealth
