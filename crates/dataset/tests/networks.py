"""Writes the tables of networks that tests use, beside this file. Needs mmdb-writer from PyPI.

One table is as MaxMind writes it, the other one as IPinfo does, apart from the organisation.
"""

from pathlib import Path

from mmdb_writer import MMDBWriter
from netaddr import IPSet


def write(name: str, kind: str, networks: dict[str, dict]) -> None:
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type=kind)
    for prefix, record in networks.items():
        writer.insert_network(IPSet([prefix]), record)
    writer.to_db_file(str(Path(__file__).with_name(name)))


write(
    "asn.mmdb",
    "GeoLite2-ASN",
    {
        "10.0.0.0/8": {
            "autonomous_system_number": 64496,
            "autonomous_system_organization": "Example Access",
        },
        "2001:db8::/32": {"asn": "AS64511", "as_name": "Example Six", "country": "DE", "continent": "EU"},
    },
)
write(
    "country.mmdb",
    "GeoLite2-Country",
    {"10.0.0.0/16": {"country": {"iso_code": "KE"}, "continent": {"code": "AF"}}},
)
