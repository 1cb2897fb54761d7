//! The table: states, references, errors; and what a configuration makes.

use super::*;
use crate::congestion::{Congestion as _, Rule};

const ID: u64 = 3;

/// A table with a profile in INIT.
fn table() -> CcProfiles {
    let mut table = CcProfiles::new(true);
    table.create(ID).unwrap();
    table
}

/// A table with a profile of NSCC that is ONLINE.
fn online() -> CcProfiles {
    let mut table = table();
    table.configure(ID, CcConfig::Nscc(NsccParams::default())).unwrap();
    table.online(ID).unwrap();
    table
}

#[test]
fn a_profile_goes_from_init_over_offline_to_online_and_back() {
    let mut table = table();
    let state = |table: &CcProfiles| table.profile(ID).unwrap().state();
    assert_eq!(state(&table), ProfileState::Init);
    assert_eq!(table.profile(ID).unwrap().config(), None);
    table.configure(ID, CcConfig::Fixed { bytes: 1 << 20 }).unwrap();
    assert_eq!(state(&table), ProfileState::Offline);
    table.configure(ID, CcConfig::None).unwrap();
    assert_eq!(table.profile(ID).unwrap().config(), Some(&CcConfig::None));
    table.online(ID).unwrap();
    assert_eq!(state(&table), ProfileState::Online);
    table.offline(ID).unwrap();
    assert_eq!(state(&table), ProfileState::Offline);
    table.reset(ID).unwrap();
    assert_eq!(state(&table), ProfileState::Init);
    table.remove(ID).unwrap();
    assert_eq!(table.profile(ID).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(table.ids().count(), 0);
}

#[test]
fn no_state_is_skipped_and_the_error_says_which_one_is_needed() {
    let mut table = table();
    let error = table.online(ID).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert_eq!(error.to_string(), "CC profile 3 is INIT, and going ONLINE needs OFFLINE: configure it first");
    for refused in [table.offline(ID), table.reset(ID), table.acquire(ID)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidState);
    }
    let mut table = online();
    let configured = table.configure(ID, CcConfig::None);
    for refused in [configured, table.online(ID), table.reset(ID), table.remove(ID)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidState);
    }
    assert_eq!(table.profile(ID).unwrap().config(), Some(&CcConfig::Nscc(NsccParams::default())));
}

#[test]
fn a_profile_that_qps_use_is_busy_until_the_last_one_lets_go() {
    let mut table = online();
    table.acquire(ID).unwrap();
    table.acquire(ID).unwrap();
    assert_eq!(table.profile(ID).unwrap().qps(), 2);
    let error = table.offline(ID).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(error.to_string(), "CC profile 3 is used by 2 QPs: close them, or give them another profile");
    table.release(ID).unwrap();
    assert_eq!(table.offline(ID), Err(CcProfileError::Busy { id: ID, qps: 1 }));
    table.release(ID).unwrap();
    table.offline(ID).unwrap();
    assert_eq!(table.release(ID), Err(CcProfileError::NotAcquired(ID)));
}

#[test]
fn a_parameter_outside_its_range_is_refused_and_leaves_the_profile_as_it_is() {
    let mut table = table();
    let wrong = CcConfig::Nscc(NsccParams { quick_adapt_gate: 32, ..NsccParams::default() });
    let error = table.configure(ID, wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), "CC profile 3: QuickAdaptGate is 32, but may be 0 to 31");
    assert_eq!(table.profile(ID).unwrap().state(), ProfileState::Init);
}

#[test]
fn whether_packets_are_trimmed_decides_which_base_rtt_is_too_short() {
    let short = CcConfig::Nscc(NsccParams { config_base_rtt_ns: 1, ..NsccParams::default() });
    assert_eq!(table().configure(ID, short).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut untrimmed = CcProfiles::new(false);
    untrimmed.create(ID).unwrap();
    assert_eq!(untrimmed.configure(ID, short), Ok(()));
}

#[test]
fn there_are_no_more_profiles_than_the_maximum_and_no_number_twice() {
    let mut table = CcProfiles::new(true);
    for id in 0..CC_PROFILES_MAX as u64 {
        table.create(id).unwrap();
    }
    assert_eq!(table.create(ID), Err(CcProfileError::Exists(ID)));
    let error = table.create(1_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("there are 64 already"), "{error}");
    table.remove(ID).unwrap();
    table.create(1_000).unwrap();
    assert_eq!(table.ids().last(), Some(1_000));
}

#[test]
fn a_configuration_makes_the_algorithm_it_names() {
    let make = |config: CcConfig| config.algorithm(400_000_000_000, 4_156, true, Ns(0));
    assert_eq!(make(CcConfig::None).window(), u64::MAX);
    assert_eq!(make(CcConfig::Fixed { bytes: 10_000 }).window(), 10_000);
    assert_eq!(make(CcConfig::Fixed { bytes: 0 }).window(), 4_156);
    let mut nscc = make(CcConfig::Nscc(NsccParams::default()));
    assert_eq!(nscc.window(), 450_000);
    nscc.on_loss(Ns(0), 4_156);
    assert_eq!(nscc.snapshot().map(|seen| (seen.cwnd, seen.rule)), Some((445_844, Rule::Lost)));
    assert_eq!(make(CcConfig::None).snapshot(), None);
}
