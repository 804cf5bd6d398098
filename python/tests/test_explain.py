"""The story of a transfer."""

import xml.etree.ElementTree
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
    with pytest.raises(ValueError, match="both"):
        tidegate.explain(policed, sender="both")  # type: ignore[arg-type]
