"""What can go wrong on the bus, as far as a caller can act on it."""

from leadsman.domain.errors import LeadsmanError


class BusError(LeadsmanError):
    """A request over NATS got no usable answer; trying again later is right."""


class NotConnectedError(BusError):
    """There is no connection to NATS, or it was lost before the answer came."""


class NoAnswerError(BusError):
    """Nobody answers on the subject, or not in time."""


class NoStreamError(BusError):
    """The JetStream stream does not exist (yet)."""


class SubjectError(LeadsmanError):
    """A node name or verb that no subject can hold."""


class StreamSetupError(LeadsmanError):
    """The provisioner could not create, update or verify a stream."""
