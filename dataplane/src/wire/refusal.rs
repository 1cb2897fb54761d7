//! Why bytes are not an MRC packet.

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $text:literal;)+) => {
        /// Why a frame is refused before any QP sees it. Each reason has a counter of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Refusal {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Refusal {
            /// Every reason, in the order of their indices.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant,)+];
            /// How many reasons there are.
            pub const COUNT: usize = Refusal::ALL.len();

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)+ }
            }

            /// What was wrong, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Refusal::$variant => $text,)+ }
            }
        }
    };
}

refusals! {
    /// The frame ends inside the Ethernet header.
    TruncatedEthernet = "truncated_ethernet", "the frame ends inside the Ethernet header";
    /// The frame ends inside a VLAN tag.
    TruncatedVlan = "truncated_vlan", "the frame ends inside a VLAN tag";
    /// The frame ends inside the IPv4 header.
    TruncatedIpv4 = "truncated_ipv4", "the frame ends inside the IPv4 header";
    /// The frame ends inside the IPv6 header.
    TruncatedIpv6 = "truncated_ipv6", "the frame ends inside the IPv6 header";
    /// The frame ends inside a Segment Routing Header.
    TruncatedSrh = "truncated_srh", "the frame ends inside the SRH";
    /// The frame ends inside the UDP header.
    TruncatedUdp = "truncated_udp", "the frame ends inside the UDP header";
    /// The packet ends inside the BTH.
    TruncatedBth = "truncated_bth", "the packet ends inside the BTH";
    /// The packet ends inside the METH.
    TruncatedMeth = "truncated_meth", "the packet ends inside the METH";
    /// The packet ends inside the TSETH.
    TruncatedTseth = "truncated_tseth", "the packet ends inside the TSETH";
    /// The packet ends inside the RETH.
    TruncatedReth = "truncated_reth", "the packet ends inside the RETH";
    /// The packet ends inside the immediate data.
    TruncatedImmDt = "truncated_immdt", "the packet ends inside the immediate data";
    /// The packet ends inside the AETH.
    TruncatedAeth = "truncated_aeth", "the packet ends inside the AETH";
    /// The packet ends inside the SETH.
    TruncatedSeth = "truncated_seth", "the packet ends inside the SETH";
    /// The packet ends inside the CC_STATE.
    TruncatedCcState = "truncated_cc_state", "the packet ends inside the CC_STATE";
    /// The packet ends inside the NETH.
    TruncatedNeth = "truncated_neth", "the packet ends inside the NETH";
    /// The packet ends inside the PETH.
    TruncatedPeth = "truncated_peth", "the packet ends inside the PETH";
    /// The packet ends inside the ERTH.
    TruncatedErth = "truncated_erth", "the packet ends inside the ERTH";
    /// The packet ends inside the EETH.
    TruncatedEeth = "truncated_eeth", "the packet ends inside the EETH";
    /// No room for the iCRC.
    TruncatedIcrc = "truncated_icrc", "the packet ends before its iCRC";
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip", "not MRC: neither IPv4 nor IPv6";
    /// IP, but not UDP.
    NotUdp = "not_udp", "not MRC: not UDP";
    /// UDP to another port.
    OtherUdpPort = "other_udp_port", "not MRC: UDP to another port";
    /// A fragment of an IP packet; RoCE packets are never fragmented.
    Fragment = "ip_fragment", "not MRC: a fragment of an IP packet";
    /// IPv6 with a routing header of another type than SRv6's.
    OtherRoutingHeader = "other_routing_header", "not MRC: a routing header that is no SRH";
    /// Something else than IPv6 follows the SRH.
    NoInnerIpv6 = "no_inner_ipv6", "not MRC: no IPv6 header follows the SRH";
    /// More than one segment is left, or the SRH is too short for its segments.
    BadSrh = "bad_srh", "more than one segment of the SRH is left, or its segments do not fit it";
    /// An SRH with which the header stack could be longer than what is read of a frame.
    LongSrh = "long_srh", "the SRH is longer than is read";
    /// An encapsulated packet that is encapsulated itself.
    NestedEncapsulation = "nested_encapsulation", "the packet is encapsulated more than once";
    /// The version nibble or the header length contradicts the EtherType.
    BadIpHeader = "bad_ip_header", "the IP version or header length is wrong";
    /// The IP length is larger than the frame or smaller than its headers.
    BadIpLength = "bad_ip_length", "the IP length does not fit the frame";
    /// The outer IPv6 header carries more or less than the inner packet.
    BadOuterLength = "bad_outer_length", "the outer IPv6 length does not fit the inner packet";
    /// The UDP length is not what IP carries.
    BadUdpLength = "bad_udp_length", "the UDP length does not fit the IP length";
    /// Congestion is marked outside, and the inner packet can't carry the mark (RFC 6040).
    MarkedNotEct = "marked_not_ect", "a congestion mark outside a packet that is not ECN-capable";
    /// More pad than payload, or payload and pad no multiple of 4.
    BadPad = "bad_pad", "payload and pad are no multiple of 4 bytes";
    /// Bytes between the headers of a control packet and its iCRC.
    UnexpectedPayload = "unexpected_payload", "a control packet carries payload";
    /// BTH `tver` is not 0.
    BadTransportVersion = "bad_transport_version", "the transport version is not 0";
    /// No MRC opcode.
    UnknownOpcode = "unknown_opcode", "the opcode is not one of MRC";
    /// The iCRC does not match the bytes.
    BadIcrc = "bad_icrc", "the iCRC is wrong";
}

impl Refusal {
    /// True when the frame is no MRC packet at all, rather than a broken one.
    #[must_use]
    pub const fn is_not_mrc(self) -> bool {
        matches!(
            self,
            Refusal::NotIp
                | Refusal::NotUdp
                | Refusal::OtherUdpPort
                | Refusal::Fragment
                | Refusal::OtherRoutingHeader
                | Refusal::NoInnerIpv6
        )
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refusal {}
