"""The report, on a dataset that the program made of captures of the lab."""

import os
import subprocess
import sys
from pathlib import Path

import polars
import pytest
from conftest import ROOT


@pytest.mark.skipif("TIDEGATE_PROGRAM" not in os.environ, reason="SKIPPED: TIDEGATE_PROGRAM does not name the program")
def test_the_study_of_networks_agrees_with_the_lab(tmp_path: Path) -> None:
    study = str(ROOT / "studies" / "flach16-networks" / "networks.py")
    size = ["--clients", "150", "--segments", "3"]
    ran = subprocess.run([sys.executable, study, *size, "--save", str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    networks = polars.read_parquet(tmp_path / "networks.parquet")
    assert len(networks) == 20
