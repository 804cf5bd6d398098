"""Whether reports find what is true of networks: 20 autonomous systems of the lab, whose plans are known.

Needs the Python package with its extra `test`, and the program: TIDEGATE_PROGRAM names it.
"""

import argparse
import ipaddress
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import tidegate
from mmdb_writer import MMDBWriter
from netaddr import IPSet

COUNTRIES = {
    "AF": ["DZ", "EG", "KE", "NG"],
    "AS": ["AZ", "ID", "JP", "VN"],
    "EU": ["DE", "ES", "PL", "SE"],
    "NA": ["CA", "MX", "PA", "US"],
    "SA": ["AR", "BR", "CL", "PE"],
}
#: A client's access line, unless a limiter is slower.
LINE = "50mbit"
#: How far a reported rate may be from a plan's.
CLOSE = 0.03
#: The share of policed segments that the reported rates cover. Rare plans may be missing.
COVERED = 0.75
#: The size of a segment: more than any bucket, so that each segment of a policed plan is policed.
CHUNK = "600kB"
#: A segment with this many losses is lossy.
LOSSY = 15


@dataclass(frozen=True)
class Plan:
    """What a subscriber gets."""

    name: str
    #: The elements on the path, before the access line.
    limiter: str
    #: With a policer.
    rate_mbit: float | None = None
    #: How many of the client's connections share it at the same time.
    connections: int = 1


def policer(rate_mbit: float, bucket: str, connections: int = 1) -> Plan:
    text = f'kind = "policer"\nrate = "{rate_mbit}mbit"\nburst = "{bucket}"'
    return Plan(f"policer-{rate_mbit}-{bucket}-{connections}", text, rate_mbit, connections)


SHAPED = [
    Plan("shaper-4", 'kind = "shaper"\nrate = "4mbit"\nqueue = "120kB"'),
    Plan("shaper-12", 'kind = "shaper"\nrate = "12mbit"\nqueue = "400kB"'),
]
#: Lines where packets get lost by chance, or in short queues.
FREE = [
    Plan("free", 'kind = "loss"\nprobability = 0.0'),
    Plan("lossy", 'kind = "loss"\nprobability = 0.03'),
    Plan("short-queue", 'kind = "link"\nrate = "20mbit"\nqueue = "100kB"'),
]
#: The plans of the policed in each system, and their share of its clients.
POLICED: list[tuple[float, list[Plan]]] = [
    (0.45, [policer(1, "30kB"), policer(2, "30kB")]),
    (0.30, [policer(2, "60kB", connections=2), policer(4, "60kB")]),
    # The rate of a bucket that hardly holds five packets is not told.
    (0.35, [policer(3, "30kB"), policer(3, "8kB")]),
    (0.0, []),
]


@dataclass(frozen=True)
class Network:
    asn: int
    country: str
    continent: str
    #: The plan of each client.
    clients: list[Plan]
    #: How many segments each connection has.
    segments_each: int

    @property
    def prefix(self) -> str:
        """All clients of the lab are in 10.128.0.0/9."""
        return f"10.{128 + self.asn - 64500}"

    def address(self, number: int) -> str:
        return f"{self.prefix}.{number // 250}.{number % 250 + 1}"

    @property
    def policed(self) -> list[Plan]:
        return [plan for plan in self.clients if plan.rate_mbit is not None]

    def behind_policers(self) -> list[bytes]:
        """The addresses of clients with a policer, as datasets have them."""
        policed = (self.address(number) for number, plan in enumerate(self.clients) if plan.rate_mbit is not None)
        return [ipaddress.IPv6Address(f"::ffff:{address}").packed for address in policed]

    def segments(self, plans: list[Plan]) -> int:
        return sum(plan.connections * self.segments_each for plan in plans)

    def rates(self, share: float = 1) -> list[float]:
        """The rates of policers that this share of the policed segments has, the most frequent first."""
        by_rate: dict[float, int] = {}
        for plan in self.policed:
            by_rate[plan.rate_mbit or 0] = by_rate.get(plan.rate_mbit or 0, 0) + plan.connections
        needed: list[float] = []
        for rate, _ in sorted(by_rate.items(), key=lambda entry: -entry[1]):
            if sum(by_rate[had] for had in needed) < share * sum(by_rate.values()):
                needed.append(rate)
        return needed


def networks(clients: int, segments: int, seed: int) -> list[Network]:
    chance = random.Random(seed)
    found = []
    for number, (continent, countries) in enumerate(COUNTRIES.items()):
        for place, country in enumerate(countries):
            share, plans = POLICED[(place + number) % len(POLICED)]
            drawn = [chance.choice(plans if chance.random() < share else SHAPED + FREE) for _ in range(clients)]
            found.append(Network(64500 + 4 * number + place, country, continent, drawn, segments))
    return found


def scenario(network: Network, seed: int) -> str:
    """All clients of a network behind one tap, each with a limiter and a line of its own."""
    parts = [f'title = "AS{network.asn}"\nduration = "10min"\nseed = {seed}', element("server", 'kind = "tap"\nshared = true')]
    parts.append(element("line", f'kind = "link"\nrate = "{LINE}"\nqueue = "500kB"'))
    plans = {plan.name: plan for plan in network.clients}
    addresses: dict[str, list[str]] = {name: [] for name in plans}
    for number, plan in enumerate(network.clients):
        addresses[plan.name].append(f'"{network.address(number)}"')
    for name, plan in plans.items():
        parts.append(element(f"limiter-{name}", plan.limiter))
        parts.append(f'[[aggregate]]\nname = "{name}"\ncount = {len(addresses[name])}')
        parts.append(
            f'[[flow]]\nname = "video-{name}"\naggregate = "{name}"\ncount = {plan.connections}\n'
            f'per-aggregate = ["client", "rtt"]\nclient = [{", ".join(addresses[name])}]\n'
            f'rtt = "10ms..60ms"\nslow-start-after-idle = false\nstart = "0s..10s"\npath = ["server", "limiter-{name}", "line"]\nback = ["server"]\n'
            f'traffic = {{ kind = "video", chunk = "{CHUNK}", chunks = {network.segments_each}, pause = "3s" }}'
        )
    return "\n".join(parts)


def element(name: str, text: str) -> str:
    return f'[[element]]\nname = "{name}"\n{text}'


def build(found: list[Network], folder: Path, program: str, seed: int) -> Path:
    """Simulates each network, and adds its captures to a dataset as an operator would."""
    table = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="lab")
    for network in found:
        place = {"country": network.country, "continent": network.continent}
        table.insert_network(
            IPSet([f"{network.prefix}.0.0/16"]), {"asn": f"AS{network.asn}", "as_name": f"Lab {network.asn}", **place}
        )
    table.to_db_file(str(folder / "networks.mmdb"))
    dataset = folder / "dataset"

    def simulate(network: Network) -> list[Path]:
        captures = []
        for name, content in tidegate.lab.run(scenario(network, seed), captures=True).captures.items():
            captures.append(folder / f"{network.asn}-{Path(name).name}")
            captures[-1].write_bytes(content)
        return captures

    # A few networks at a time: the captures of all would fill the disk.
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        for few in (found[at : at + cores] for at in range(0, len(found), cores)):
            captures = [capture for made in pool.map(simulate, few) for capture in made]
            detect = [program, "detect", "--quiet", "--dataset", str(dataset), "--asn", str(folder / "networks.mmdb")]
            subprocess.run([*detect, *map(str, captures)], check=True, stdout=subprocess.DEVNULL)
            for capture in captures:
                capture.unlink()
    return dataset


def shares_of_lossy(found: list[Network], dataset: Path) -> dict[int, float]:
    """What share of the lossy segments of each network is behind policers."""
    segments = pl.scan_parquet(dataset / "segments" / "**" / "*.parquet")
    lossy = segments.filter(~pl.col("from_client"), pl.col("lost_packets") >= LOSSY).select("client_asn", "client_address").collect()
    behind = [address for network in found for address in network.behind_policers()]
    shares = lossy.group_by("client_asn").agg(pl.col("client_address").is_in(behind).mean())
    return dict(shares.iter_rows())


def compare(found: list[Network], report: tidegate.Report, of_lossy: dict[int, float]) -> list[str]:
    """Prints the truth beside the report. Returns what does not agree."""
    wrong = []
    print("AS      country  clients  segments  policed   judged so   reported (95 %)           rates, Mbit/s    reported")
    for network in found:
        (row,) = report.networks.filter(pl.col("client_asn") == network.asn).to_dicts()
        truth = network.segments(network.policed) / network.segments(network.clients)
        low, high = row["prevalence_low"], row["prevalence_high"]
        rates = sorted(network.rates())
        clusters = report.clusters.filter(pl.col("client_asn") == network.asn)["rate_bps"].sort().to_list()
        shown = " ".join(f"{rate / 1e6:.3f}" for rate in clusters)
        print(
            f"{network.asn}   {network.country}      {row['clients']:>7}  {row['segments']:>8}   {100 * truth:5.1f} %   "
            f"{100 * row['policed_share']:7.2f} %   {100 * row['prevalence']:5.1f} % ({100 * low:4.1f} to {100 * high:4.1f} %)   "
            f"{' '.join(str(rate) for rate in rates):<15}  {shown}"
        )
        wrong += disagreements(network, row, truth, clusters)
    return wrong + compare_lossy(found, report, of_lossy)


def compare_lossy(found: list[Network], report: tidegate.Report, of_lossy: dict[int, float]) -> list[str]:
    """The same for lossy segments."""
    wrong = []
    print(f"\nof segments with {LOSSY} losses or more\nAS      policed   judged so   reported (95 %)")
    for network in found:
        (row,) = report.networks.filter(pl.col("client_asn") == network.asn).to_dicts()
        truth = of_lossy[network.asn]
        low, high = row["prevalence_of_lossy_low"], row["prevalence_of_lossy_high"]
        print(
            f"{network.asn}   {100 * truth:5.1f} %   {100 * row['policed_share_of_lossy']:7.2f} %   "
            f"{100 * row['prevalence_of_lossy']:5.1f} % ({100 * low:4.1f} to {100 * high:4.1f} %)"
        )
        if not low <= truth <= high:
            wrong.append(f"AS{network.asn}: a share of {truth} of the lossy segments is not in the interval")
    return wrong


def disagreements(network: Network, row: dict[str, Any], truth: float, clusters: list[int]) -> list[str]:
    wrong = []
    # A stall now and then looks like the end of a segment.
    expected = network.segments(network.clients)
    if abs(row["segments"] - expected) > max(1, 0.001 * expected):
        wrong.append(f"{row['segments']} segments")
    if not row["prevalence_low"] <= truth <= row["prevalence_high"]:
        wrong.append(f"a share of {truth} is not in the interval")
    # A rate is reported as frames on the link, and set as packets: 1.2 % less with full packets.
    for rate in network.rates(COVERED):
        if not any(abs(found / 1e6 / rate - 1) <= CLOSE for found in clusters):
            wrong.append(f"{rate} Mbit/s is not found")
    for found in clusters:
        if not any(abs(found / 1e6 / rate - 1) <= CLOSE for rate in network.rates()):
            wrong.append(f"{found} bit/s is no plan")
    return [f"AS{network.asn}: {text}" for text in wrong]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=1000, help="clients of each of the 20 systems")
    options.add_argument("--segments", type=int, default=10, help="segments of each connection")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--save", type=Path, help="a folder for the report")
    given = options.parse_args()
    began = time.monotonic()
    found = networks(given.clients, given.segments, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        dataset = build(found, Path(folder), os.environ.get("TIDEGATE_PROGRAM", "tidegate"), given.seed)
        built = time.monotonic()
        files = list(dataset.rglob("segments/**/*.parquet"))
        rows, size = len(pl.read_parquet(files, columns=["from_client"])), sum(file.stat().st_size for file in files)
        of_lossy = shares_of_lossy(found, dataset)
        read = time.monotonic()
        report = tidegate.report(dataset)
        reported = time.monotonic()
    wrong = compare(found, report, of_lossy)
    print(f"{report.networks['sampled_segments'].sum()} segments")
    print(f"{rows:,} rows of {size / rows:.0f} bytes in the dataset", file=sys.stderr)
    print(f"simulated and analysed in {built - began:.0f} s, reported in {reported - read:.1f} s", file=sys.stderr)
    if given.save:
        report.save(given.save)
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
