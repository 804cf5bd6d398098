#!/usr/bin/env python3
"""Writes the handmade inputs of fuzz/corpus: every format, compression and link layer once, and
what is wrong with captures in the wild. Needs nothing but Python, and `zstd` for one of them.

What the fuzzer found and `fuzz/run minimise` kept stands beside them, named by its hash.
"""

import gzip
import lzma
import random
import struct
import subprocess
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def tcp(seq, ack, flags, payload=0, options=b"", ports=(40000, 443), window=500):
    options += b"\1" * (-len(options) % 4)
    head = struct.pack(
        ">HHIIBBHHH", *ports, seq, ack, (20 + len(options)) // 4 << 4, flags, window, 0, 0
    )
    return head + options + bytes(payload)


def ipv4(segment, back=False, fragment=0, total=None, options=b""):
    ends = [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]
    header = 20 + len(options)
    total = header + len(segment) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x40 | header // 4, 0, total, 7, fragment, 64, 6, 0)
    return head + b"".join(ends[::-1] if back else ends) + options + segment


def ipv6(segment, next_header=6, extensions=b"", length=None):
    length = len(extensions) + len(segment) if length is None else length
    head = struct.pack(">IHBB", 6 << 28, length, next_header, 64)
    return head + bytes(15) + b"\1" + bytes(15) + b"\2" + extensions + segment


def ethernet(kind, payload):
    return b"\2\0\0\0\0\1\2\0\0\0\0\2" + struct.pack(">H", kind) + payload


def carrier(protocol, inner):
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 7, 0, 64, protocol, 0)
    return head + bytes([10, 9, 9, 1, 10, 9, 9, 2]) + inner


def udp(port, payload):
    return carrier(17, struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload)


TIMES = b"\1\1\x08\x0a" + struct.pack(">II", 11, 7)
SACK = b"\1\1\5\x12" + struct.pack(">IIII", 5000, 6448, 1000, 2448)
SYN = ipv4(tcp(999, 0, 2, options=b"\2\4\5\xb4\1\3\3\7" + TIMES))
DATA = ipv4(tcp(1000, 500, 0x18, 40, TIMES))
ACKS = ipv4(tcp(500, 1000, 0x10, 0, TIMES + SACK, ports=(443, 40000)), back=True)
DATA6 = ipv6(tcp(1000, 500, 0x18, 40, TIMES))
ERSPAN_2 = b"\x10\0\x88\xbe" + bytes(4) + b"\x10" + bytes(7)
ERSPAN_3 = b"\x10\0\x22\xeb" + bytes(4) + b"\x20" + bytes(11)
# The rest of GTP-U's header, and a PDU session container behind it.
SESSION = bytes(7) + b"\x85\1\x10\1\0"
SNAP = b"\xaa\xaa\3\0\0\0\x08\0"

# Link type, what the frame is, its bytes.
FRAMES = [
    (1, "ethernet", ethernet(0x0800, DATA)),
    (1, "vlan", ethernet(0x8100, b"\0\5\x08\0" + DATA)),
    (1, "qinq", ethernet(0x88A8, b"\0\5\x81\0\0\6\x86\xdd" + DATA6)),
    (1, "mpls", ethernet(0x8847, b"\0\1\0\x40\0\1\1\x40" + DATA)),
    (1, "pseudowire", ethernet(0x8847, b"\0\1\1\x40\0\0\0\0" + ethernet(0x0800, DATA))),
    (1, "pppoe", ethernet(0x8864, b"\x11\0\0\1\0\x5e\0\x21" + DATA)),
    (1, "snap", ethernet(len(SNAP + DATA), SNAP + DATA)),
    (1, "arp", ethernet(0x0806, bytes(28))),
    (113, "sll", b"\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\0" + DATA),
    (276, "sll2", b"\x86\xdd\0\0\0\0\0\2\0\1\0\6\2\0\0\0\0\1\0\0" + DATA6),
    (101, "raw4", DATA),
    (101, "raw6", DATA6),
    (12, "raw12", DATA),
    (14, "raw14", DATA6),
    (228, "ipv4", DATA),
    (229, "ipv6", DATA6),
    (0, "null-le", b"\2\0\0\0" + DATA),
    (0, "null-be", b"\0\0\0\x1e" + DATA6),
    (108, "loop", b"\0\0\0\2" + DATA),
    (9, "ppp", b"\xff\3\0\x21" + DATA),
    (50, "ppp-hdlc", b"\xff\3\0\x57" + DATA6),
    (9, "ppp-compressed", b"\x21" + DATA),
    (51, "ppp-ether", b"\x11\0\0\1\0\x5e\0\x21" + DATA),
    (101, "fragment", ipv4(tcp(1000, 500, 0x10, 8), fragment=0x2000)),
    (101, "fragment6", ipv6(tcp(1, 1, 16), 44, b"\6\0\0\1\0\0\0\1")),
    (101, "atomic6", ipv6(tcp(1, 1, 16, 4), 44, b"\6\0\0\0\0\0\0\1")),
    (101, "extensions6", ipv6(tcp(1, 1, 16, 4), 0, b"\x3c\0\1\4\0\0\0\0\6\0\1\4\0\0\0\0")),
    (101, "auth6", ipv6(tcp(1, 1, 16, 4), 51, b"\6\4" + bytes(22))),
    (101, "jumbo6", ipv6(tcp(1, 1, 16, 4), 0, b"\6\0\xc2\4\0\1\x10\0", 0)),
    (101, "super4", ipv4(tcp(1000, 1, 16, 0), total=64000)),
    (101, "big-tcp4", ipv4(tcp(1000, 1, 16, 90), total=0)),
    (101, "options4", ipv4(tcp(1000, 1, 16, 4), options=b"\x94\4\0\0")),
    (101, "sack", ACKS),
    (101, "cut-options", ACKS[:58]),
    (101, "cut-flags", ACKS[:33]),
    (101, "short-total", ipv4(tcp(1, 1, 16), total=19)),
    (101, "udp6", ipv6(bytes(8), 17)),
    (101, "ip-in-ip", carrier(4, carrier(4, DATA))),
    (101, "ip6-in-ip", carrier(41, DATA6)),
    (101, "gre", carrier(47, b"\xb0\0\x08\0" + bytes(12) + DATA)),
    (101, "pptp", carrier(47, b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\3\0\x21" + DATA)),
    (101, "erspan-1", carrier(47, b"\0\0\x88\xbe" + ethernet(0x0800, DATA))),
    (101, "erspan-2", carrier(47, ERSPAN_2 + ethernet(0x0800, DATA))),
    (101, "erspan-3", carrier(47, ERSPAN_3 + ethernet(0x86DD, DATA6))),
    (101, "vxlan", udp(4789, b"\x08" + bytes(7) + ethernet(0x8100, b"\0\5\x08\0" + DATA))),
    (101, "geneve", udp(6081, b"\1\0\x65\x58" + bytes(8) + ethernet(0x0800, DATA))),
    (101, "gtp-u", udp(2152, struct.pack(">BBH", 0x34, 255, 8 + len(DATA)) + SESSION + DATA)),
]


def pcap(frames, order="<", magic=0xA1B2C3D4, link=101, snaplen=65535, version=(2, 4)):
    out = struct.pack(order + "IHHIIII", magic, *version, 0, 0, snaplen, link)
    extra = bytes(8) if magic == 0xA1B2CD34 else b""
    for i, frame in enumerate(frames):
        kept = frame[:snaplen]
        out += struct.pack(order + "IIII", 1500000000, 1000 + i * 900, len(kept), len(frame))
        out += extra + kept
    return out


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def option(order, code, value):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order):
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order, link, *options):
    body = struct.pack(order + "HHI", link, 0, 0)
    return block(order, 1, body + b"".join(options))


def enhanced(order, number, time, frame):
    head = (number, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
    return block(order, 6, struct.pack(order + "IIIII", *head) + frame)


def pcapng(order):
    o = order
    drops = option(o, 5, struct.pack(o + "Q", 3))
    return (
        section(o)
        + interface(o, 101, option(o, 9, b"\x09"), option(o, 14, struct.pack(o + "q", 5)))
        + interface(o, 1, option(o, 9, b"\x94"))
        + interface(o, 147)
        + enhanced(o, 0, 1500000000000000000, SYN)
        + enhanced(o, 1, 1500000000 << 20, ethernet(0x0800, DATA))
        + enhanced(o, 2, 1, bytes(4))
        + block(o, 2, struct.pack(o + "HHIIII", 0, 9, 349245, 3, 60, 60) + DATA[:60])
        + block(o, 3, struct.pack(o + "I", len(DATA)) + DATA)
        + block(o, 4, bytes(4))
        + block(o, 5, struct.pack(o + "III", 0, 0, 0) + drops)
        + section("<")
        + interface("<", 101)
        + enhanced("<", 0, 1500000001000000, ACKS)
    )


def exchange(losses=(), chunks=3, packets=40):
    """A client asks, a server sends, some packets are lost and sent again."""
    frames = [SYN]
    ask, seq = 1000, 500
    for _ in range(chunks):
        frames.append(ipv4(tcp(ask, seq, 0x18, 10)))
        ask += 10
        first = seq
        again = []
        for i in range(packets):
            frames.append(ipv4(tcp(seq, ask, 0x10, 0, ports=(443, 40000)), True, total=1040))
            if i in losses:
                again.append(seq)
            seq += 1000
            una = again[0] if again else seq
            sack = b"\1\1\5\x0a" + struct.pack(">II", seq - 1000, seq) if again else b""
            frames.append(ipv4(tcp(ask, una, 0x10, 0, sack)))
        for at in again:
            frames.append(ipv4(tcp(at, ask, 0x10, 0, ports=(443, 40000)), True, total=1040))
            frames.append(ipv4(tcp(ask, seq, 0x10)))
        assert first < seq
    frames.append(ipv4(tcp(seq, ask, 0x11, 0, ports=(443, 40000)), True))
    frames.append(ipv4(tcp(ask, seq + 1, 0x11)))
    return frames


def zstd(data):
    return subprocess.run(["zstd", "-19c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def captures():
    few = [SYN, DATA, ACKS]
    plain = pcap(few)
    yield "us-le.pcap", plain
    yield "us-be.pcap", pcap(few, ">")
    yield "ns-le.pcap", pcap(few, "<", 0xA1B23C4D)
    yield "ns-be.pcap", pcap(few, ">", 0xA1B23C4D)
    yield "kuznetzov.pcap", pcap(few, "<", 0xA1B2CD34)
    yield "snaplen.pcap", pcap(few, snaplen=58)
    yield "le.pcapng", pcapng("<")
    yield "be.pcapng", pcapng(">")
    yield "us.pcap.gz", gzip.compress(plain, mtime=0)
    yield "us.pcap.xz", lzma.compress(plain)
    yield "us.pcap.zst", zstd(plain)
    yield "two-members.pcap.gz", gzip.compress(plain, mtime=0) + gzip.compress(plain[24:], mtime=0)
    yield "cut.pcap", plain[:-20]
    yield "cut-header.pcap", plain[:20]
    yield "cut.pcapng", pcapng("<")[:-9]
    yield "cut.pcap.gz", gzip.compress(plain, mtime=0)[:-12]
    yield "cut.pcap.xz", lzma.compress(plain)[:-30]
    yield "long-packet.pcap", plain[:32] + b"\xff\xff\xff\x7f" + plain[36:]
    yield "version.pcap", pcap(few, version=(3, 0))
    yield "link.pcap", pcap(few, link=147)
    yield "bad-length.pcapng", section("<") + struct.pack("<II", 6, 13) + bytes(20)
    yield "no-interface.pcapng", section("<") + enhanced("<", 4, 1, DATA)
    yield "not-a-capture", b"GIF89a and more"
    yield "empty", b""


def write(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


for name, data in captures():
    write("read", name, data)
    if not name.startswith(("cut", "version", "link", "not", "empty")):
        write("analyse", name, data)
for link, name, frame in FRAMES:
    write("wire", name, struct.pack(">HH", link, 0) + frame)
write("analyse", "clean.pcap.xz", lzma.compress(pcap(exchange())))
write("analyse", "losses.pcap.xz", lzma.compress(pcap(exchange(range(3, 40, 2)))))
write("analyse", "bursts.pcap.xz", lzma.compress(pcap(exchange(range(20, 38)))))
write("packets", "empty", b"")
# Handshake, request, response with a loss, selective acknowledgement, retransmission, close.
RECORDS = [
    (1, 0, 0x48, 0, 0, 0, 9, 0),
    (1, 1, 0x49, 0, 0, 0, 9, 0),
    (1, 0, 0x0D, 1, 1, 0x61, 9, 0),
    *((1, 1, 0x0D, n, 2, 0x61, 9, 0) for n in range(1, 12)),
    *((1, 0, 0x1D, 2, 3, 0, 9, n) for n in range(4, 12)),
    (90, 1, 0x0D, 3, 2, 0x61, 9, 0),
    (1, 0, 0x0D, 2, 12, 0, 9, 0),
    (1, 0, 0x0D, 2, 12, 0, 0, 0),
    (99, 1, 0x0D, 12, 2, 0xFF, 9, 0),
    (1, 1, 0x0A, 12, 2, 0, 9, 0),
    (1, 0, 0x0A, 2, 13, 0, 9, 0),
]
for choice in range(0, 32, 5):
    write("packets", f"exchange-{choice}", bytes([choice]) + b"".join(map(bytes, RECORDS)))
# The same seen twice: with a packet lost between in three, acknowledgements the other way, and changes.
write("pair", "empty", b"")
for choice, change in [(1, 0), (9, 8), (33, 16), (17, 32), (0, 24)]:
    seen = b""
    for i, record in enumerate(RECORDS * 8):
        back = 0 if record[1] == 1 else 4
        lost = 2 if back == 0 and i % 3 == 0 else 0
        seen += bytes([back | lost | change, 50 + i % 7]) + bytes(record)
    write("pair", f"exchange-{choice}-{change}", bytes([choice]) + seen)
for text in ["10mbit", "1.5 Mbit/s", "500kbit", "0bit", "18446744073709551615bit", "10bps", "1."]:
    write("rate", text.replace("/", "-").replace(" ", "-"), text.encode())

for scenario in (CORPUS.parent.parent / "crates/lab/scenarios").glob("*.toml"):
    write("scenario", scenario.name, scenario.read_bytes())
# Archives of web pages: as Chromium's tools write them with initiators, as Playwright writes them, and times and sizes at their bounds.
DOCUMENT = '"request":{"url":"https://a/","headersSize":300,"bodySize":0},"response":{"status":200,"headersSize":200,"bodySize":9800}'
PAGE = '"pages":[{"id":"p","startedDateTime":"2026-02-28T23:59:59.9Z","pageTimings":{"onLoad":900}}]'


def har(*entries):
    return ('{"log":{' + PAGE + ',"entries":[' + ",".join("{" + one + "}" for one in entries) + "]}}").encode()


def fetched(url, start, rest, size=5000):
    return f'"pageref":"p","startedDateTime":"{start}","request":{{"url":"https://{url}"}},"response":{{"status":200,"_transferSize":{size}}},{rest}'


FIRST = '"pageref":"p","startedDateTime":"2026-02-28T23:59:59.9Z","time":200,' + DOCUMENT
PARSER = '"time":60,"timings":{"wait":40,"receive":10},"_initiator":{"type":"parser","url":"https://a/"}'
SCRIPT = '"time":50,"timings":{"wait":40},"_initiator":{"stack":{"callFrames":[],"parent":{"callFrames":[{"url":"https://a/s.js"}]}}}'
TWICE = '"time":260,"timings":{"dns":0,"connect":80,"ssl":60,"send":0,"wait":50,"receive":10}'
write("har", "initiators", har(FIRST, fetched("a/s.js", "2026-03-01T00:00:00.02Z", PARSER), fetched("b/p", "2026-03-01T01:00:00.2+01:00", SCRIPT)))
write("har", "handshakes", har(fetched("a/", "2026-02-28T23:59:59.9Z", TWICE), fetched("a/x", "2026-03-01T00:00:00.1Z", PARSER)))
write("har", "bounds", har(FIRST, fetched("a/x", "9999-12-31T23:59:60.9-9999", '"time":1e308,"timings":{"wait":1e308}', "1e308")))
write("har", "alone", b'{"log":{"entries":[{"startedDateTime":"2026-03-01T00:00:00Z",' + DOCUMENT.encode() + b"}]}}")
write("har", "empty", b"")
# Limits as routers write them, by vendor.
LIMITS = {
    "ios": b"police 10000000 312500 625000 conform-action transmit exceed-action drop",
    "ios-colours": b"police cir 10m bc 100k pir 20m be 200k conform-action transmit exceed-action transmit violate-action drop",
    "ios-shape": b"policy-map P\n class class-default\n  shape average 20000000\n  queue-limit 200 packets\n",
    "ios-xr": b"police rate 10 mbps burst 100 ms",
    "junos": b"policer P { if-exceeding { bandwidth-limit 10m; burst-size-limit 625k; } then discard; }",
    "junos-set": b"set firewall policer P if-exceeding bandwidth-limit 1g burst-size-limit 15k\nset firewall policer P then discard\n",
    "tc-police": b"tc filter add dev eth0 ingress matchall action police rate 10mbit burst 32k conform-exceed drop",
    "tc-tbf": b"tc qdisc add dev eth0 root tbf rate 10mbit burst 32kbit latency 50ms",
    "tc-htb": b"tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit ceil 10mbit burst 15k",
    "nft": b"ip daddr 192.0.2.1 limit rate over 1250 kbytes/second burst 32 kbytes drop",
}
for name, line in LIMITS.items():
    write("router", name, line)
# The gate's file, and after the dashes the one that it imports.
ROOT = CORPUS.parent.parent
BRIDGE = b'''[[interface]]
name = "eth1"
side = "core"
[[interface]]
name = "eth2"
side = "access"
hook = "xdp"
'''
CIRCUIT = BRIDGE + b'''[plan.circuit]
policy = { fair = 24 }
rtt = "60ms"
[[import]]
csv = "ShapedDevices.csv"
plan = "circuit"
'''
write("gate", "example.toml", (ROOT / "packaging/gate.example.toml").read_bytes())
write("gate", "csv", b'''unknown = "drop"
[[interface]]
name = "ppp0"
ingress = "down"
egress = "up"
[plan.gold]
down = { rate = "100mbit", scheme = "pqp", queue = "1MB" }
up = "20mbit"
upper = 1.4
period = "200ms"
[[import]]
csv = "subscribers.csv"
---
# who, and how much
name,plan,down,up,addresses,vlan,qinq,pppoe
ann,gold,,,192.0.2.1 2001:db8:1::/56,,,
bob,,30mbit,5mbit,,"7;8",100.200,9
''')
write("gate", "shaped-devices", CIRCUIT + b'''---
Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
1,"968 Circle St., ""A""",1,Device 1,Site,,"100.64.0.1, 100.64.0.14",fdd7:b724:0:100::/56,1,1,155,20,
1,,2,Device 2,Site,,100.64.0.2,,1,1,155,20,
2,,3,,,,100.64.0.4/30,,1,1,10.5,0.5,
''')
write("gate", "policies", BRIDGE + b'''[plan.a]
down = "10mbit"
policy = { priority = ["queue", { weighted = [[4, { fair = 8 }], [1, "queue"]] }] }
default-class = 1
excess = "cs1"
[[plan.a.rule]]
class = 0
dscp = "ef,cs5"
protocol = "udp"
remote = "198.51.100.0/24"
local-ports = "5000-5100"
[plan.b]
down = "1gbit"
up = "1gbit"
scheme = "policer"
burst = "1MB"
[accounting]
layer = 3
overhead = "-14B"
[[subscriber]]
name = "x"
plan = "a"
addresses = ["0.0.0.0/0", "::/0"]
[[subscriber]]
name = "y"
plan = "b"
vlan = [1, 2]
''')
write("gate", "wrong", CIRCUIT + b'''[[import]]
csv = "again.csv"
[[subscriber]]
nmae = "x\\u001b[2J"
adresses = "10.0.0.300"
down = "10"
---
name,name,plan
a,a
\x1b[2Jb,b
"a
''')
choose = random.Random(1)
for number, shape in enumerate([0, 0x3, 0x2A5, 0x1FF3A, 0x7FFFFFFF]):
    data = struct.pack("<III", shape, 10_000_000, (number & 1) << 24 | 30_000)
    for _ in range(200):
        gap = [choose.randrange(256), choose.choice([0, 8, 12, 16, 20, 40])]
        length = struct.pack("<H", choose.choice([40, 1500, 9000]))
        data += bytes(gap) + length + bytes([choose.randrange(20), 0])
    write("phantom", f"shape-{number}", data)


def box(kind, *parts):
    content = b"".join(parts)
    return struct.pack(">I4s", 8 + len(content), kind) + content


# As ffmpeg writes fragments: no header says how long they play, but their beginnings and an index at the end do.
track = box(b"tkhd", struct.pack(">4I", 0, 0, 0, 1), bytes(68))
track += box(b"mdia", box(b"mdhd", struct.pack(">6I", 0, 0, 0, 90_000, 0, 0)))
movie = box(b"mvhd", struct.pack(">5I", 0, 0, 0, 1000, 0), bytes(80)) + box(b"trak", track)
file = box(b"ftyp", b"isom") + box(b"moov", movie, box(b"mvex", box(b"trex", bytes(24))))
places = b""
for number in range(3):
    places += struct.pack(">II3s", 900 + 900_000 * number, len(file), b"\1\1\1")
    part = box(b"tfhd", struct.pack(">II", 0, 1)) + box(b"tfdt", struct.pack(">IQ", 1 << 24, 900 + 900_000 * number))
    file += box(b"moof", box(b"traf", part)) + box(b"mdat", bytes(40))
places = box(b"tfra", struct.pack(">4I", 0, 1, 0, 3), places)
write("media", "mp4-fragments", file)
write("media", "mp4-index-of-fragments", file + box(b"mfra", places, box(b"mfro", struct.pack(">II", 0, 24 + len(places)))))
