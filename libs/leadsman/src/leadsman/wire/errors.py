"""What a decoder raises for bytes it cannot accept."""

from leadsman.domain.errors import LeadsmanError


class WireError(LeadsmanError):
    """A body that is not what its format says. The message names the place and what was expected."""
