"""What can go wrong in the leadsman command, in words for the person at the terminal."""

from leadsman.domain.errors import LeadsmanError


class CommandError(LeadsmanError):
    """The command cannot do what was asked; the message is one line that says what to do instead."""


class ChildEndedError(LeadsmanError):
    """A process of the local pipeline has ended by itself; the message has the end of its log."""
