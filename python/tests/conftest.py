"""What the tests have in common: captures of the repository, and the program if it was built."""

import lzma
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def corpus() -> Path:
    return ROOT / "corpus"


@pytest.fixture
def policed(corpus: Path) -> Path:
    return corpus / "policed-1500kbit" / "policed-1500kbit.pcap.xz"


def sampled_capture(policed: Path, comment: str, part: slice) -> bytes:
    """Packets of a capture as pcapng, with a comment in its header as `tidegate sample` writes it (draft-ietf-opsawg-pcapng)."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    content = lzma.decompress(policed.read_bytes())
    packets, at = [], 24
    while at < len(content):
        seconds, micros, kept, length = struct.unpack_from("<IIII", content, at)
        time = seconds * 10**6 + micros
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, kept, length)
        packets.append(block(6, head + content[at + 16 : at + 16 + kept]))
        at += 16 + kept
    text = comment.encode()
    option = struct.pack("<HH", 1, len(text)) + text + bytes(-len(text) % 4) + bytes(4)
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option)
    return section + block(1, struct.pack("<HHI", 1, 0, 0)) + b"".join(packets[part])
