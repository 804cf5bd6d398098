"""What is raised."""


class CaptureError(ValueError):
    """A capture could not be read, or not to its end.

    `offset` counts bytes of the capture after decompression. It is None where the file could not be opened. `errno` is the
    system's number of the error, if the system refused.
    """

    def __init__(self, file: str, offset: int | None, reason: str, errno: int | None = None) -> None:
        at = "" if offset is None else f" (at byte {offset})"
        super().__init__(f"{file}: {reason}{at}")
        self.file = file
        self.offset = offset
        self.reason = reason
        self.errno = errno

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str, int | None]]:
        # Other processes hand it on: exceptions are made of their message otherwise.
        return type(self), (self.file, self.offset, self.reason, self.errno)


class DatasetError(ValueError):
    """A file of a dataset could not be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.file, self.reason)


def reason(problem: BaseException) -> str:
    """What polars says, in a line. It may quote bytes of the file."""
    first = str(problem).strip().partition("\n")[0]
    return "".join(letter if letter.isprintable() else " " for letter in first)
