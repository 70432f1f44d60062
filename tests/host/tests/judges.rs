// SPDX-License-Identifier: GPL-2.0
//! Third judges: mounts that were captured in a guest (`tests/judges`).
//!
//! A recording holds every SMB Direct message of one mount over iWARP, what tshark's dissector says of it,
//! and the client's counters of DebugData when all was quiet. Our decoder must say the same of each
//! message and our encoder must make the same bytes. Then two engines replay the mount: every message must
//! be one that they would send and accept, and they must end with the counters of the kernel.
//!
//! `recordings/` has some; `SMBD_RECORDING=<file>` names one more, which is how `make test` judges the
//! mount it has just made.

mod common;

use smbdirect_host::proto::credits::Credits;
use smbdirect_host::proto::negotiate::{self, Accept, Negotiated};
use smbdirect_host::proto::pdu::{DataHeader, NegotiateRequest, NegotiateResponse};
use smbdirect_host::proto::reassembly::Reassembly;
use std::collections::HashMap;
use std::path::PathBuf;

type Told = HashMap<String, u64>;

struct Message {
    from_client: bool,
    /// As long as on the wire; the payload is not recorded and reads as zero.
    bytes: Vec<u8>,
    told: Told,
}

struct Recording {
    messages: Vec<Message>,
    end: Told,
}

fn recordings() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut all: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    assert!(!all.is_empty(), "no recording in {}", folder.display());
    all.extend(std::env::var_os("SMBD_RECORDING").map(PathBuf::from));
    all
}

fn read(path: &PathBuf) -> Recording {
    println!("{}", path.display());
    let text = std::fs::read_to_string(path).unwrap();
    let mut recording = Recording {
        messages: Vec::new(),
        end: Told::new(),
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["end", name, value] => {
                recording
                    .end
                    .insert(name.to_string(), value.parse().unwrap());
            }
            [from, length, header, ref told @ ..] => recording.messages.push(Message {
                from_client: from == "client",
                bytes: bytes(header, length.parse().unwrap()),
                told: told.iter().map(|told| pair(told)).collect(),
            }),
            _ => panic!("{line}"),
        }
    }
    assert!(recording.messages.len() > 20 && !recording.end.is_empty());
    recording
}

fn bytes(hex: &str, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    bytes.resize(length, 0);
    bytes
}

fn pair(told: &str) -> (String, u64) {
    let (name, value) = told.split_once('=').unwrap();
    (name.to_string(), value.parse().unwrap())
}

/// Compares with the other judge, field by field and none left out.
fn agree(told: &Told, ours: &[(&str, u64)]) {
    let ours: Told = ours
        .iter()
        .map(|&(name, value)| (name.to_string(), value))
        .collect();
    assert_eq!(*told, ours);
}

fn judge_request(message: &Message) {
    let request = NegotiateRequest::parse(&message.bytes).unwrap();
    agree(
        &message.told,
        &[
            ("min", request.min_version.into()),
            ("max", request.max_version.into()),
            ("requested", request.credits_requested.into()),
            ("preferred", request.preferred_send_size.into()),
            ("max_receive", request.max_receive_size.into()),
            ("max_fragmented", request.max_fragmented_size.into()),
        ],
    );
    assert_eq!(request.encode()[..], message.bytes);
}

fn judge_response(message: &Message) {
    let response = NegotiateResponse::parse(&message.bytes).unwrap();
    agree(
        &message.told,
        &[
            ("min", response.min_version.into()),
            ("max", response.max_version.into()),
            ("version", response.negotiated_version.into()),
            ("requested", response.credits_requested.into()),
            ("granted", response.credits_granted.into()),
            ("status", response.status.into()),
            ("max_read_write", response.max_read_write_size.into()),
            ("preferred", response.preferred_send_size.into()),
            ("max_receive", response.max_receive_size.into()),
            ("max_fragmented", response.max_fragmented_size.into()),
        ],
    );
    assert_eq!(response.encode()[..], message.bytes);
}

fn judge_data(message: &Message) {
    let header = DataHeader::parse(&message.bytes, u32::MAX).unwrap();
    agree(
        &message.told,
        &[
            ("requested", header.credits_requested.into()),
            ("granted", header.credits_granted.into()),
            ("flags", header.response_requested.into()),
            ("remaining", header.remaining.into()),
            ("offset", header.offset.into()),
            ("length", header.length.into()),
        ],
    );
    let encoded = header.encode();
    assert_eq!(
        encoded[..header.wire_len()],
        message.bytes[..header.wire_len()]
    );
}

#[test]
fn tshark_reads_every_message_as_we_do() {
    for path in recordings() {
        let recording = read(&path);
        judge_request(&recording.messages[0]);
        judge_response(&recording.messages[1]);
        recording.messages[2..].iter().for_each(judge_data);
    }
}

/// One end of the replay.
struct End {
    credits: Credits,
    reassembly: Reassembly,
    max_fragmented: u32,
    max_send: usize,
    stored: u64,
    whole: u64,
}

impl End {
    fn new(result: &Negotiated) -> Self {
        let params = &result.params;
        let mut credits = Credits::new(params.recv_credit_max, params.send_credit_target);
        credits.negotiated(result.send_credits, result.recv_target);
        Self {
            credits,
            reassembly: Reassembly::new(true),
            max_fragmented: params.max_fragmented_recv_size,
            max_send: params.max_send_size.try_into().unwrap(),
            stored: 0,
            whole: 0,
        }
    }

    /// A message that the kernel sent: the engine would have sent it, with these credits. Receives count
    /// as posted when the message grants them, because a capture does not show the posts.
    fn sends(&mut self, message: &Message) {
        let header = DataHeader::parse(&message.bytes, u32::MAX).unwrap();
        assert!(message.bytes.len() <= self.max_send);
        self.credits.posted(header.credits_granted.into());
        assert_eq!(self.credits.take(), Ok(header.credits_granted));
        assert_eq!(self.credits.credits_requested(), header.credits_requested);
    }

    fn receives(&mut self, message: &Message) {
        let header = DataHeader::parse(&message.bytes, self.max_fragmented).unwrap();
        self.credits.received(&header).unwrap();
        let place = self.reassembly.accept(&header).unwrap();
        self.stored += u64::from(place.stored);
        self.whole += u64::from(place.last);
    }
}

/// Both sides after the negotiation, which must come out as it did in the kernel.
fn negotiated(recording: &Recording) -> [End; 2] {
    let [request, response] = [0, 1].map(|at| &recording.messages[at]);
    let own = common::cifs();
    assert_eq!(negotiate::request(&own)[..], request.bytes);
    let Accept::Proceed(server) = negotiate::accept(&request.bytes, &common::ksmbd(), 255) else {
        panic!("refused");
    };
    let mut server_end = End::new(&server);
    server_end
        .credits
        .posted(server_end.credits.missing(u32::MAX));
    let granted = server_end.credits.grant_all_for_response();
    assert_eq!(negotiate::response(&server, granted)[..], response.bytes);
    // What is posted beyond that shows when it is granted.
    server_end.credits.unposted(server_end.credits.available());
    let pages = 256;
    let client = negotiate::initiate(&response.bytes, &own, pages, 4096, 255).unwrap();
    [End::new(&client), server_end]
}

#[test]
fn a_recorded_mount_replays_to_the_same_counters() {
    for path in recordings() {
        let recording = read(&path);
        let [mut client, mut server] = negotiated(&recording);
        for message in &recording.messages[2..] {
            let (from, to) = match message.from_client {
                true => (&mut client, &mut server),
                false => (&mut server, &mut client),
            };
            from.sends(message);
            to.receives(message);
        }
        let is = |name: &str, value: u64| assert_eq!(recording.end[name], value, "{name}");
        is("send_credits", client.credits.send_credits().into());
        is("receive_credits", client.credits.outstanding().into());
        is("receive_target", client.credits.receive_target().into());
        is("stored", client.stored);
        assert_eq!(
            client.credits.outstanding(),
            server.credits.send_credits().into()
        );
        assert_eq!(
            server.credits.outstanding(),
            client.credits.send_credits().into()
        );
        assert_eq!((client.reassembly.owed(), server.reassembly.owed()), (0, 0));
        println!("{} and {} whole messages", server.whole, client.whole);
    }
}
