"""How far a reading is: a line in terminals, and a bar in notebooks."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

#: Readings that take less are not worth a bar.
_SHORT = 1.0
_WIDTH = 30


class Bar:
    """Is told how many bytes were read, and None at the end. It shows nothing where nobody looks."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began: float | None = None
        self._shown = False
        self._handle: Any = None

    def __call__(self, read: int | None) -> None:
        now = monotonic()
        # A reading may begin long after its rows were asked for.
        if self._began is None:
            self._began = now
        if read is None:
            self._end()
        elif now - self._began >= _SHORT:
            self._show(self.text(read, now - self._began))

    def text(self, read: int, seconds: float) -> str:
        """The bar, the share that was read, and the rate."""
        share = min(read / self._total, 1.0) if self._total else 1.0
        done = round(_WIDTH * share)
        return f"{'█' * done}{'░' * (_WIDTH - done)} {share:4.0%} of {self._total / 1e6:,.0f} MB, {read / 1e6 / max(seconds, 1e-3):,.0f} MB/s"

    def _show(self, text: str) -> None:
        shell = _notebook()
        if shell is None:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif self._handle is None:
            from IPython.display import display

            self._handle = display({"text/plain": text}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update({"text/plain": text}, raw=True)
        self._shown = True

    def _end(self) -> None:
        if self._shown and self._handle is None:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def somebody_looks() -> bool:
    """Whether this is a terminal or a notebook."""
    return _notebook() is not None or sys.stderr.isatty()


def _notebook() -> object | None:
    """The kernel of a notebook, if this runs in one. Nobody else has imported IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if shell is not None and hasattr(shell, "kernel") else None
