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
