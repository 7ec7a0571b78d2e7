"""The root of every error that Leadsman raises on purpose."""


class LeadsmanError(Exception):
    """Something a person can act on. The message says what, which object, and what to do."""


class ConfigError(LeadsmanError):
    """A flag, file or environment variable that cannot be used as it is."""
