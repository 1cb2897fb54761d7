//! The monitor's lists: which queue pairs it logs, and what makes it log more.

use super::rule::Rule;
use super::value::{Field, Kind, Refused, Value};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Characters that a shell would act on: none may be in a free text.
const SHELL: &str = "[]{}()'\";$*?#~!&<>";

/// Which queue pairs a filter lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter<T> {
    /// All of them.
    All,
    /// Those that match an entry.
    Any(Vec<T>),
}

/// An end of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpEnd {
    /// The NIC's address.
    pub address: Ipv4Addr,
    /// The number that the queue pair has there; 0 until the other NIC knows it.
    pub qp: u32,
}

/// The number of a NIC's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(pub u32);

impl FromStr for QpEnd {
    type Err = ();

    fn from_str(text: &str) -> Result<QpEnd, ()> {
        let (address, qp) = text.split_once(':').ok_or(())?;
        Ok(QpEnd { address: address.parse().map_err(|_| ())?, qp: decimal(qp).ok_or(())? })
    }
}

impl fmt::Display for QpEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.address, self.qp)
    }
}

impl FromStr for NodeId {
    type Err = ();

    fn from_str(text: &str) -> Result<NodeId, ()> {
        decimal(text).map(NodeId).ok_or(())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A decimal number, without a sign.
fn decimal(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// An entry of a filter.
pub(super) trait Entry: FromStr + fmt::Display {
    /// What it is, with an example.
    const SAYS: &'static str;
}

impl Entry for QpEnd {
    const SAYS: &'static str = "an IPv4 address and a QP id, as in 10.0.0.1:17";
}

impl Entry for Ipv4Addr {
    const SAYS: &'static str = "an IPv4 address, as in 10.0.0.1";
}

impl Entry for NodeId {
    const SAYS: &'static str = "a node id in decimal, as in 3";
}

/// The entries of a text, which are separated by commas.
fn entries(value: &Value) -> Result<impl Iterator<Item = &str>, Refused> {
    let Value::Text(text) = value else {
        return Err((Rule::WrongType, "is no text: put it into quotes".into()));
    };
    if let Some(character) = text.chars().find(|character| SHELL.contains(*character)) {
        return Err((Rule::ShellCharacter, format!("has a {character:?}, which a shell would act on: take it away")));
    }
    Ok(text.split(',').map(str::trim))
}

impl<T: Entry> Field for Filter<T> {
    const KIND: Kind = Kind::String(&[]);

    fn read(value: &Value) -> Result<Self, Refused> {
        let entries: Vec<&str> = entries(value)?.collect();
        if entries == ["All"] {
            return Ok(Filter::All);
        }
        let entry = |text: &str| {
            let why = || format!("has the entry {text:?}: give All, or a list, each {}", T::SAYS);
            text.parse().map_err(|_| (Rule::WrongList, why()))
        };
        entries.into_iter().map(entry).collect::<Result<_, _>>().map(Filter::Any)
    }

    fn value(&self) -> Value {
        Value::Text(match self {
            Filter::All => "All".to_owned(),
            Filter::Any(entries) => entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        })
    }
}

/// Events that select a queue pair from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// A trimmed data packet comes.
    pub trim: bool,
    /// A NACK comes.
    pub nack: bool,
    /// The queue pair goes into the error state.
    pub qp_error: bool,
    /// A retransmission timer expires.
    pub rto: bool,
}

impl Triggers {
    fn named(&mut self) -> [(&'static str, &mut bool); 4] {
        let Triggers { trim, nack, qp_error, rto } = self;
        [("trim", trim), ("nack", nack), ("qp_error", qp_error), ("rto", rto)]
    }
}

impl Field for Triggers {
    const KIND: Kind = Kind::String(&[]);

    fn read(value: &Value) -> Result<Triggers, Refused> {
        let entries: Vec<&str> = entries(value)?.collect();
        let mut triggers = Triggers::default();
        if entries == ["None"] {
            return Ok(triggers);
        }
        for entry in entries {
            let why = || format!("has the entry {entry:?}: give None, or some of trim, nack, qp_error, rto");
            let mut named = triggers.named().into_iter();
            let (_, set) = named.find(|(name, _)| *name == entry).ok_or_else(|| (Rule::WrongList, why()))?;
            *set = true;
        }
        Ok(triggers)
    }

    fn value(&self) -> Value {
        let mut triggers = *self;
        let named = triggers.named();
        let set: Vec<&str> = named.iter().filter(|(_, set)| **set).map(|(name, _)| *name).collect();
        Value::Text(if set.is_empty() { "None".to_owned() } else { set.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn lists_are_read_with_and_without_blanks_and_written_without() {
        let ends = Filter::<QpEnd>::read(&text("10.0.0.1:17, 10.0.0.2:0")).unwrap();
        assert_eq!(ends.value(), text("10.0.0.1:17,10.0.0.2:0"));
        assert_eq!(Filter::<NodeId>::read(&text("All")), Ok(Filter::All));
        let triggers = Triggers::read(&text("nack, trim")).unwrap();
        assert_eq!(triggers.value(), text("trim,nack"));
        assert_eq!(Triggers::default().value(), text("None"));
    }

    #[test]
    fn entries_that_are_none_are_named() {
        let rule = |refused: Refused| refused.0;
        for wrong in ["10.0.0.1", "10.0.0.1:+1", "all", "", "10.0.0.1:17,", "10.0.0.256:1", "10.0.0.1:4294967296"] {
            assert_eq!(Filter::<QpEnd>::read(&text(wrong)).map_err(rule), Err(Rule::WrongList), "{wrong}");
        }
        assert_eq!(Triggers::read(&text("Trim")).map_err(rule), Err(Rule::WrongList));
        assert_eq!(Triggers::read(&text("None,trim")).map_err(rule), Err(Rule::WrongList));
        assert_eq!(Filter::<Ipv4Addr>::read(&text("10.0.0.1;")).map_err(rule), Err(Rule::ShellCharacter));
        assert_eq!(Filter::<NodeId>::read(&Value::Integer(3)).map_err(rule), Err(Rule::WrongType));
    }
}
