"""What is raised."""


class CaptureError(ValueError):
    """A capture could not be read, or not to its end.

    `offset` counts bytes of the capture after decompression. It is None where the file could not be opened.
    """

    def __init__(self, file: str, offset: int | None, reason: str) -> None:
        at = "" if offset is None else f" (at byte {offset})"
        super().__init__(f"{file}: {reason}{at}")
        self.file = file
        self.offset = offset
        self.reason = reason


class DatasetError(ValueError):
    """A file of a dataset could not be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


def reason(problem: BaseException) -> str:
    """What polars says, in a line. It may quote bytes of the file."""
    first = str(problem).strip().partition("\n")[0]
    return "".join(letter if letter.isprintable() else " " for letter in first)
