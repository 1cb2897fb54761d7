//! What is written from an image is what its template would have written.

use super::*;

/// Packets of one template and one kind, whose headers differ in the second one.
#[derive(Clone, Debug)]
struct Alike {
    addressing: Addressing,
    marks: Marks,
    bth: Bth,
    headers: WriteHeaders,
    payload: Vec<u8>,
    differing: [Differing; 2],
}

impl Alike {
    fn template(&self) -> Template {
        Template::new(&self.addressing).unwrap()
    }

    /// One of the two as its template writes it.
    fn written(&self, which: usize) -> Vec<u8> {
        let Differing { ev, ack_request, psn, msn, va } = self.differing[which];
        let bth = Bth { ack_request, psn, ..self.bth };
        let mut headers = self.headers;
        (headers.meth.msn, headers.reth.va) = (msn, va);
        let (template, len) = (self.template(), self.payload.len());
        let mut frame = vec![0; template.frame_len(headers.len(), len)];
        let body = template.write_headers(&mut frame, Marks { ev, ..self.marks }, &bth, &headers, len).unwrap();
        frame[body..body + len].copy_from_slice(&self.payload);
        assert!(template.seal(&mut frame, body, len));
        frame
    }
}

fn alike() -> impl Strategy<Value = Alike> {
    let opcodes = [Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLast, Opcode::WriteOnly];
    let differing = any::<(u32, bool, u32, u16, u64)>().prop_map(|(ev, ack_request, psn, msn, va)| Differing {
        ev,
        ack_request,
        psn: psn & 0x00FF_FFFF,
        msn,
        va,
    });
    (
        addressing(addresses()),
        marks(),
        prop::sample::select(opcodes.to_vec()),
        0..1_u32 << 24,
        any::<(u16, u32, u32)>(),
        prop::collection::vec(any::<u8>(), 0..300),
        [differing.clone(), differing],
    )
        .prop_map(|(addressing, marks, opcode, dqp, (rqmsn, rkey, dmalen), payload, differing)| Alike {
            addressing,
            marks,
            bth: Bth::new(opcode, dqp, 0),
            headers: WriteHeaders {
                meth: Meth { rqmsn, msn: 0 },
                timestamp: None,
                reth: Reth { va: 0, rkey, dmalen },
                immediate: None,
            },
            payload,
            differing,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn from_the_image_of_one_packet_comes_the_next_one_as_its_template_writes_it(s in alike(), stale: u8, lent: Index) {
        let (first, second, len) = (s.written(0), s.written(1), s.payload.len());
        let image = WriteImage::of(&s.template(), &first);
        prop_assert_eq!(image.is_some(), first.len() >= 98);
        let Some(image) = image else { return Ok(()) };

        // In one piece, and in two: some of the payload stands elsewhere.
        for lead in [len, lent.index(len + 1)] {
            let body = second.len() - ICRC_LEN - padding(len) - len;
            let cut = body + lead;
            let mut head = vec![stale; cut.max(98)];
            prop_assert_eq!(image.write(&mut head, &s.differing[1]), Some(body));
            head[body..cut].copy_from_slice(&s.payload[..lead]);
            let mut icrc = image.icrc_over(&mut head[..cut], &s.differing[1]).unwrap();
            icrc.update(&s.payload[lead..]);
            let mut tail = vec![stale; second.len() - body - len];
            prop_assert!(Template::end(&mut tail, icrc, padding(len)));
            prop_assert_eq!(&head[..cut], &second[..cut]);
            prop_assert_eq!(&tail[..], &second[body + len..]);
        }

        // Too short for it.
        let mut short = vec![stale; 97];
        prop_assert_eq!(image.write(&mut short, &s.differing[1]), None);
        prop_assert!(image.icrc_over(&mut short[..s.template().len()], &s.differing[1]).is_none());
    }
}
