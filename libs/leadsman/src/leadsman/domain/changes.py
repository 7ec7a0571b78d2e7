"""One counter of changes for everything that an answer rests on."""


class ChangeCounter:
    """Grows with every change; its value stands for one content of all that share it.

    Begins at `first`, which a process takes from the time of its start, so that not even by accident two starts give
    the same number to different answers.
    """

    def __init__(self, first: int = 1) -> None:
        self.value = first

    def next(self) -> int:
        """Count one more change and return its number."""
        self.value += 1
        return self.value
