-- MRC (Multipath Reliable Connection, OCP MRC 1.0) for Wireshark and tshark. How to install and use it: README.md beside
-- this file. What each field means: docs/protocol.md. It is one file, long as it is, so that it installs by copying.
--
-- Names are those of `mrcnic decode --json` where it has the field. Positions count from the BTH, where the dissector
-- begins; reserved bits are shown and not judged, as a receiver does.

local mrc = Proto("mrc", "Multipath Reliable Connection")
-- The port is shared with RoCEv2. The dissector that sits on it bears a name that fits both, so that nothing of other RoCEv2
-- frames, `frame.protocols` included, says MRC.
local shared = Proto("rocev2", "RoCEv2 framing")

local floor = math.floor
local PSNS = 2 ^ 24
local UDP_HEADER, ICRC = 8, 4

----------------------------------------------------------------------------------------------------------------------------
-- Names of values

local OPCODES = {
    [0xC6] = "WRITE_FIRST", [0xC7] = "WRITE_MIDDLE", [0xC8] = "WRITE_LAST", [0xC9] = "WRITE_LAST_IMM",
    [0xCA] = "WRITE_ONLY", [0xCB] = "WRITE_ONLY_IMM", [0xD1] = "ACK", [0xD8] = "ENDPOINT_REQUEST",
    [0xD9] = "ENDPOINT_RESPONSE", [0xDC] = "SACK", [0xDD] = "NACK", [0xDE] = "PROBE",
}
local SYNDROMES = {
    [0x1F] = "ACK", [0x61] = "NAK invalid request", [0x62] = "NAK remote access error",
    [0x63] = "NAK remote operational error", [0x65] = "NAK too many writes with immediate",
}
local NACK_REASONS = {
    [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PKT_BUFFER",
    [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT",
}
local SKIPS = { [0] = "none", [1] = "skip once", [2] = "always skip", [3] = "reserved" }
local ENDPOINT_OPS = { [0] = "port status update", [1] = "EV probe", [2] = "reserved", [3] = "reserved" }
local ANSWERS = { "a probe", "a data packet" }
local UNITS = { "1.024 us", "128 ns" }
local CC_TYPES = { [0] = "NSCC" }
local ECNS = { [0] = "not-ect", [1] = "ect1", [2] = "ect0", [3] = "CE" }
local RIGHT = { "right", "wrong" }

----------------------------------------------------------------------------------------------------------------------------
-- Headers. A field is {first byte, kind, name, label, display, names of values, mask}; `len` is given where the kind does not say it.

local LENGTHS = { uint8 = 1, bool = 1, uint16 = 2, int16 = 2, uint24 = 3, uint32 = 4, uint64 = 8 }
local DEC, HEX, DEC_HEX = base.DEC, base.HEX, base.DEC_HEX

local fields = {}

local function field(kind, name, ...)
    local made = ProtoField[kind]("mrc." .. name, ...)
    fields[#fields + 1] = made
    return made
end

local function header(name, label, len, described)
    local made = { short = label:match("^[^,]+"), len = len, item = field("none", name, label) }
    for i, of in ipairs(described) do
        local at, kind, short, display, names, mask = of[1], of[2], of[3], of[5], of[6], of[7]
        local to = { at = at, kind = kind, name = short, len = of.len or LENGTHS[kind], only_if_pr = of.only_if_pr }
        if kind == "bytes" then
            to.field = field(kind, name .. "." .. short, of[4])
        else
            to.field = field(kind, name .. "." .. short, of[4], display, names, mask)
        end
        if mask then
            to.unit = 1
            while floor(mask / to.unit) % 2 == 0 do to.unit = to.unit * 2 end
            to.modulus = mask / to.unit + 1
        end
        made[i] = to
    end
    return made
end

local BTH = header("bth", "BTH, base transport header", 12, {
    { 0, "uint8", "opcode", "Opcode", HEX, OPCODES },
    { 1, "bool", "se", "Solicited event", 8, nil, 0x80 },
    { 1, "bool", "m", "Migration request", 8, nil, 0x40 },
    { 1, "uint8", "pad", "Pad bytes", DEC, nil, 0x30 },
    { 1, "uint8", "tver", "Transport version", DEC, nil, 0x0F },
    { 2, "uint16", "pkey", "Partition key", HEX },
    { 4, "uint8", "mutable", "For switches, outside the iCRC", HEX },
    { 5, "uint24", "dqp", "QP of the receiver", DEC_HEX },
    { 8, "bool", "a", "Asks for a transport ACK", 8, nil, 0x80 },
    { 8, "uint8", "reserved1", "Reserved", HEX, nil, 0x40 },
    { 8, "bool", "rtx", "Retransmission", 8, nil, 0x20 },
    { 8, "bool", "tsh", "A TSETH follows", 8, nil, 0x10 },
    { 8, "uint8", "reserved2", "Reserved", HEX, nil, 0x0F },
    { 9, "uint24", "psn", "PSN", DEC },
})
local METH = header("meth", "METH, message header", 4, {
    { 0, "uint16", "rqmsn", "Number of the Write with Immediate", DEC },
    { 2, "uint16", "msn", "Number of the message", DEC },
})

-- A timestamp as TSETH, PETH and ERTH have it, from byte `at` on, behind the fields before it.
local function with_timestamp(at, described)
    described[#described + 1] = { at, "uint16", "tx_timestamp", "Timestamp", DEC }
    described[#described + 1] = { at + 2, "bool", "tsr", "Unit of the timestamp", 8, UNITS, 0x80 }
    described[#described + 1] = { at + 2, "uint16", "reserved_ts", "Reserved", HEX, nil, 0x7FF0 }
    described[#described + 1] = { at + 3, "uint8", "ftype", "Kind of timestamp", DEC, nil, 0x0F }
    return described
end

local TSETH = header("tseth", "TSETH, timestamp header", 4, with_timestamp(0, {}))
local RETH = header("reth", "RETH, RDMA header", 16, {
    { 0, "uint64", "va", "Remote address of this payload", HEX },
    { 8, "uint32", "rkey", "Remote key", HEX },
    { 12, "uint32", "dmalen", "Length of the message", DEC },
})
local IMMDT = header("immdt", "immediate data", 4, {
    { 0, "uint32", "imm", "Immediate data", HEX },
})
local AETH = header("aeth", "AETH, ACK header", 4, {
    { 0, "uint8", "syndrome", "Syndrome", HEX, SYNDROMES },
    { 1, "uint24", "msn", "Last completed message", DEC },
})
local SETH = header("seth", "SETH, SACK header", 28, {
    { 0, "uint8", "type", "Type", DEC, nil, 0xF0 },
    { 0, "uint16", "next_header", "Next header", DEC, nil, 0x0F80 },
    { 1, "uint8", "m", "Hint for the entropy value", DEC, SKIPS, 0x60 },
    { 1, "uint8", "reserved1", "Reserved", HEX, nil, 0x1C },
    { 1, "bool", "pr", "Answers", 8, ANSWERS, 0x02 },
    { 1, "uint8", "reserved2", "Reserved", HEX, nil, 0x01 },
    { 2, "int16", "ack_psn_offset", "Drawing packet, from cack_psn", DEC, only_if_pr = 0 },
    { 2, "uint16", "probe_id", "Number of the probe", DEC, only_if_pr = 1 },
    { 4, "uint32", "entropy", "Entropy value of the drawing packet", HEX },
    { 8, "uint16", "spdcid", "Sender's QP, low 16 bits", DEC },
    { 10, "uint16", "dpdcid", "Receiver's QP, low 16 bits", DEC },
    { 12, "uint8", "reserved3", "Reserved", HEX },
    { 13, "uint24", "cack_psn", "Cumulative acknowledgement", DEC },
    { 16, "uint8", "cc_type", "Congestion control", DEC, CC_TYPES, 0xF0 },
    { 16, "uint8", "cc_fl", "Congestion control flags", HEX, nil, 0x0F },
    { 17, "uint8", "mpr", "Window, in 128 PSNs", DEC },
    { 18, "int16", "sack_offset", "Bit 0 of the bitmap, from cack_psn", DEC },
    { 20, "uint64", "sack_bitmap", "Bitmap", HEX },
})
local CC_STATE = header("cc", "CC_STATE, congestion state", 8, {
    { 0, "uint16", "cc_tx_timestamp", "Reflected timestamp", DEC },
    { 2, "uint16", "reserved", "Reserved", HEX, nil, 0x8000 },
    { 2, "uint16", "ooo_count", "Packets beyond cack_psn", DEC, nil, 0x7FFF },
    { 4, "bool", "restore_cwnd", "Window may be restored", 8, nil, 0x80 },
    { 4, "uint8", "rcv_cwnd_pen", "Pressure on the receiving host", DEC, nil, 0x7F },
    { 5, "uint24", "rcvd_bytes", "Bytes received, in 256", DEC },
})
local NETH = header("neth", "NETH, NACK header", 20, {
    { 0, "uint8", "type", "Type", DEC, nil, 0xF0 },
    { 0, "uint16", "next_header", "Next header", DEC, nil, 0x0F80 },
    { 1, "uint8", "reserved1", "Reserved", HEX, nil, 0x7F },
    { 2, "uint8", "nack_reason", "Reason", HEX, NACK_REASONS },
    { 3, "uint8", "vendor_info", "Vendor's own", HEX },
    { 4, "uint32", "entropy", "Entropy value of the refused packet", HEX },
    { 8, "uint16", "spdcid", "Sender's QP, low 16 bits", DEC },
    { 10, "uint16", "dpdcid", "Receiver's QP, low 16 bits", DEC },
    { 12, "uint8", "reserved2", "Reserved", HEX },
    { 13, "uint24", "nack_psn", "Refused PSN", DEC },
    { 16, "uint8", "cc_type", "Congestion control", DEC, nil, 0xF0 },
    { 16, "uint8", "cc_fl", "Congestion control flags", HEX, nil, 0x0F },
    { 17, "uint8", "reserved3", "Reserved", HEX },
    { 18, "uint16", "tx_timestamp", "Reflected timestamp", DEC },
})
local PETH = header("peth", "PETH, probe header", 16, with_timestamp(12, {
    { 0, "uint8", "type", "Type", DEC, nil, 0xF0 },
    { 0, "uint16", "next_header", "Next header", DEC, nil, 0x0F80 },
    { 1, "uint16", "reserved1", "Reserved", HEX, nil, 0x7FFF },
    { 3, "uint8", "vendor_info", "Vendor's own", HEX },
    { 4, "uint16", "probe_id", "Number of the probe", DEC },
    { 6, "uint16", "reserved2", "Reserved", HEX },
    { 8, "uint16", "spdcid", "Sender's QP, low 16 bits", DEC },
    { 10, "uint16", "dpdcid", "Receiver's QP, low 16 bits", DEC },
}))
local ERTH = header("erth", "ERTH, endpoint request header", 16, with_timestamp(12, {
    { 0, "uint8", "type", "Type", DEC, nil, 0xF0 },
    { 0, "uint16", "next_header", "Next header", DEC, nil, 0x0F80 },
    { 1, "uint8", "reserved1", "Reserved", HEX, nil, 0x7C },
    { 1, "uint8", "endpoint_op", "Operation", DEC, ENDPOINT_OPS, 0x03 },
    { 2, "uint8", "reserved2", "Reserved", HEX },
    { 3, "uint8", "vendor_info", "Vendor's own", HEX },
    { 4, "uint32", "port_status_mask", "Ports of the sender that are up", HEX },
    { 8, "uint32", "reserved3", "Reserved", HEX },
}))
local EETH = header("eeth", "EETH, endpoint response header", 36, {
    { 0, "uint8", "type", "Type", DEC, nil, 0xF0 },
    { 0, "uint16", "next_header", "Next header", DEC, nil, 0x0F80 },
    { 1, "uint8", "reserved1", "Reserved", HEX, nil, 0x70 },
    { 1, "uint8", "endpoint_op", "Operation", DEC, ENDPOINT_OPS, 0x0C },
    { 1, "uint24", "reserved2", "Reserved", HEX, nil, 0x03FFFF },
    { 4, "bytes", "reserved3", "Reserved", len = 24 },
    { 28, "uint16", "tx_timestamp", "Reflected timestamp", DEC },
    { 30, "bytes", "reserved4", "Reserved", len = 6 },
})

-- The headers behind the BTH, by opcode.
local function headers_of(opcode, tsh)
    if opcode <= 0xCB then
        local list = { METH }
        if tsh then list[2] = TSETH end
        list[#list + 1] = RETH
        if opcode == 0xC9 or opcode == 0xCB then list[#list + 1] = IMMDT end
        return list
    end
    return ({
        [0xD1] = { AETH }, [0xD8] = { ERTH }, [0xD9] = { EETH }, [0xDC] = { SETH, CC_STATE }, [0xDD] = { NETH }, [0xDE] = { PETH },
    })[opcode]
end

-- What is not in the headers: generated, or the rest of the packet.
local own = {
    op = field("string", "op", "Operation"),
    ev = field("uint32", "ev", "Entropy value", HEX),
    dscp = field("uint8", "dscp", "DSCP for the receiver", DEC),
    ecn = field("uint8", "ecn", "ECN for the receiver", DEC, ECNS),
    trimmed = field("bool", "trimmed", "Trimmed"),
    trim = field("string", "trim", "Trimming"),
    payload = field("bytes", "payload", "Payload"),
    payload_len = field("uint32", "payload_len", "Payload length", DEC),
    pad = field("bytes", "pad", "Pad"),
    rest = field("bytes", "rest", "What trimming left"),
    nominal_size = field("uint32", "nominal_size", "Nominal size", DEC),
    icrc = field("bytes", "icrc", "iCRC"),
    icrc_ok = field("bool", "icrc.ok", "iCRC is", base.NONE, RIGHT),
    ack_psn = field("uint24", "seth.ack_psn", "Drawing packet", DEC),
    sacked = field("string", "seth.sacked", "Arrived"),
    sacked_count = field("uint8", "seth.sacked_count", "Arrived, count", DEC),
    rcvd_total = field("uint64", "cc.rcvd_total", "Bytes received", DEC),
    srv6 = field("none", "srv6", "SRv6 encapsulation"),
    outer_src = field("ipv6", "srv6.outer_src", "Outer source"),
    outer_dst = field("ipv6", "srv6.outer_dst", "Outer destination"),
    outer_dscp = field("uint8", "srv6.dscp", "Outer DSCP", DEC),
    outer_ecn = field("uint8", "srv6.ecn", "Outer ECN", DEC, ECNS),
    outer_ttl = field("uint8", "srv6.ttl", "Outer hop limit", DEC),
    outer_flow_label = field("uint24", "srv6.flow_label", "Outer flow label", HEX),
    srh = field("bool", "srv6.srh", "Segment routing header"),
}
mrc.fields = fields

local notes = {
    trimmed = ProtoExpert.new("mrc.note.trimmed", "Trimmed by a switch: no payload, iCRC not checked", expert.group.SEQUENCE,
        expert.severity.NOTE),
    snaplen = ProtoExpert.new("mrc.note.snaplen", "Cut by the capture's snaplen", expert.group.UNDECODED, expert.severity.NOTE),
    short = ProtoExpert.new("mrc.note.short", "Ends inside a header", expert.group.MALFORMED, expert.severity.ERROR),
    pad = ProtoExpert.new("mrc.note.pad", "Pad is wrong", expert.group.MALFORMED, expert.severity.ERROR),
    payload = ProtoExpert.new("mrc.note.payload", "Payload in a control packet", expert.group.MALFORMED, expert.severity.ERROR),
    lengths = ProtoExpert.new("mrc.note.lengths", "Lengths of IP and UDP contradict each other or the frame", expert.group.MALFORMED,
        expert.severity.ERROR),
    icrc = ProtoExpert.new("mrc.note.icrc", "iCRC is wrong: a receiver drops this packet", expert.group.CHECKSUM,
        expert.severity.ERROR),
    ce = ProtoExpert.new("mrc.note.marked_not_ect", "CE outside a packet that is not ECN-capable: a receiver drops it",
        expert.group.PROTOCOL, expert.severity.WARN),
}
mrc.experts = notes

mrc.prefs.udp_ports = Pref.range("UDP ports", "4791,4971", "Destination ports of MRC, shared with RoCEv2", 65535)
mrc.prefs.check_icrc = Pref.bool("Check the iCRC", true, "Large captures load faster without")
mrc.prefs.dscp_trimmed = Pref.uint("DSCP of trimmed packets", 12, "Written by a switch that trims")
mrc.prefs.dscp_trimmed_last_hop = Pref.uint("DSCP of packets trimmed by the last hop", 16, "Written by the last switch, when it trims")

----------------------------------------------------------------------------------------------------------------------------
-- The layers below

local ipv4_layers, ipv6_layers, udp_layers = Field.new("ip"), Field.new("ipv6"), Field.new("udp")

-- The innermost of the layers that were dissected so far, and the one around it: {at, bytes}.
local function last_two(layers)
    local last, around
    for _, info in ipairs({ layers() }) do
        if info.range then last, around = { at = info.offset, bytes = info.range:raw() }, last end
    end
    return last, around
end

local function class_of(ip)
    if not ip.v6 then return ip.bytes:byte(2) end
    local first, second = ip.bytes:byte(1, 2)
    return first % 16 * 16 + floor(second / 16)
end

local function flow_label_of(ip)
    if not ip.v6 then return 0 end
    local _, second, third, fourth = ip.bytes:byte(1, 4)
    return second % 16 * 65536 + third * 256 + fourth
end

-- The outer header of an encapsulation, if `around` is one: IPv6 right before the inner header, or an SRH between them.
local function outer_of(ip, around)
    if not (around and ip.v6 and #around.bytes >= 40) then return nil end
    local between, next_header = ip.at - around.at - 40, around.bytes:byte(7)
    if next_header == 41 and between == 0 then return around end
    if next_header == 43 and between >= 8 then
        around.srh = true
        return around
    end
    return nil
end

-- IP and UDP of the packet: {ip, outer, udp}, each nil where it is not there or not whole.
local function layers_below()
    local udp, ip = last_two(udp_layers), last_two(ipv4_layers)
    local ip6, around = last_two(ipv6_layers)
    if ip6 and not (ip and ip.at > ip6.at) then
        ip = ip6
        ip.v6 = true
    end
    if not ip or #ip.bytes < (ip.v6 and 40 or 20) then return { udp = udp } end
    -- Some versions count extension headers in.
    if ip.v6 then ip.bytes = ip.bytes:sub(1, 40) end
    ip.class, ip.flow_label = class_of(ip), flow_label_of(ip)
    local outer = outer_of(ip, around)
    if outer then
        outer.v6 = true
        outer.class, outer.flow_label = class_of(outer), flow_label_of(outer)
    end
    return { ip = ip, outer = outer, udp = udp }
end

local function trim_of(dscp)
    if dscp == mrc.prefs.dscp_trimmed then return "trimmed" end
    if dscp == mrc.prefs.dscp_trimmed_last_hop then return "trimmed_last_hop" end
    return nil
end

-- DSCP and ECN as the receiver takes them, from both headers (RFC 6040, section 4.2), and whether it drops the packet for them.
local function judged(ip, outer)
    local dscp, ecn = floor(ip.class / 4), ip.class % 4
    if not outer then return dscp, ecn, false end
    local outer_dscp, outer_ecn = floor(outer.class / 4), outer.class % 4
    if trim_of(outer_dscp) then return outer_dscp, ecn, false end
    if trim_of(dscp) then return dscp, ecn, false end
    if outer_ecn == 3 then return dscp, ecn == 0 and 0 or 3, ecn == 0 end
    if outer_ecn == 1 and ecn == 2 then return dscp, 1, false end
    return dscp, ecn, false
end

----------------------------------------------------------------------------------------------------------------------------
-- iCRC

-- Exclusive or of 32 bits. Lua 5.3 and later have an operator, which earlier versions can't read; those come with `bit`.
local native_xor = (loadstring or load)("return function(a, b) return a ~ b end")
local xor = native_xor and native_xor() or function(a, b) return bit.bxor(a, b) % 0x100000000 end

-- By byte: its CRC, and what it is with each other byte. Tables cost less than calls here, and this loop sees every byte.
local crc_of, xor_of = {}, {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        local half = floor(crc / 2)
        crc = crc % 2 == 1 and xor(half, 0xEDB88320) or half
    end
    crc_of[byte], xor_of[byte] = crc, {}
    for other = 0, 255 do xor_of[byte][other] = xor(byte, other) end
end

-- CRC-32 as it stands on the wire: least significant byte first.
local function crc32(bytes)
    local crc = 0xFFFFFFFF
    for at = 1, #bytes, 64 do
        -- Pieces, since a call takes a limited number of values.
        for _, byte in ipairs({ bytes:byte(at, at + 63) }) do
            local low = crc % 256
            crc = xor(crc_of[xor_of[low][byte]], (crc - low) / 256)
        end
    end
    crc = xor(crc, 0xFFFFFFFF)
    local out = {}
    for i = 1, 4 do
        out[i] = string.char(crc % 256)
        crc = floor(crc / 256)
    end
    return table.concat(out)
end

-- The four bytes that belong behind `packet` (BTH to pad), or nil where the headers below are not there to compute them.
local function icrc_of(below, packet)
    local ip, udp = below.ip, below.udp
    if not (ip and udp and #udp.bytes == UDP_HEADER and udp.at == ip.at + #ip.bytes) then return nil end
    local masked
    if ip.v6 then
        masked = "\111\255\255\255" .. ip.bytes:sub(5, 7) .. "\255" .. ip.bytes:sub(9)
    else
        masked = ip.bytes:sub(1, 1) .. "\255" .. ip.bytes:sub(3, 8) .. "\255" .. ip.bytes:sub(10, 10) .. "\255\255" .. ip.bytes:sub(13)
    end
    return crc32(("\255"):rep(8) .. masked .. udp.bytes:sub(1, 6) .. "\255\255" .. packet:sub(1, 4) .. "\255" .. packet:sub(6))
end

----------------------------------------------------------------------------------------------------------------------------
-- The packet. `p` holds its bytes (tvb, captured, wire: lengths), where the next header begins (at), and what was read (values).

-- Adds the captured fields of a header. False when some were not.
local function add_header(p, layout)
    local left = p.captured - p.at
    if left <= 0 then return false end
    local range = p.tvb(p.at, math.min(left, layout.len))
    local tree = p.tree:add(layout.item, range)
    local values = {}
    p.values[layout] = values
    for _, of in ipairs(layout) do
        -- `pr` stands before the field that it chooses.
        local wanted = of.only_if_pr == nil or of.only_if_pr == values.pr
        if wanted and of.at + of.len <= left then
            local bytes = range(of.at, of.len)
            tree:add(of.field, bytes)
            if of.kind == "uint64" then
                values[of.name] = bytes:uint64():tohex()
            elseif of.kind == "int16" then
                values[of.name] = bytes:int()
            elseif of.kind ~= "bytes" then
                local value = bytes:uint()
                values[of.name] = of.unit and floor(value / of.unit) % of.modulus or value
            end
        end
    end
    p.header_tree = tree
    if left < layout.len then return false end
    p.at = p.at + layout.len
    return true
end

local function generated(tree, ...) tree:add(...):set_generated() end

-- PSNs of the bitmap as ranges, "7-9,12", and their number.
local function sacked(first, bitmap)
    local ranges, count, begin = {}, 0, nil
    local function psn(i) return string.format("%d", (first + i) % PSNS) end
    for i = 0, 64 do
        local digit = tonumber(bitmap:sub(16 - floor(i / 4), 16 - floor(i / 4)), 16)
        local set = i < 64 and floor(digit / 2 ^ (i % 4)) % 2 == 1
        if set then
            count = count + 1
            begin = begin or i
        elseif begin then
            ranges[#ranges + 1] = begin == i - 1 and psn(begin) or psn(begin) .. "-" .. psn(i - 1)
            begin = nil
        end
    end
    return #ranges > 0 and table.concat(ranges, ",") or "none", count
end

local function explain(p, layout)
    local v, tree = p.values[layout], p.header_tree
    if layout == SETH then
        if v.pr == 0 then generated(tree, own.ack_psn, (v.cack_psn + v.ack_psn_offset) % PSNS) end
        local ranges, count = sacked(v.cack_psn + v.sack_offset, v.sack_bitmap)
        generated(tree, own.sacked, ranges)
        generated(tree, own.sacked_count, count)
    elseif layout == CC_STATE then
        generated(tree, own.rcvd_total, UInt64(v.rcvd_bytes * 256 % 2 ^ 32, floor(v.rcvd_bytes / 2 ^ 24)))
    end
end

local function ts(v) return string.format("ts %d%s", v.tx_timestamp, v.tsr == 1 and " x1.024us" or "") end
local function short_hex(digits) return "0x" .. digits:gsub("^0+(%x)", "%1") end

-- The fields that matter to a reader, as in the lines of `mrcnic decode`.
local function summary(values)
    local v = values[METH]
    if v then
        local reth, imm, timestamp = values[RETH], values[IMMDT], values[TSETH]
        local text = string.format("msn %d va %s rkey 0x%x of %d", v.msn, short_hex(reth.va), reth.rkey, reth.dmalen)
        if imm then text = string.format("%s imm 0x%x rqmsn %d", text, imm.imm, v.rqmsn) end
        return timestamp and text .. " " .. ts(timestamp) or text
    end
    v = values[AETH]
    if v then
        local syndrome = SYNDROMES[v.syndrome] or string.format("syndrome 0x%02x", v.syndrome)
        return string.format("%s msn %d", v.syndrome == 0x1F and "ack" or syndrome, v.msn)
    end
    v = values[SETH]
    if v then
        local cc = values[CC_STATE]
        local drew = v.pr == 1 and "probe " .. v.probe_id or string.format("for %+d", v.ack_psn_offset)
        local skip = ({ [0] = "", " skip-once", " always-skip", " m 3" })[v.m]
        return string.format("cack %d %s bitmap %+d 0x%s%s of ev 0x%08x ts %d ooo %d rcvd %dx256 pen %d%s", v.cack_psn, drew,
            v.sack_offset, v.sack_bitmap:lower(), skip, v.entropy, cc.cc_tx_timestamp, cc.ooo_count, cc.rcvd_bytes, cc.rcv_cwnd_pen,
            cc.restore_cwnd == 1 and " restore" or "")
    end
    v = values[NETH]
    if v then
        local reason = NACK_REASONS[v.nack_reason] or string.format("reason 0x%02x", v.nack_reason)
        return string.format("%s psn %d of ev 0x%08x ts %d", reason, v.nack_psn, v.entropy, v.tx_timestamp)
    end
    v = values[PETH]
    if v then return string.format("probe %d %s", v.probe_id, ts(v)) end
    v = values[ERTH] or values[EETH]
    local op = ({ [0] = "port status", "ev probe", "op 2", "op 3" })[v.endpoint_op]
    if values[ERTH] and v.endpoint_op == 0 then op = string.format("ports up 0x%x", v.port_status_mask) end
    return op .. " " .. ts(v)
end

-- Notes why a receiver, or a reader of the capture, can't take the packet. Returns it as the info column says it.
local function refused(p, which, text)
    p.tree:add_proto_expert_info(notes[which], text)
    return "[" .. text .. "]"
end

-- The same where bytes are missing: `what` says which.
local function missing(p, what)
    if not p.cut then return refused(p, "short", what) end
    local text = string.format("cut by the capture's snaplen: %d of %d bytes captured", p.frame_captured, p.frame_len)
    return refused(p, "snaplen", what and not p.trim and text .. ", " .. what or text)
end

local function word(bytes, at)
    local high, low = bytes:byte(at, at + 1)
    return high * 256 + low
end

-- What the lengths of IP and UDP contradict, if anything.
local function wrong_length(p)
    local ip, outer, udp = p.below.ip, p.below.outer, p.below.udp
    if not (ip and udp and #udp.bytes == UDP_HEADER and udp.at == ip.at + #ip.bytes) then return nil end
    local ip_end = ip.v6 and udp.at + word(ip.bytes, 5) or ip.at + word(ip.bytes, 3)
    if ip_end > p.frame_len or ip_end < udp.at + UDP_HEADER then return "the IP length does not fit the frame" end
    if outer and outer.at + 40 + word(outer.bytes, 5) ~= ip_end then return "the outer IPv6 length does not fit the inner packet" end
    if udp.at + word(udp.bytes, 5) ~= ip_end then return "the UDP length does not fit the IP length" end
    return nil
end

-- Payload, pad and iCRC of a packet that was not trimmed. Returns what the info column says of the end.
local function add_body(p, opcode)
    local pad, data = p.values[BTH].pad, opcode <= 0xCB
    local icrc_at = p.wire - ICRC
    local body = icrc_at - p.at
    if body < 0 then return missing(p, "the packet ends before its iCRC") end
    p.payload_len = math.max(0, body - pad)
    generated(p.tree, own.payload_len, p.payload_len)
    if data then generated(p.tree, own.nominal_size, p.payload_len + 60 + p.values[BTH].tsh * 4) end
    local function add(item, from, to)
        to = math.min(to, p.captured)
        if from < to then p.tree:add(item, p.tvb(from, to - from)) end
    end
    add(own.payload, p.at, p.at + p.payload_len)
    add(own.pad, p.at + p.payload_len, icrc_at)
    add(own.icrc, icrc_at, p.wire)

    local wrong
    if data and (body % 4 ~= 0 or body < pad) then
        wrong = refused(p, "pad", "payload and pad are no multiple of 4 bytes")
    elseif not data and body ~= 0 then
        wrong = refused(p, "payload", "a control packet carries payload")
    end
    if p.captured < p.wire then return wrong or missing(p, not p.cut and "the packet ends before its iCRC" or nil) end
    -- With wrong lengths nobody knows where it stands.
    local expected = mrc.prefs.check_icrc and not p.wrong_length and icrc_of(p.below, p.tvb(0, icrc_at):raw())
    if not expected then return wrong or "icrc not checked" end
    local range = p.tvb(icrc_at, ICRC)
    local ok = range:raw() == expected
    generated(p.tree, own.icrc_ok, range, ok)
    if ok then return wrong or "icrc ok" end
    local digits = expected:gsub(".", function(c) return string.format("%02x", c:byte()) end)
    refused(p, "icrc", "the iCRC is wrong: it should be " .. digits)
    return wrong or "icrc WRONG"
end

-- What is left of a trimmed packet; lengths, payload and iCRC of one mean nothing.
local function add_trimmed(p)
    if p.at < p.captured then p.tree:add(own.rest, p.tvb(p.at, p.captured - p.at)) end
    generated(p.tree, own.payload_len, 0)
    p.tree:add_proto_expert_info(notes.trimmed)
    return p.trim == "trimmed" and "trimmed" or "trimmed by the last hop"
end

local function add_outer(p, outer)
    local tree, bytes = p.tree:add(own.srv6), outer.bytes
    tree:set_generated()
    local function address(from) return Address.ipv6((bytes:sub(from, from + 15):gsub("..", function(pair)
        local high, low = pair:byte(1, 2)
        return string.format("%02x%02x:", high, low)
    end):sub(1, -2))) end
    local source, destination = address(9), address(25)
    generated(tree, own.outer_src, source)
    generated(tree, own.outer_dst, destination)
    generated(tree, own.outer_dscp, floor(outer.class / 4))
    generated(tree, own.outer_ecn, outer.class % 4)
    generated(tree, own.outer_ttl, bytes:byte(8))
    generated(tree, own.outer_flow_label, outer.flow_label)
    generated(tree, own.srh, outer.srh == true)
    return string.format("srv6 %s > %s%s, ", tostring(source), tostring(destination), outer.srh and " srh" or "")
end

-- The entropy value, and what the receiver makes of the layers below. Returns the end of the info column's line.
local function add_below(p, pinfo)
    local ip, outer, udp = p.below.ip, p.below.outer, p.below.udp
    local port = udp and #udp.bytes >= 2 and udp.bytes:byte(1) * 256 + udp.bytes:byte(2) or pinfo.src_port
    p.ev = (ip and ip.flow_label % 65536 or 0) * 65536 + port
    generated(p.tree, own.ev, p.ev)
    if not ip then return "" end
    local dscp, ecn, dropped = judged(ip, outer)
    p.trim = trim_of(dscp)
    generated(p.tree, own.dscp, dscp)
    generated(p.tree, own.ecn, ecn)
    generated(p.tree, own.trimmed, p.trim ~= nil)
    if p.trim then generated(p.tree, own.trim, p.trim) end
    if dropped then
        p.refusal = refused(p, "ce", "a congestion mark outside a packet that is not ECN-capable")
    end
    p.wrong_length = not p.trim and wrong_length(p)
    if p.wrong_length then p.refusal = p.refusal or refused(p, "lengths", p.wrong_length) end
    return (outer and add_outer(p, outer) or "") .. string.format("dscp %d %s, ", dscp, ECNS[ecn])
end

local function is_mrc(tvb)
    return tvb:captured_len() >= 2 and OPCODES[tvb(0, 1):uint()] ~= nil and tvb(1, 1):uint() % 16 == 0
end

-- Adds what follows the BTH. Returns what the info column says of the fields and of the end.
local function add_rest(p, opcode, tsh)
    for _, layout in ipairs(headers_of(opcode, tsh)) do
        if not add_header(p, layout) then
            local left = p.trim and add_trimmed(p)
            if left and not p.cut then return "headers cut", left end
            return "headers cut", missing(p, "the packet ends inside the " .. layout.short)
        end
        explain(p, layout)
    end
    return summary(p.values), p.trim and add_trimmed(p) or add_body(p, opcode)
end

function mrc.dissector(tvb, pinfo, root)
    if not is_mrc(tvb) then return 0 end
    local opcode = tvb(0, 1):uint()
    local name = OPCODES[opcode]
    pinfo.cols.protocol = "MRC"
    local p = {
        tvb = tvb, captured = tvb:captured_len(), wire = tvb:reported_len(), at = 0, payload_len = 0,
        frame_captured = pinfo.caplen, frame_len = pinfo.len, cut = pinfo.caplen < pinfo.len,
        values = {}, below = layers_below(),
    }
    p.tree = root:add(mrc, tvb(0, p.captured))
    p.tree:append_text(", " .. name)
    generated(p.tree, own.op, name)
    local below_text = add_below(p, pinfo)

    local line = string.format("%s ev 0x%08x ", name, p.ev)
    local fields_text, result
    if add_header(p, BTH) then
        local bth = p.values[BTH]
        line = string.format("%sqp %d psn %d ", line, bth.dqp, bth.psn)
        for _, flag in ipairs({ "a", "rtx", "se" }) do
            if bth[flag] == 1 then line = line .. flag .. " " end
        end
        fields_text, result = add_rest(p, opcode, bth.tsh == 1)
    else
        fields_text, result = "headers cut", missing(p, "the packet ends inside the BTH")
    end
    pinfo.cols.info = string.format("%s%s, %slen %d, %s", line, fields_text, below_text, p.payload_len, p.refusal or result)
    return p.captured
end

----------------------------------------------------------------------------------------------------------------------------
-- Ports

local udp_port = DissectorTable.get("udp.port")
local own_dissector = Dissector.get("mrc")
-- What was at our ports before, which gets all frames that are not MRC.
local others, registered = {}, {}

function shared.dissector(tvb, pinfo, root)
    if is_mrc(tvb) then return own_dissector:call(tvb, pinfo, root) end
    local other = others[pinfo.match_uint]
    if not other then return 0 end
    -- What it meets in a broken frame stands in the tree already, and is no error of this script.
    local ok, used = pcall(other.call, other, tvb, pinfo, root)
    return ok and used or tvb:captured_len()
end

local function register()
    for port in pairs(registered) do
        udp_port:remove(port, shared)
        if others[port] then udp_port:add(port, others[port]) end
    end
    others, registered = {}, {}
    for first, last in tostring(mrc.prefs.udp_ports):gmatch("(%d+)%-?(%d*)") do
        for port = tonumber(first), tonumber(last) or tonumber(first) do
            if not registered[port] then
                others[port] = udp_port:get_dissector(port)
                registered[port] = true
                udp_port:add(port, shared)
            end
        end
    end
end

mrc.prefs_changed = register
register()
