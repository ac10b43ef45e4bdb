//! `mb-ecn CARRIER …`, on the stages that queue (`spec/mb-ecn.md`, decisions.md 6).

use super::lex::{Cursor, Token};
use super::{SpecError, Word, units};
use crate::mark::mb_ecn::dtp::Layout;
use crate::mark::mb_ecn::l4s::DEFAULT_SATURATION;
use crate::mark::mb_ecn::{DEFAULT_MAX, Dtp, Flow, MarkAt, Params, Whose};

/// The word that begins it.
const WORD: &str = "mb-ecn";

/// What follows the carrier.
pub(super) const WORDS: &[Word] = &[
    Word { name: "trust-all", args: "", sample: "dtp trust-all", help: "dtp: marks without learning flows first" },
    Word {
        name: "addr-size", args: "N", sample: "dtp addr-size 8", help: "dtp: bytes of an address, 1…8; default 4"
    },
    Word {
        name: "ethertype",
        args: "N",
        sample: "dtp ethertype 0xa001",
        help: "dtp: ethertype of the layer, 0x600…0xfffe; default 0xa000",
    },
    Word {
        name: "max-ttl", args: "N", sample: "dtp max-ttl 30", help: "dtp: largest TTL believed, 1…255; default 60"
    },
    Word {
        name: "flow",
        args: "SRC/DST/EID",
        sample: "dtp flow 02:00:00:00:00:01/02:00:00:00:00:02/66",
        help: "dtp: a flow that need not be learned, by its MAC addresses and endpoint; may be repeated",
    },
    Word {
        name: "mark-at",
        args: "dequeue|enqueue",
        sample: "l4s mark-at enqueue",
        help: "marks a packet as it leaves, or as it comes; default dequeue",
    },
    Word {
        name: "depth",
        args: "own|total",
        sample: "l4s depth total",
        help: "depth of the flow's own queue times the flows that wait, or of all; default own",
    },
    Word {
        name: "saturation",
        args: "TIME",
        sample: "l4s saturation 3ms",
        help: "l4s: waiting time at which every packet is marked, though no less than eight packets; default 5ms",
    },
    Word {
        name: "max",
        args: "CODE",
        sample: "hbh max 32",
        help: "depth code from which a flow that does not listen may be dropped, 1…255; default 40, 1024 packets",
    },
];

/// Takes the `mb-ecn` words out of a stage's: the others, and what those say.
pub(super) fn split<'a>(
    kind: Token<'a>,
    words: &'a [Token<'a>],
    end: usize,
) -> Result<(Vec<Token<'a>>, Option<Params>), SpecError> {
    let Some(first) = words.iter().position(|w| w.text == WORD) else { return Ok((words.to_vec(), None)) };
    let at = words[first];
    if !["pfifo", "bfifo", "pfifo_head_drop", "codel", "fq_codel", "cake"].contains(&kind.text) {
        let why = format!("\"{WORD}\" belongs to pfifo, codel, fq_codel or cake, and {} is none of them", kind.text);
        return Err(SpecError::new(at.at, at.text.len(), why));
    }
    let mut others = Vec::new();
    let mut params = Params::default();
    let mut args = Cursor::new(words, end);
    while let Some(word) = args.next_word() {
        match word.text {
            WORD => carrier(&mut params, &mut args)?,
            _ => others.push(word),
        }
    }
    Ok((others, Some(params)))
}

/// A carrier and the words behind it.
fn carrier(params: &mut Params, args: &mut Cursor<'_>) -> Result<(), SpecError> {
    const CARRIERS: [&str; 3] = ["dtp", "l4s", "hbh"];
    let carrier = args.value(WORD, |word| match CARRIERS.contains(&word) {
        true => Ok(word.to_string()),
        false => Err(format!("allowed: {}", CARRIERS.join(", "))),
    })?;
    let twice = match carrier.as_str() {
        "dtp" => params.dtp.replace(Dtp::default()).is_some(),
        "l4s" => std::mem::replace(&mut params.l4s, true),
        _ => std::mem::replace(&mut params.hbh, true),
    };
    if twice {
        return Err(args.refuse(format!("\"{WORD} {carrier}\" is given twice")));
    }
    while let Some(word) = args.peek().filter(|w| WORDS.iter().any(|k| k.name == w.text)) {
        args.next_word();
        match word.text {
            "mark-at" => {
                params.mark_at = args.arg(|w| match w {
                    "dequeue" => Ok(MarkAt::Dequeue),
                    "enqueue" => Ok(MarkAt::Enqueue),
                    _ => Err("allowed: dequeue, enqueue".into()),
                })?;
            }
            "depth" => {
                params.depth = args.arg(|w| match w {
                    "own" => Ok(Whose::Own),
                    "total" => Ok(Whose::Total),
                    _ => Err("allowed: own, total".into()),
                })?;
            }
            "saturation" if carrier == "l4s" => {
                params.saturation = args.arg(|w| match units::time_us(w)? {
                    0 => Err("every packet would be marked at once".into()),
                    us => Ok(us),
                })?;
            }
            "saturation" => return Err(args.refuse(format!("\"saturation\" belongs to \"{WORD} l4s\""))),
            "max" => params.max = args.arg(units::integer(1..=255))? as u8,
            _ if carrier != "dtp" => {
                return Err(args.refuse(format!("\"{}\" belongs to \"{WORD} dtp\"", word.text)));
            }
            name => {
                let dtp = params.dtp.get_or_insert_default();
                dtp_word(dtp, name, args)?;
            }
        }
    }
    Ok(())
}

fn dtp_word(dtp: &mut Dtp, name: &str, args: &mut Cursor<'_>) -> Result<(), SpecError> {
    let layout = &mut dtp.layout;
    match name {
        "trust-all" => dtp.trust_all = true,
        "addr-size" => layout.addr_size = args.arg(units::integer(1..=8))? as u8,
        "ethertype" => layout.ethertype = args.arg(units::integer(0x600..=0xFFFE))? as u16,
        "max-ttl" => layout.max_ttl = args.arg(units::integer(1..=255))? as u8,
        _ => dtp.flows.push(args.arg(flow)?),
    }
    Ok(())
}

fn flow(word: &str) -> Result<Flow, String> {
    let parts: Vec<_> = word.split('/').collect();
    let [src, dst, eid] = parts[..] else { return Err("a flow is SRC/DST/EID, with MAC addresses".into()) };
    let eid = units::integer(1..=65_535)(eid)? as u16;
    Ok(Flow { src: mac(src)?, dst: mac(dst)?, eid })
}

fn mac(word: &str) -> Result<[u8; 6], String> {
    let bytes: Result<Vec<u8>, _> = word.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    let bytes = bytes.ok().and_then(|b| b.try_into().ok());
    bytes.ok_or_else(|| format!("\"{word}\" is no MAC address such as 02:00:00:00:00:01"))
}

/// The words that give these parameters.
pub(super) fn words(p: &Params) -> String {
    let default = Layout::default();
    let mut carriers: Vec<String> = Vec::new();
    if let Some(dtp) = &p.dtp {
        let mut out = format!("{WORD} dtp");
        if dtp.trust_all {
            out += " trust-all";
        }
        if dtp.layout.addr_size != default.addr_size {
            out += &format!(" addr-size {}", dtp.layout.addr_size);
        }
        if dtp.layout.ethertype != default.ethertype {
            out += &format!(" ethertype {:#x}", dtp.layout.ethertype);
        }
        if dtp.layout.max_ttl != default.max_ttl {
            out += &format!(" max-ttl {}", dtp.layout.max_ttl);
        }
        for flow in &dtp.flows {
            let mac = |m: &[u8; 6]| m.map(|b| format!("{b:02x}")).join(":");
            out += &format!(" flow {}/{}/{}", mac(&flow.src), mac(&flow.dst), flow.eid);
        }
        carriers.push(out);
    }
    if p.l4s {
        let saturation = match p.saturation {
            DEFAULT_SATURATION => String::new(),
            us => format!(" saturation {us}us"),
        };
        carriers.push(format!("{WORD} l4s{saturation}"));
    }
    if p.hbh {
        carriers.push(format!("{WORD} hbh"));
    }
    let mut out = carriers.join(" ");
    // These are said once and hold for all carriers.
    if p.mark_at == MarkAt::Enqueue {
        out += " mark-at enqueue";
    }
    if p.depth == Whose::Total {
        out += " depth total";
    }
    if p.max != DEFAULT_MAX {
        out += &format!(" max {}", p.max);
    }
    out
}
