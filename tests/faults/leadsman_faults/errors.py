"""What can go wrong with the suite itself, in contrast to what it breaks."""

from leadsman.domain.errors import LeadsmanError


class StageError(LeadsmanError):
    """The stage cannot be built or a fault cannot be injected; the message says what was tried and what came back."""
