"""The story of a transfer."""

import errno
import lzma
import subprocess
import sys
import xml.etree.ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
import tidegate


def test_a_policed_transfer(policed: Path) -> None:
    told = tidegate.explain(policed)
    assert told.verdict == "policer"
    # The router was configured to 1.5 Mbit/s.
    assert told["limit"]["rate_bps"] == pytest.approx(1.5e6, rel=0.05)
    assert "policer" in repr(told).lower()
    picture = xml.etree.ElementTree.fromstring(told._repr_svg_())
    assert picture.tag.endswith("svg")


def test_a_transfer_is_chosen(policed: Path) -> None:
    told = tidegate.explain(policed, flow=0, segment=2)
    assert (told["transfer"]["flow"], told["transfer"]["segment"]) == (0, 2)
    assert tidegate.explain(policed, detector="pd")["detector"] == "pd"
    with pytest.raises(tidegate.CaptureError, match="xz: no flow 999"):
        tidegate.explain(policed, flow=999)
    with pytest.raises(ValueError, match="join=True"):
        tidegate.explain([policed, policed])
    for words in ({"flow": -1}, {"segment": -2}):
        with pytest.raises(ValueError, match="0 or more"):
            tidegate.explain(policed, **words)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="both"):
        tidegate.explain(policed, sender="both")  # type: ignore[arg-type]


def test_the_pieces_of_a_capture_are_one(policed: Path, tmp_path: Path) -> None:
    """A file of one packet in front of the capture, in a folder with it: the transfer is the same."""
    whole = lzma.open(policed).read()
    length = 16 + int.from_bytes(whole[24 + 8 : 24 + 12], "little")
    (tmp_path / "b.pcap").write_bytes(whole[: 24 + length])
    (tmp_path / "a.pcap").write_bytes(whole[:24] + whole[24 + length :])
    told = tidegate.explain(tmp_path, join=True)
    alone = tidegate.explain(policed)
    assert told.headline == alone.headline
    assert told["transfer"] == alone["transfer"]
    with pytest.raises(ValueError, match="join=True"):
        tidegate.explain(tmp_path)


def test_many_pieces_are_opened_in_turn(policed: Path, tmp_path: Path) -> None:
    whole = lzma.open(policed).read()
    ends = [24]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + 16 + int.from_bytes(whole[ends[-1] + 8 : ends[-1] + 12], "little"))
    every = max(len(ends) // 100, 1)
    edges = [*ends[:-1:every], ends[-1]]
    for number, (begin, end) in enumerate(pairwise(edges)):
        (tmp_path / f"{number:04}.pcap").write_bytes(whole[:24] + whole[begin:end])
    assert len(edges) > 100
    # As many files as a process may have open, but for the interpreter's.
    program = (
        "import resource, sys, tidegate\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\n"
        "print(tidegate.explain(sys.argv[1], join=True).headline)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert ran.stdout.strip() == tidegate.explain(policed).headline, ran.stderr


def test_a_piece_that_cannot_be_opened_is_told(policed: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.pcap").symlink_to(tmp_path / "nowhere")
    with pytest.raises(tidegate.CaptureError, match="gone.pcap") as told:
        tidegate.explain([policed, tmp_path / "gone.pcap", policed], join=True)
    assert told.value.errno == errno.ENOENT
