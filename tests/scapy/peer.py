#!/usr/bin/python3
"""An MRC peer of its own: scapy carries its frames, and everything MRC is here once more, written from the wire format and not from the NIC's code.

It is the peer "b" of a NIC that `mrcnic run` has on the other end of a veth: its numbers are those of the NIC's file ([run.peer.other]), and the
NIC's own come from `mrcnic ctl peers`. It answers and asks ARP, sends Writes and judges each byte of what they draw, and takes Writes and
acknowledges them. The first disagreement ends it with exit code 1; 2 is for a wrong call.
"""

import argparse
import json
import select
import struct
import subprocess
import sys
import time

try:
    from scapy.config import conf
    from scapy.fields import BitField, ByteField, IntField, LongField, ShortField, XBitField, XByteField, XIntField, XShortField
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.l2 import ARP, Ether
    from scapy.packet import Packet, Raw, bind_layers
except ImportError:
    sys.exit("peer.py: there is no scapy: scripts/setup --test installs python3-scapy")

MRC_PORT = 4791
BROADCAST = "ff:ff:ff:ff:ff:ff"
ZERO = "00:00:00:00:00:00"
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(0xC6, 0xCC)
ACK, SACK, NACK, PROBE = 0xD1, 0xDC, 0xDD, 0xDE
PSN_OOR_WINDOW = 0x0B
SYNDROME_ACK, SYNDROME_ACCESS = 0x1F, 0x62
TRIMMABLE, TRIMMABLE_RETX, CONTROL = 4, 8, 46
NOT_ECT, ECT0, CE = 0, 2, 3
PATIENCE = 10.0


class Disagreement(Exception):
    """The NIC says something else than this peer."""


# ---- Headers: the layouts of OCP MRC 1.0 ----


class BTH(Packet):
    fields_desc = [
        XByteField("opcode", 0),
        BitField("se", 0, 1), BitField("m", 0, 1), BitField("pad", 0, 2), BitField("tver", 0, 4),
        XShortField("pkey", 0xFFFF),
        ByteField("var_res", 0), XBitField("dqp", 0, 24),
        BitField("a", 0, 1), BitField("r", 0, 1), BitField("rtx", 0, 1), BitField("tsh", 0, 1), BitField("inv_res", 0, 4),
        BitField("psn", 0, 24),
    ]  # fmt: skip


class METH(Packet):
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]


class RETH(Packet):
    fields_desc = [LongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]


class AETH(Packet):
    fields_desc = [XByteField("syndrome", 0), BitField("msn", 0, 24)]


class SETH(Packet):
    fields_desc = [
        BitField("type", 0, 4), BitField("nh", 0, 5), BitField("m", 0, 2), BitField("r0", 0, 3), BitField("pr", 0, 1), BitField("r1", 0, 1),
        ShortField("offset_or_id", 0),
        IntField("entropy", 0),
        ShortField("spdcid", 0), ShortField("dpdcid", 0),
        ByteField("res", 0), BitField("cack_psn", 0, 24),
        BitField("cc_type", 0, 4), BitField("cc_fl", 0, 4), ByteField("mpr", 0), ShortField("sack_offset", 0),
        LongField("bitmap", 0),
        ShortField("tx_timestamp", 0), BitField("r2", 0, 1), BitField("ooo_count", 0, 15),
        BitField("restore", 0, 1), BitField("penalty", 0, 7), BitField("rcvd_bytes", 0, 24),
    ]  # fmt: skip


class NETH(Packet):
    fields_desc = [
        BitField("type", 0, 4), BitField("nh", 0, 5), BitField("r0", 0, 7), XByteField("reason", 0), ByteField("vendor", 0),
        IntField("entropy", 0),
        ShortField("spdcid", 0), ShortField("dpdcid", 0),
        ByteField("res", 0), BitField("nack_psn", 0, 24),
        BitField("cc_type", 2, 4), BitField("cc_fl", 0, 4), ByteField("res1", 0), ShortField("tx_timestamp", 0),
    ]  # fmt: skip


class PETH(Packet):
    fields_desc = [
        BitField("type", 0, 4), BitField("nh", 0, 5), BitField("r0", 0, 15), ByteField("vendor", 0),
        ShortField("probe_id", 0), ShortField("r1", 0),
        ShortField("spdcid", 0), ShortField("dpdcid", 0),
        ShortField("tx_timestamp", 0), BitField("tsr", 0, 1), BitField("r2", 0, 11), BitField("ftype", 1, 4),
    ]  # fmt: skip


bind_layers(UDP, BTH, dport=MRC_PORT)
for opcode in (WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM):
    bind_layers(BTH, METH, opcode=opcode)
bind_layers(METH, RETH)
bind_layers(BTH, AETH, opcode=ACK)
bind_layers(BTH, SETH, opcode=SACK)
bind_layers(BTH, NETH, opcode=NACK)
bind_layers(BTH, PETH, opcode=PROBE)


# ---- The invariant CRC ----


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0xEDB88320 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(crc_table())


def crc32(data):
    """The CRC of Ethernet."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def icrc(packet):
    """The iCRC of an IPv4 or IPv6 packet that has everything before it, in the order of its bytes on the wire."""
    covered = bytearray(packet)
    if covered[0] >> 4 == 4:
        udp = 4 * (covered[0] & 15)
        ones = [1, 8, 10, 11]
    else:
        udp = 40
        covered[0] |= 0x0F
        ones = [1, 2, 3, 7]
    for at in ones + [udp + 6, udp + 7, udp + 8 + 4]:
        covered[at] = 0xFF
    return struct.pack("<I", crc32(b"\xff" * 8 + bytes(covered)))


def check_vectors(path):
    """The golden frames have the iCRC that is computed here, where they have one at all."""
    checked = 0
    for vector in json.load(open(path)):
        frame = bytes.fromhex(vector["frame"])
        at = 14
        if frame[12:14] == b"\x81\x00":
            at += 4
        ip = frame[at:]
        protocol = ip[9] if ip[0] >> 4 == 4 else ip[6]
        dscp = (ip[1] if ip[0] >> 4 == 4 else struct.unpack(">H", ip[:2])[0] >> 4 & 0xFF) >> 2
        # Encapsulated, or cut by a switch.
        if protocol != 17 or dscp in (12, 16):
            continue
        agree(f"iCRC of {vector['name']}", icrc(ip[:-4]).hex(), ip[-4:].hex())
        checked += 1
    if checked < 50:
        raise Disagreement(f"{checked} golden frames have an iCRC, of {path}")
    return checked


def agree(what, seen, expected):
    if seen != expected:
        raise Disagreement(f"{what}: it is {seen}, and should be {expected}")


# ---- The other end of the wire ----


class Wire:
    """A packet socket on the veth, and the peer's part in ARP: it answers who asks for it, as often as it is asked."""

    def __init__(self, iface, mac, ip):
        self.socket = conf.L2socket(iface=iface, promisc=True)
        self.mac, self.ip = mac, ip
        self.asked = []

    def send(self, frame):
        self.socket.send(frame if isinstance(frame, Packet) else Raw(frame))

    def receive(self, patience):
        """The next frame to this peer that is no question for its address, or None."""
        end = time.monotonic() + patience
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                return None
            received = self.socket.recv_raw()
            if received[1] is None:
                continue
            frame = Ether(received[1])
            if frame.src == self.mac or frame.dst not in (self.mac, BROADCAST):
                continue
            if ARP in frame and frame[ARP].op == 1:
                self.answer(frame)
            elif frame.dst == self.mac:
                return received[1]
        return None

    def answer(self, frame):
        asks = frame[ARP]
        if asks.pdst != self.ip:
            return
        agree("hardware, protocol and lengths of an ARP request", (asks.hwtype, asks.ptype, asks.hwlen, asks.plen), (1, 0x0800, 6, 4))
        agree("the sender of an ARP request", asks.hwsrc, frame.src)
        agree("the address that an ARP request is to find", asks.hwdst, ZERO)
        self.asked.append(frame.dst)
        reply = ARP(op=2, hwsrc=self.mac, psrc=self.ip, hwdst=asks.hwsrc, pdst=asks.psrc)
        self.send(Ether(src=self.mac, dst=asks.hwsrc) / reply)

    def silence(self):
        """Nothing more comes for this peer."""
        frame = self.receive(0.3)
        if frame is not None:
            raise Disagreement(f"a frame that nothing drew: {Ether(frame)!r}")


class Responder:
    """What a receiver of Writes knows, as the behaviour of MRC has it."""

    def __init__(self, first_psn):
        self.base = first_psn - 1
        self.cack = first_psn - 1
        self.above = set()
        self.nominal = 0
        self.ends = {}
        self.whole = 0

    def has(self, psn):
        return psn <= self.cack or psn in self.above

    def take(self, psn, payload, is_last):
        """Takes a packet; whether it was new."""
        if self.has(psn):
            return False
        self.above.add(psn)
        self.nominal += payload + 60
        if is_last:
            self.ends[psn] = True
        while self.cack + 1 in self.above:
            self.cack += 1
            self.above.remove(self.cack)
            if self.ends.pop(self.cack, False):
                self.whole += 1
        return True

    def sack_fields(self, psn):
        bitmap = sum(1 << psn - self.cack - 1 for psn in self.above if psn - self.cack <= 64)
        return {
            "offset_or_id": psn - self.cack & 0xFFFF,
            "cack_psn": self.cack,
            "sack_offset": 1,
            "bitmap": bitmap,
            "ooo_count": len(self.above),
            "rcvd_bytes": -(-self.nominal // 256),
        }

    def msn(self):
        return self.whole - 1 & 0xFFFFFF


class Peer:
    def __init__(self, args, own, other, nic_mac):
        self.args, self.own, self.other = args, own, other
        self.wire = args.wire
        self.nic_mac = nic_mac
        self.qpn, self.nic_qpn = other["qps"][0]["qpn"], own["qps"][0]["qpn"]
        self.nic = Responder(other["qps"][0]["psn"])
        self.frames = 0
        # Payload and headers received, and the message that comes in.
        self.received, self.incoming, self.probes = 0, None, 0

    # Frames to the NIC, and those that it should send.

    def frame(self, bth, body, *, ev, dscp, ecn, from_nic=False, payload=b""):
        """A whole frame from here to the NIC, or from the NIC to here."""
        ends = [(self.wire.mac, self.other["ip"]), (self.nic_mac, self.own["ip"])]
        (src_mac, src), (dst_mac, dst) = reversed(ends) if from_nic else ends
        pad = -len(payload) % 4
        bth.pad = pad
        content = bytes(bth) + bytes(body) + payload + bytes(pad)
        length = 20 + 8 + len(content) + 4
        ip = IP(src=src, dst=dst, ttl=64, id=0, flags="DF", tos=dscp << 2 | ecn, proto=17, len=length)
        udp = UDP(sport=ev, dport=MRC_PORT, len=length - 20, chksum=0)
        packet = bytes(ip) + bytes(udp) + content
        return bytes(Ether(src=src_mac, dst=dst_mac, type=0x0800)) + packet + icrc(packet)

    def write(self, n, message, *, first, base, rtx=0, ask=0, ev=300, ecn=ECT0, immediate=None, rqmsn=0, msn=0):
        """Packet n of a message that is written to `base`."""
        mss = self.own["mss"]
        count = max(1, -(-len(message) // mss))
        payload = message[n * mss : (n + 1) * mss]
        with_immediate = immediate is not None and n == count - 1
        if count == 1:
            opcode = WRITE_ONLY_IMM if with_immediate else WRITE_ONLY
        elif n == count - 1:
            opcode = WRITE_LAST_IMM if with_immediate else WRITE_LAST
        else:
            opcode = WRITE_FIRST if n == 0 else WRITE_MIDDLE
        bth = BTH(opcode=opcode, dqp=self.nic_qpn, psn=first + n, a=ask, rtx=rtx)
        reth = RETH(va=self.own["region"]["address"] + base + n * mss, rkey=self.own["region"]["key"], dmalen=len(message))
        body = bytes(METH(rqmsn=rqmsn, msn=msn)) + bytes(reth)
        if with_immediate:
            body += struct.pack(">I", immediate)
        return self.frame(bth, body, ev=ev, dscp=TRIMMABLE, ecn=ecn, payload=payload)

    def sack_frame(self, psn, *, ev, rtx=0, marked=False, timestamp=0, probe=None):
        fields = self.nic.sack_fields(psn)
        if probe is not None:
            fields["offset_or_id"] = probe
        seth = SETH(
            m=int(marked), pr=int(probe is not None), entropy=ev, spdcid=self.nic_qpn & 0xFFFF, dpdcid=self.qpn & 0xFFFF,
            tx_timestamp=timestamp, **fields,
        )  # fmt: skip
        bth = BTH(opcode=SACK, dqp=self.qpn, psn=self.nic.cack, rtx=rtx)
        return self.frame(bth, seth, ev=ev, dscp=CONTROL, ecn=NOT_ECT, from_nic=True)

    # What comes back.

    def next(self, what, patience=PATIENCE):
        """The next frame that is no probe; these are answered."""
        end = time.monotonic() + patience
        while (frame := self.wire.receive(end - time.monotonic())) is not None:
            self.frames += 1
            if self.incoming is None or not self.incoming.answer_probe(frame):
                return frame
        if what:
            raise Disagreement(f"{what}: nothing came in {patience} s")
        return None

    def nothing(self, patience, why):
        """Nothing comes but probes."""
        frame = self.next("", patience)
        if frame is not None:
            raise Disagreement(f"{why}: a frame that nothing drew: {Ether(frame)!r}")

    def same(self, what, seen, expected):
        """Every byte agrees."""
        if seen == expected:
            return
        at = next((n for n, (a, b) in enumerate(zip(seen, expected)) if a != b), min(len(seen), len(expected)))
        raise Disagreement(
            f"{what}: byte {at} differs\n  seen     {seen.hex()}\n  expected {expected.hex()}\n"
            f"{Ether(seen).show(dump=True)}\n-- and should be --\n{Ether(expected).show(dump=True)}"
        )

    def expect_sack(self, what, psn, timed=0, **fields):
        """`timed` is the timestamp that the drawing packet had; the NIC adds how long it kept it, in units of 128 ns."""
        frame = self.next(what)
        packet = Ether(frame)
        agree(f"{what}: a SACK", packet[BTH].opcode if BTH in packet else repr(packet), SACK)
        service = packet[SETH].tx_timestamp - timed & 0xFFFF
        # Two milliseconds would fill a quarter of the field; a worker that shares its core may take that, and more.
        self.same(what, frame, self.sack_frame(psn, timestamp=timed + service & 0xFFFF, **fields))

    def expect_ack(self, what, syndrome=SYNDROME_ACK):
        frame = self.next(what)
        packet = Ether(frame)
        agree(f"{what}: an ACK", packet[BTH].opcode if BTH in packet else repr(packet), ACK)
        ev = packet[UDP].sport
        # Of the NIC's own spraying state: the values 256 to 383 at the defaults.
        agree(f"{what}: its entropy value {ev} is one of the NIC's", 256 <= ev < 384, True)
        bth = BTH(opcode=ACK, dqp=self.qpn, psn=self.nic.cack)
        aeth = AETH(syndrome=syndrome, msn=self.nic.msn())
        self.same(what, frame, self.frame(bth, aeth, ev=ev, dscp=CONTROL, ecn=NOT_ECT, from_nic=True))

    def expect_nack(self, what, psn, reason, ev):
        frame = self.next(what)
        packet = Ether(frame)
        agree(f"{what}: a NACK", packet[BTH].opcode if BTH in packet else repr(packet), NACK)
        neth = NETH(
            reason=reason, entropy=ev, spdcid=self.nic_qpn & 0xFFFF, dpdcid=self.qpn & 0xFFFF, nack_psn=psn,
            tx_timestamp=packet[NETH].tx_timestamp,
        )  # fmt: skip
        bth = BTH(opcode=NACK, dqp=self.qpn, psn=psn)
        self.same(what, frame, self.frame(bth, neth, ev=ev, dscp=CONTROL, ecn=NOT_ECT, from_nic=True))

    # The NIC, as its operators and its memory show it.

    def survey(self):
        return ctl(self.args, "survey")["nics"][0]

    def until(self, what, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end:
                raise Disagreement(f"{what}: not so after {PATIENCE} s")
            time.sleep(0.05)

    def memory(self, at, length):
        with open(self.args.memory, "rb") as file:
            file.seek(at)
            return file.read(length)


def ctl(args, *words):
    done = subprocess.run([args.mrcnic, "ctl", "--socket", args.socket, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Disagreement(f"mrcnic ctl {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def pattern(length, seed):
    return bytes((at * 7 + (at >> 8) * 13 + seed) & 0xFF for at in range(length))


# ---- What is tried ----


def arp_and_ping(args, own):
    """Asks the NIC for its Ethernet address and pings it; who asks wrongly is not answered."""
    wire = args.wire
    nic_mac = own["macs"][0]
    request = ARP(op=1, hwsrc=wire.mac, psrc=wire.ip, hwdst=ZERO, pdst=own["ip"])
    reply = bytes(Ether(src=nic_mac, dst=wire.mac) / ARP(op=2, hwsrc=nic_mac, psrc=own["ip"], hwdst=wire.mac, pdst=wire.ip))
    # A packet without a single sender first.
    wire.send(Ether(src="01:00:5e:00:00:01", dst=BROADCAST) / request)
    wire.send(Ether(src=wire.mac, dst=BROADCAST) / request)
    answer = wire.receive(PATIENCE)
    agree("the answer to an ARP request", answer[:42].hex() if answer else None, reply.hex())
    echo = ICMP(type=8, id=0x1234, seq=1)
    data = pattern(600, 3)
    wire.send(Ether(src=wire.mac, dst=nic_mac) / IP(src=wire.ip, dst=own["ip"], id=0) / echo / Raw(data))
    answer = wire.receive(PATIENCE)
    if answer is None:
        raise Disagreement("a ping was not answered")
    seen = Ether(answer)
    pong = IP(src=own["ip"], dst=wire.ip, ttl=64, id=seen[IP].id, flags=seen[IP].flags, tos=seen[IP].tos)
    expected = Ether(src=nic_mac, dst=wire.mac) / pong / ICMP(type=0, id=0x1234, seq=1) / Raw(data)
    agree("the answer to a ping", answer.hex(), bytes(expected).hex())
    wire.silence()
    return nic_mac


def writes(peer):
    """Writes out of order, twice, with a broken iCRC and beyond the window; each reply is what a responder of its own computes."""
    mss, first = peer.own["mss"], peer.other["qps"][0]["psn"]
    message = pattern(5 * mss + 101, 1)
    before = peer.survey()

    def send(n, what, broken=False, **fields):
        ev = 300 + n
        frame = bytearray(peer.write(n, message, first=first, base=64, ev=ev, **fields))
        if broken:
            frame[-1] ^= 0x40
        peer.wire.send(bytes(frame))
        if broken:
            return
        psn, is_last = first + n, n == 5
        whole = peer.nic.whole
        peer.nic.take(psn, min(mss, len(message) - n * mss), is_last)
        marked = fields.get("ecn") == CE
        peer.expect_sack(what, psn, ev=ev, rtx=fields.get("rtx", 0), marked=marked)
        if peer.nic.whole > whole:
            peer.expect_ack(f"{what}, which makes the message whole")

    send(2, "a packet two PSNs early")
    send(2, "the same once more", rtx=1)
    send(0, "the first packet")
    send(4, "a packet that a switch marked", ecn=CE)
    send(3, "a packet with a wrong iCRC", broken=True)
    peer.until("a wrong iCRC is counted by its name", lambda: peer.survey()["drops"].get("bad_icrc") == 1)
    agree("what a packet with a wrong iCRC wrote", peer.memory(64 + 3 * mss, mss), bytes(mss))
    peer.wire.silence()
    send(5, "the last packet, which asks for an ACK, with two holes before it", ask=1)
    send(3, "the packet whole", rtx=1)
    beyond = peer.nic.cack + 1 + peer.own["window"]
    stray = peer.write(0, b"\xee" * 64, first=beyond, base=0, ev=333)
    peer.wire.send(stray)
    peer.expect_nack("a packet beyond the window", beyond, PSN_OOR_WINDOW, 333)
    send(1, "the packet that closes the last hole")
    send(5, "the last packet again", rtx=1)
    peer.wire.silence()
    agree("the memory that was written", peer.memory(64, len(message)), message)
    agree("the memory before it", peer.memory(0, 64), bytes(64))
    agree("the memory behind it", peer.memory(64 + len(message), 64), bytes(64))
    # A probe, which uses no PSN.
    probe = PETH(probe_id=0xBEEF, spdcid=peer.qpn & 0xFFFF, dpdcid=peer.nic_qpn & 0xFFFF, tx_timestamp=0x1000)
    peer.wire.send(peer.frame(BTH(opcode=PROBE, dqp=peer.nic_qpn), probe, ev=311, dscp=TRIMMABLE, ecn=ECT0))
    peer.expect_sack("a probe", peer.nic.cack, ev=311, probe=0xBEEF, timed=0x1000)
    # An immediate, with a message of a length that needs padding.
    text = b"immediately"
    psn = peer.nic.cack + 1
    peer.wire.send(peer.write(0, text, first=psn, base=0, ask=1, immediate=0xC0FFEE, rqmsn=1, msn=1, ev=320))
    peer.nic.take(psn, len(text), True)
    peer.expect_sack("a Write with Immediate", psn, ev=320)
    peer.expect_ack("a Write with Immediate")
    agree("what it wrote", peer.memory(0, 64), text + bytes(64 - len(text)))
    seen = lambda: ctl(peer.args, "peers")["peers"][0]
    peer.until("the immediate is heard of", lambda: (seen()["immediates"], seen()["last_immediate"]) == (1, 0xC0FFEE))
    now = peer.survey()
    changed = {name: count - before["counters"][name] for name, count in now["counters"].items()}
    for name, count in {"placed": 7, "duplicates": 2, "placed_bytes": len(message) + len(text), "tx_nacks": 1, "rx_probes": 1}.items():
        agree(f"counter {name}", changed[name], count)
    # The kernel beside this peer speaks of other things.
    drops = {reason: count for reason, count in now["drops"].items() if not reason.startswith("not_")}
    agree("drops", drops, {"bad_icrc": 1, "psn_out_of_window": 1})


class Incoming:
    """Writes of the NIC's, as they come: each packet is checked whole."""

    def __init__(self, peer, first_psn, msn, length, local, remote):
        self.peer, self.first, self.msn, self.length, self.local, self.remote = peer, first_psn, msn, length, local, remote
        self.mss = peer.own["mss"]
        self.count = -(-length // self.mss)
        self.above, self.cack, self.evs = set(), first_psn - 1, set()
        self.lost_evs = peer.incoming.lost_evs if peer.incoming else set()
        peer.incoming = self

    def take(self, frame):
        """Judges a packet: its number in the message, its entropy value, and whether it is a retransmission."""
        peer, packet = self.peer, Ether(frame)
        agree("a data packet", METH in packet, True)
        bth, n = packet[BTH], packet[BTH].psn - self.first
        agree(f"PSN {bth.psn} is one of the message's", 0 <= n < self.count, True)
        ev, again = packet[UDP].sport, bth.rtx
        agree(f"entropy value {ev} is one of the NIC's", 256 <= ev < 384, True)
        opcode = WRITE_FIRST if n == 0 else WRITE_LAST if n == self.count - 1 else WRITE_MIDDLE
        payload = peer.memory(self.local + n * self.mss, min(self.mss, self.length - n * self.mss))
        # What is sent again may ask for an ACK, to be done sooner.
        ask = bth.a if again else int(n == self.count - 1)
        expected = BTH(opcode=opcode, dqp=peer.qpn, psn=bth.psn, a=ask, rtx=again)
        region = peer.other["region"]
        reth = RETH(va=region["address"] + self.remote + n * self.mss, rkey=region["key"], dmalen=self.length)
        body = bytes(METH(rqmsn=0, msn=self.msn)) + bytes(reth)
        dscp = TRIMMABLE_RETX if again else TRIMMABLE
        peer.same(f"packet {n} of a Write", frame, peer.frame(expected, body, ev=ev, dscp=dscp, ecn=ECT0, from_nic=True, payload=payload))
        self.evs.add(ev)
        return n, ev, again

    def accept(self, n):
        psn = self.first + n
        if psn > self.cack and psn not in self.above:
            self.above.add(psn)
            peer = self.peer
            peer.received += min(self.mss, self.length - n * self.mss) + 60
        while self.cack + 1 in self.above:
            self.cack += 1
            self.above.remove(self.cack)

    def sack(self, offset_or_id, ev, *, rtx=0, probe=0, timestamp=0):
        peer = self.peer
        seth = SETH(
            pr=probe, offset_or_id=offset_or_id, entropy=ev, spdcid=peer.qpn & 0xFFFF, dpdcid=peer.nic_qpn & 0xFFFF,
            cack_psn=self.cack & 0xFFFFFF, sack_offset=1, bitmap=sum(1 << psn - self.cack - 1 for psn in self.above),
            ooo_count=len(self.above), rcvd_bytes=-(-peer.received // 256), tx_timestamp=timestamp,
        )  # fmt: skip
        bth = BTH(opcode=SACK, dqp=peer.nic_qpn, psn=self.cack & 0xFFFFFF, rtx=rtx)
        peer.wire.send(peer.frame(bth, seth, ev=ev, dscp=CONTROL, ecn=NOT_ECT))

    def answer_probe(self, frame):
        """Whether the frame is a probe. One is sent for the entropy value of a packet that was lost, until it is answered."""
        packet, peer = Ether(frame), self.peer
        if PETH not in packet:
            return False
        probe, ev = packet[PETH], packet[UDP].sport
        agree(f"a probe is of a value on which a packet was lost ({ev})", ev in self.lost_evs, True)
        expected = PETH(
            probe_id=probe.probe_id, spdcid=peer.nic_qpn & 0xFFFF, dpdcid=peer.qpn & 0xFFFF, tx_timestamp=probe.tx_timestamp
        )
        bth = BTH(opcode=PROBE, dqp=peer.qpn)
        peer.same("a probe", frame, peer.frame(bth, expected, ev=ev, dscp=TRIMMABLE, ecn=ECT0, from_nic=True))
        self.sack(probe.probe_id, ev, probe=1, timestamp=probe.tx_timestamp)
        peer.probes += 1
        return True

    def repeat(self, patience):
        """Acknowledges again what is sent again: acknowledgements may be slower than timeouts here."""
        frame = self.peer.next("", patience)
        if frame is not None:
            n, ev, again = self.take(frame)
            agree(f"packet {n} of a Write that is whole is a retransmission", again, 1)
            self.acknowledge(n, ev, again)

    def acknowledge(self, n, ev, again):
        peer = self.peer
        self.sack(self.first + n - self.cack & 0xFFFF, ev, rtx=again)
        if self.cack == self.first + self.count - 1:
            bth = BTH(opcode=ACK, dqp=peer.nic_qpn, psn=self.cack)
            peer.wire.send(peer.frame(bth, AETH(syndrome=SYNDROME_ACK, msn=self.msn), ev=ev, dscp=CONTROL, ecn=NOT_ECT))
            return True
        return False


def taken(peer, first_psn, msn, length, lose=()):
    """Has the NIC write, and is the one that is written to: packets of `lose` are lost once."""
    local, remote = 32_768, 512
    command = [peer.args.mrcnic, "ctl", "--socket", peer.args.socket, "write", "--peer", "b", "--size", str(length)]
    command += ["--local", str(local), "--remote", str(remote), "--timeout", str(PATIENCE)]
    order = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        incoming, lost, again_seen = Incoming(peer, first_psn, msn, length, local, remote), set(lose), set()
        while True:
            n, ev, again = incoming.take(peer.next("a packet of the NIC's Write"))
            if n in lost and not again:
                incoming.lost_evs.add(ev)
                continue
            if again:
                again_seen.add(n)
            incoming.accept(n)
            if incoming.acknowledge(n, ev, again):
                break
        while order.poll() is None:
            incoming.repeat(0.05)
        out, err = order.communicate()
    finally:
        order.kill()
        order.wait()
    agree("the Write's end", (order.returncode, err), (0, ""))
    answer = json.loads(out)
    agree("what was written", (answer["messages"], answer["bytes"], answer["failed"]), (1, length, {}))
    if not lost <= again_seen:
        raise Disagreement(f"packets {sorted(lost)} were lost, and {sorted(again_seen)} were sent again")
    return incoming


def reads(peer):
    """Takes Writes of the NIC's: one smoothly, one with a loss, and one after it has moved to another Ethernet address."""
    first = peer.own["qps"][0]["psn"]
    mss = peer.own["mss"]
    one = taken(peer, first, 0, 2 * mss + 453)
    agree("packets take entropy values in turn", len(one.evs), one.count)
    taken(peer, first + one.count, 1, 4 * mss, lose={1})
    if not peer.probes:
        raise Disagreement("the value on which a packet was lost was not probed")
    # Another Ethernet address: everybody is told, and the NIC asks whether it is so.
    peer.wire.mac = "02:00:00:00:00:33"
    peer.wire.asked.clear()
    told = ARP(op=1, hwsrc=peer.wire.mac, psrc=peer.wire.ip, hwdst=ZERO, pdst=peer.wire.ip)
    peer.wire.send(Ether(src=peer.wire.mac, dst=BROADCAST) / told)
    end = time.monotonic() + PATIENCE
    while not peer.wire.asked and time.monotonic() < end:
        peer.incoming.repeat(0.1)
    agree("a question to the new address alone", peer.wire.asked, [peer.wire.mac])
    taken(peer, first + one.count + 4, 2, 3 * mss)


def denial(peer):
    """A Write beyond the region is answered by a NAK; it ends the QP, so it comes last."""
    psn = peer.nic.cack + 1
    peer.wire.send(peer.write(0, b"x" * 64, first=psn, base=peer.own["region"]["size"], msn=2, ev=340))
    peer.expect_ack("a Write beyond the region", SYNDROME_ACCESS)
    peer.nothing(0.3, "a QP that has ended")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iface", required=True, help="this end of the veth")
    parser.add_argument("--mrcnic", required=True, help="the binary")
    parser.add_argument("--socket", required=True, help="the NIC's socket for operators")
    parser.add_argument("--memory", required=True, help="the file that is the NIC's region")
    parser.add_argument("--other", required=True, help="this peer's numbers as the NIC's file has them, in JSON")
    parser.add_argument("--vectors", required=True, help="the golden frames")
    args = parser.parse_args()
    conf.verb = 0
    other = json.loads(args.other)
    try:
        golden = check_vectors(args.vectors)
        args.wire = Wire(args.iface, "02:00:00:00:00:22", other["ip"])
        # The NIC asks for this peer until it answers; only then are there QPs.
        end = time.monotonic() + 2 * PATIENCE
        while (report := ctl(args, "peers")["peers"][0])["state"] != "fixed":
            frame = args.wire.receive(0.1)
            if time.monotonic() > end or frame is not None:
                raise Disagreement(f"the NIC has not found this peer: {report}, {frame}")
        agree("the NIC asked everybody", set(args.wire.asked), {BROADCAST})
        own = report["own"]
        agree("the NIC found this peer's Ethernet address", report["other"]["macs"], [args.wire.mac])
        nic_mac = arp_and_ping(args, own)
        peer = Peer(args, own, other, nic_mac)
        writes(peer)
        reads(peer)
        denial(peer)
        print(f"agreed: {golden} golden frames, {peer.frames} frames of the NIC's, byte for byte")
    except Disagreement as disagreement:
        sys.exit(f"peer.py: {disagreement}")


if __name__ == "__main__":
    main()
