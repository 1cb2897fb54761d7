//! The rules of a configuration, by name, and what is found against them.

use crate::error::Error;
use std::fmt;

/// What a broken rule means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Stops,
    /// It is taken as it is.
    Warns,
}

/// The rules, each with its name, its severity, and what breaks it.
macro_rules! rules {
    ($( $rule:ident $name:literal $severity:ident $about:literal; )*) => {
        /// A rule of configurations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $( #[doc = $about] $rule, )*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$rule),*];

            /// Its name, as messages show it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$rule => $name),* }
            }

            /// What breaking it means.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Rule::$rule => Severity::$severity),* }
            }

            /// What breaks it.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Rule::$rule => $about),* }
            }
        }
    };
}

rules! {
    Syntax "syntax" Stops "The file is no TOML, or no JSON.";
    UnknownAttribute "unknown-attribute" Stops "There is no attribute, section or component of this name.";
    ReadOnly "read-only" Stops "The attribute can be read, and not set.";
    WrongType "wrong-type" Stops "The value is of another type: no `true` or `false` where a bool is due, no text where a name is.";
    NotAWholeNumber "not-a-whole-number" Stops "A uint is negative, has a fraction, or is no number.";
    WrongQuantity "wrong-quantity" Stops "A size, rate or time is no number with a unit that its type has.";
    NoSuchChoice "no-such-choice" Stops "The value is none of those that the attribute lists.";
    WrongList "wrong-list" Stops "A filter or a set of triggers has an entry that is none.";
    ShellCharacter "shell-character" Stops "A filter or a set of triggers has a character that a shell would act on.";
    OutOfRange "out-of-range" Stops "The value is outside the attribute's range.";
    OtherType "other-type" Stops "In the nested form: `type` is missing or is not the attribute's.";
    WrongNesting "wrong-nesting" Stops "In the nested form: components stand where an attribute belongs, or the reverse; an object has a field that is none; or, in TOML, a section is a key.";
    EmptyPatch "empty-patch" Stops "The nested form sets nothing.";
    EntropyRange "entropy-range-beyond-last-port" Stops "With `Default Packet Spraying`, `StartingPortOffset` + 2^`EntropyMaskBits` - 1 is beyond 65,535.";
    TargetQueueDelay "target-queue-delay-below-1ns" Stops "`OverrideSpecTargetQueueDelay` is set, and `TargetQueueDelay` is below 1 ns.";
    ReferenceRtt "reference-rtt-below-1ns" Stops "`ReferenceNetworkRTT` is below 1 ns.";
    BaseRtt "base-rtt-below-2ns" Stops "`TrimmingEnabled` is set, `OverrideSpecTargetQueueDelay` is not, and `ConfigBaseRTT` is below 2 ns: three quarters of it are no target.";
    EngineLimit "engine-limit" Stops "This engine has a limit that the documentation has not: `MSS` up to 16,384, rates of 1 bit/s to 8 Tbit/s, a `Delay` of 60 s, and with `model.limits` buffers that hold a packet, or of the host's link a header of 16 bytes or a byte of data.";
    SprayingOverFlowlets "spraying-over-flowlets" Warns "Packets are sprayed, and a switch moves flowlets: both choose paths (`--switches flowlet`).";
    TrimmingWithoutSwitches "trimming-without-switches" Warns "`TrimmingEnabled` is set, and a switch does not trim: Quick Adapt waits for NACKs that only a trimming switch causes (`--switches no-trimming`).";
    LimitsOff "limits-off" Warns "The attribute is set, and acts with `model.limits` only, which is off.";
    NotInUse "not-in-use" Warns "The attribute is set, and another one switches off what it belongs to.";
    FractionDropped "fraction-dropped" Warns "A time has a fraction that the engine does not count: timers go by whole us, other times by whole ns.";
    SackGapsUnused "sack-gaps-unused" Warns "`SACKLossMinRetxPkts` is `MaxPSNRange` - 1 or more: a gap never counts as a loss.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule that something breaks: which, where, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// The key with its section, or the attribute with its components; empty where the whole file is to blame.
    pub key: String,
    /// Why, and the way out.
    pub why: String,
}

impl Finding {
    /// All that is wrong with a configuration, as a command fails with it: a line each.
    pub(crate) fn refusal(findings: &[Finding]) -> Error {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Error::Usage(lines.join("\nerror: "))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule, file, line, key, why } = self;
        f.write_str(file)?;
        if let Some(line) = line {
            write!(f, ":{line}")?;
        }
        if !key.is_empty() {
            write!(f, ": {key}")?;
        }
        write!(f, ": {why} [{rule}]")
    }
}
