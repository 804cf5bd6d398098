"""What the tests have in common: captures of the repository, and the program if it was built."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def corpus() -> Path:
    return ROOT / "corpus"


@pytest.fixture
def policed(corpus: Path) -> Path:
    return corpus / "policed-1500kbit" / "policed-1500kbit.pcap.xz"
