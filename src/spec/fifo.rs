//! Words of `pfifo`, `bfifo` and `pfifo_head_drop`.

use super::lex::Cursor;
use super::{Grammar, SpecError, Word, units};
use crate::qdisc::fifo::{Kind, Params};

impl Grammar for Params {
    const WORDS: &'static [Word] = &[Word {
        name: "limit",
        args: "N",
        sample: "limit 50",
        help: "packets held at most (bfifo: bytes); default 1000 packets, for bfifo times the MTU",
    }];

    fn word(&mut self, _: &str, args: &mut Cursor<'_>, _: &mut Vec<String>) -> Result<(), SpecError> {
        self.limit = Some(match self.kind {
            Kind::Bytes => args.arg(units::size)?,
            Kind::Packets | Kind::HeadDrop => args.arg(units::count)?,
        });
        Ok(())
    }

    fn words(&self) -> String {
        match (self.limit, self.kind) {
            (Some(limit), Kind::Bytes) => format!("limit {}", units::show_size(limit)),
            (Some(limit), _) => format!("limit {limit}"),
            (None, _) => String::new(),
        }
    }
}
