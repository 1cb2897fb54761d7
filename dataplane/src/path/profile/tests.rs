//! The table: states, references, lists, errors.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

const FORMAT: u64 = 13;
const PROFILE: u64 = 1;

/// A NIC of four ports with a format of two hops that is ONLINE, and an EV profile in INIT.
fn table() -> EvProfiles {
    let mut table = EvProfiles::new(4);
    table.create_format(FORMAT).unwrap();
    table.configure_format(FORMAT, EvFormat::structured(&[8, 8]).unwrap()).unwrap();
    table.format_online(FORMAT).unwrap();
    table.create(PROFILE).unwrap();
    table
}

fn generated(count: u32, ports: u8) -> EvProfileConfig {
    let fields = vec![EvField::generated(8), EvField { max: 15, mask: 15, ..EvField::generated(8) }];
    let mode = EvMode::Generated { format: FORMAT, count, fields, seed: 7 };
    EvProfileConfig { mode, min_active: 1, ports: PortSet::first(ports), every_port: true }
}

fn explicit(count: u32, ports: u8) -> EvProfileConfig {
    let mode = EvMode::Explicit { format: FORMAT, count };
    EvProfileConfig { mode, min_active: 1, ports: PortSet::first(ports), every_port: true }
}

/// An EV that the format of [`table`] takes.
fn ev(hops: u16, port: u8) -> Ev {
    Ev::new(u32::from(hops) << 16, port)
}

/// An EXPLICIT profile that is ONLINE, with four EVs on two ports.
fn with_list() -> EvProfiles {
    let mut table = table();
    table.configure(PROFILE, explicit(4, 2)).unwrap();
    table.populate(PROFILE, &[ev(1, 1), ev(2, 2), ev(3, 1), ev(2, 2)]).unwrap();
    table.online(PROFILE).unwrap();
    table
}

fn values(table: &EvProfiles) -> Vec<(u32, u8)> {
    table.profile(PROFILE).unwrap().evs().map(|ev| (ev.value >> 16, ev.port)).collect()
}

fn argument(error: ArgumentError) -> EvProfileError {
    EvProfileError::Argument { name: ProfileName::Ev(PROFILE), error }
}

#[test]
fn a_profile_goes_from_init_over_offline_to_online_and_back() {
    let mut table = table();
    let state = |table: &EvProfiles| table.profile(PROFILE).unwrap().state();
    assert_eq!(state(&table), ProfileState::Init);
    table.configure(PROFILE, generated(64, 2)).unwrap();
    assert_eq!(state(&table), ProfileState::Offline);
    table.online(PROFILE).unwrap();
    assert_eq!(state(&table), ProfileState::Online);
    table.offline(PROFILE).unwrap();
    assert_eq!(state(&table), ProfileState::Offline);
    table.reset(PROFILE).unwrap();
    assert_eq!(state(&table), ProfileState::Init);
    table.remove(PROFILE).unwrap();
    assert_eq!(table.profile(PROFILE).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_format_profile_goes_the_same_way() {
    let mut table = EvProfiles::new(1);
    table.create_format(2).unwrap();
    assert_eq!(table.format_state(2), Ok(ProfileState::Init));
    table.configure_format(2, EvFormat::udp_port(&[16]).unwrap()).unwrap();
    table.format_online(2).unwrap();
    table.format_offline(2).unwrap();
    table.format_reset(2).unwrap();
    assert_eq!(table.format(2), Ok(None));
    table.remove_format(2).unwrap();
    assert_eq!(table.format_ids().count(), 0);
}

#[test]
fn no_state_is_skipped_and_the_error_says_which_one_is_needed() {
    let mut table = table();
    let error = table.online(PROFILE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert_eq!(error.to_string(), "EV profile 1 is INIT, and going ONLINE needs OFFLINE: configure it first");
    for refused in [table.offline(PROFILE), table.reset(PROFILE), table.acquire(PROFILE)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidState);
    }
    table.configure(PROFILE, generated(64, 1)).unwrap();
    table.online(PROFILE).unwrap();
    for refused in [table.online(PROFILE), table.reset(PROFILE), table.remove(PROFILE)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidState);
    }
    assert_eq!(table.configure(PROFILE, generated(8, 1)).unwrap_err().kind(), ErrorKind::InvalidState);
}

#[test]
fn a_profile_that_qps_use_is_busy_until_the_last_one_lets_go() {
    let mut table = table();
    table.configure(PROFILE, generated(64, 1)).unwrap();
    table.online(PROFILE).unwrap();
    for _ in 0..3 {
        table.acquire(PROFILE).unwrap();
    }
    let error = table.offline(PROFILE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(error.to_string(), "EV profile 1 is used by 3 QPs: close them, or give them another profile");
    for _ in 0..3 {
        assert!(table.offline(PROFILE).is_err());
        table.release(PROFILE).unwrap();
    }
    table.offline(PROFILE).unwrap();
    assert_eq!(table.release(PROFILE), Err(EvProfileError::NotAcquired { name: ProfileName::Ev(PROFILE) }));
}

#[test]
fn a_format_is_busy_while_a_profile_of_it_is_online_and_is_kept_while_one_is_configured() {
    let mut table = table();
    table.configure(PROFILE, generated(64, 1)).unwrap();
    table.online(PROFILE).unwrap();
    assert_eq!(table.format_users(FORMAT), 1);
    let error = table.format_offline(FORMAT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "EV format profile 13 is used by 1 EV profile in state ONLINE: take them OFFLINE first"
    );
    table.offline(PROFILE).unwrap();
    table.format_offline(FORMAT).unwrap();
    assert_eq!(table.format_reset(FORMAT).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(table.online(PROFILE).unwrap_err().kind(), ErrorKind::InvalidState, "its format is OFFLINE");
    table.reset(PROFILE).unwrap();
    table.format_reset(FORMAT).unwrap();
}

#[test]
fn a_profile_needs_a_format_that_exists_and_is_configured_but_auto_needs_none() {
    let mut table = EvProfiles::new(1);
    table.create(PROFILE).unwrap();
    let missing = EvProfileError::NoSuchProfile(ProfileName::Format(FORMAT));
    assert_eq!(table.configure(PROFILE, generated(64, 1)), Err(missing));
    table.create_format(FORMAT).unwrap();
    let error = table.configure(PROFILE, generated(64, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "EV format profile 13 is INIT, and an EV profile needs OFFLINE or ONLINE: configure it first"
    );
    table.configure(PROFILE, EvProfileConfig::auto(1)).unwrap();
    table.online(PROFILE).unwrap();
    table.acquire(PROFILE).unwrap();
    assert_eq!(table.profile(PROFILE).unwrap().evs().count(), 0);
    let error = table.replace(PROFILE, 1, ev(2, 1), Copies::One);
    assert_eq!(error, Err(argument(ArgumentError::NotExplicit)));
}

#[test]
fn generated_evs_are_split_over_the_ports_to_within_one_ev() {
    let mut table = table();
    table.configure(PROFILE, generated(150, 4)).unwrap();
    let mut loads = BTreeMap::new();
    for ev in table.profile(PROFILE).unwrap().evs() {
        *loads.entry(ev.port).or_insert(0) += 1;
    }
    assert_eq!(loads, BTreeMap::from([(1, 38), (2, 38), (3, 37), (4, 37)]));
}

#[test]
fn an_ev_is_found_with_its_port_and_one_that_was_not_drawn_is_not() {
    let mut table = table();
    table.configure(PROFILE, generated(100, 3)).unwrap();
    let profile = table.profile(PROFILE).unwrap();
    let evs: Vec<Ev> = profile.evs().collect();
    assert_eq!(evs.len(), 100);
    assert!(evs.iter().all(|&ev| profile.find(ev.value) == Some(ev)));
    let drawn: Vec<u32> = evs.iter().map(|ev| ev.value).collect();
    // The fields allow 8 + 4 bits.
    let all = (0..=255u32).flat_map(|a| (0..=15).map(move |b| a << 24 | b << 16));
    assert_eq!(all.filter(|&ev| profile.find(ev).is_some() != drawn.contains(&ev)).count(), 0);
}

#[test]
fn more_evs_than_the_fields_allow_are_refused_with_how_many_there_are() {
    let mut table = table();
    let error = table.configure(PROFILE, generated(4097, 1)).unwrap_err();
    assert_eq!(error, argument(ArgumentError::BeyondSpace { count: 4097, space: 4096 }));
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    table.configure(PROFILE, generated(4096, 1)).unwrap();
}

#[test]
fn min_active_is_no_more_than_there_are_evs() {
    let mut table = table();
    let config = EvProfileConfig { min_active: 65, ..generated(64, 1) };
    let error = table.configure(PROFILE, config).unwrap_err();
    assert_eq!(error, argument(ArgumentError::MinActive { min_active: 65, most: 64 }));
    table.configure(PROFILE, EvProfileConfig { min_active: 64, ..generated(64, 1) }).unwrap();
}

#[test]
fn a_field_that_is_refused_is_named_with_the_profile() {
    let mut table = table();
    let mut config = generated(64, 1);
    if let EvMode::Generated { fields, .. } = &mut config.mode {
        fields[1].max = 16;
    }
    assert_eq!(
        table.configure(PROFILE, config).unwrap_err().to_string(),
        "EV profile 1: field 2: max 16 does not fit into the 4 bits of mask 0xf: lower max to 15, or give the mask more bits"
    );
}

#[test]
fn ports_are_those_of_the_nic() {
    let mut table = table();
    let error = table.configure(PROFILE, generated(64, 5)).unwrap_err();
    assert_eq!(error.to_string(), "EV profile 1: port 5 is none of the NIC's: it has 1, 2, 3, 4");
    let none = table.configure(PROFILE, generated(64, 0)).unwrap_err();
    assert_eq!(none, argument(ArgumentError::NoPort { ports: PortSet::first(4) }));
    let few = table.configure(PROFILE, generated(3, 4)).unwrap_err();
    assert_eq!(few, argument(ArgumentError::Count { count: 3, least: 4, most: EVS_PER_PROFILE_MAX }));
}

#[test]
fn an_explicit_profile_goes_online_when_its_list_is_complete_and_every_port_has_an_ev() {
    let mut table = table();
    table.configure(PROFILE, explicit(3, 2)).unwrap();
    table.populate(PROFILE, &[ev(1, 1), ev(2, 1)]).unwrap();
    let error = table.online(PROFILE).unwrap_err();
    assert_eq!(error, argument(ArgumentError::Unpopulated { unpopulated: 1, count: 3 }));
    assert_eq!(table.profile(PROFILE).unwrap().unpopulated(), 1);
    let error = table.populate(PROFILE, &[ev(3, 1), ev(4, 1)]).unwrap_err();
    assert_eq!(error, argument(ArgumentError::TooMany { given: 2, free: 1 }));
    table.populate(PROFILE, &[ev(3, 1)]).unwrap();
    assert_eq!(table.online(PROFILE), Err(argument(ArgumentError::IdlePort { port: 2 })));
    table.replace(PROFILE, ev(3, 1).value, ev(3, 2), Copies::One).unwrap();
    table.online(PROFILE).unwrap();
    assert_eq!(values(&table), [(1, 1), (2, 1), (3, 2)]);
}

#[test]
fn evs_are_replaced_in_place_one_copy_or_all_and_online_too() {
    let mut table = with_list();
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(9, 2), Copies::One), Ok(1));
    assert_eq!(values(&table), [(1, 1), (9, 2), (3, 1), (2, 2)]);
    table.replace(PROFILE, ev(2, 2).value, ev(9, 2), Copies::One).unwrap();
    assert_eq!(table.replace(PROFILE, ev(9, 2).value, ev(10, 2), Copies::All), Ok(2));
    assert_eq!(values(&table), [(1, 1), (10, 2), (3, 1), (10, 2)]);
    let profile = table.profile(PROFILE).unwrap();
    assert_eq!(profile.find(ev(10, 2).value), Some(ev(10, 2)));
    assert_eq!(profile.find(ev(9, 2).value), None);
    let gone = table.replace(PROFILE, ev(9, 2).value, ev(11, 2), Copies::One).unwrap_err();
    assert_eq!(gone, argument(ArgumentError::NotListed { ev: ev(9, 2).value }));
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[test]
fn a_value_has_one_port_for_feedback_names_it_alone() {
    let mut table = with_list();
    let elsewhere = |value: Ev, port| Err(argument(ArgumentError::Elsewhere { ev: value.value, port }));
    assert_eq!(table.replace(PROFILE, ev(1, 1).value, ev(2, 1), Copies::One), elsewhere(ev(2, 1), 2).map(|()| 0));
    // One of two copies can't move to another port, but both can.
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(2, 1), Copies::One), elsewhere(ev(2, 1), 2).map(|()| 0));
    table.offline(PROFILE).unwrap();
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(2, 1), Copies::All), Ok(2));
    table.configure(PROFILE, explicit(2, 2)).unwrap();
    assert_eq!(table.populate(PROFILE, &[ev(1, 1), ev(1, 2)]), elsewhere(ev(1, 1), 1));
    assert_eq!(values(&table), [], "all of them or none");
}

#[test]
fn online_a_port_keeps_its_last_ev() {
    let mut table = with_list();
    let idle = Err(argument(ArgumentError::IdlePort { port: 2 }));
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(7, 1), Copies::All), idle);
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(7, 1), Copies::One), Ok(1));
    assert_eq!(table.replace(PROFILE, ev(2, 2).value, ev(7, 1), Copies::One), idle);
}

#[test]
fn an_ev_that_does_not_fit_the_format_is_refused_with_the_reason() {
    let mut table = table();
    table.configure(PROFILE, explicit(2, 2)).unwrap();
    let mut refused = |ev| match table.populate(PROFILE, &[ev]) {
        Err(EvProfileError::Argument { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    let unfit = |ev: Ev, reason| ArgumentError::Unfit { ev: ev.value, reason };
    let low = Ev::new(0x0001_0001, 1);
    assert_eq!(refused(low), unfit(low, UnfitEv::UnusedBits { unused: 16 }));
    assert_eq!(refused(ev(1, 3)), ArgumentError::NotAPort { ev: 0x1_0000, port: 3, ports: PortSet::first(2) });
    assert_eq!(refused(ev(1, 0)), ArgumentError::NotAPort { ev: 0x1_0000, port: 0, ports: PortSet::first(2) });
    let segment = Ev { segment: Some(Ipv6Addr::LOCALHOST), ..ev(1, 1) };
    assert_eq!(refused(segment), unfit(segment, UnfitEv::Segment));
}

#[test]
fn a_udp_port_has_16_bits_and_an_srv6_address_usids_without_a_gap() {
    let mut table = EvProfiles::new(1);
    table.create(PROFILE).unwrap();
    table.create_format(FORMAT).unwrap();
    table.configure_format(FORMAT, EvFormat::udp_port(&[16]).unwrap()).unwrap();
    table.configure(PROFILE, explicit(1, 1)).unwrap();
    let error = table.populate(PROFILE, &[Ev::new(0x1_0000, 1)]).unwrap_err();
    assert_eq!(error, argument(ArgumentError::Unfit { ev: 0x1_0000, reason: UnfitEv::BeyondPort }));
    table.configure_format(FORMAT, EvFormat::usid(2).unwrap()).unwrap();
    for (segment, reason) in [
        (None, UnfitEv::NoSegment),
        (Some("fcbb:bbbb::"), UnfitEv::ZeroUsid),
        (Some("fcbb:bbbb:0:1::"), UnfitEv::ZeroUsid),
        (Some("fcbb:bbbb:1:2:3::"), UnfitEv::TooManyUsids { given: 3, room: 2 }),
    ] {
        let ev = Ev { segment: segment.map(|s| s.parse().unwrap()), ..Ev::new(5, 1) };
        let error = table.populate(PROFILE, &[ev]).unwrap_err();
        assert_eq!(error, argument(ArgumentError::Unfit { ev: 5, reason }));
    }
    table.populate(PROFILE, &[Ev { segment: Some("fcbb:bbbb:1:2::".parse().unwrap()), ..Ev::new(5, 1) }]).unwrap();
}

#[test]
fn a_format_is_changed_offline_unless_a_profiles_evs_would_not_fit() {
    let mut table = with_list();
    let narrower = EvFormat::structured(&[8]).unwrap();
    assert_eq!(table.configure_format(FORMAT, narrower.clone()).unwrap_err().kind(), ErrorKind::InvalidState);
    table.offline(PROFILE).unwrap();
    table.format_offline(FORMAT).unwrap();
    let error = table.configure_format(FORMAT, narrower).unwrap_err();
    let reason = UnfitEv::UnusedBits { unused: 24 };
    assert_eq!(error, argument(ArgumentError::Unfit { ev: 0x1_0000, reason }));
    assert_eq!(table.format(FORMAT), Ok(Some(&EvFormat::structured(&[8, 8]).unwrap())));
    table.configure(PROFILE, generated(16, 1)).unwrap();
    table.configure_format(FORMAT, EvFormat::structured(&[16, 16]).unwrap()).unwrap();
    assert!(table.profile(PROFILE).unwrap().evs().all(|ev| ev.value & 0xFF00_FFF0 == 0), "each in its wider field");
}

#[test]
fn tables_are_full_at_their_named_maxima() {
    let mut table = EvProfiles::new(1);
    for id in 0..EV_FORMATS_MAX as u64 {
        table.create_format(id).unwrap();
    }
    let error = table.create_format(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().starts_with("EV format profile 1000 can't be created, for there are 64 already"));
    assert_eq!(table.create_format(3), Err(EvProfileError::Exists(ProfileName::Format(3))));
    for id in 0..EV_PROFILES_MAX as u64 {
        table.create(id).unwrap();
    }
    assert_eq!(table.create(u64::MAX).unwrap_err().kind(), ErrorKind::Full);
    table.remove(0).unwrap();
    table.create(u64::MAX).unwrap();
}

#[test]
fn the_evs_of_all_profiles_share_a_maximum() {
    let mut table = table();
    let all = EVS_MAX / EVS_PER_PROFILE_MAX;
    for id in 2..2 + u64::from(all) {
        table.create(id).unwrap();
        table.configure(id, explicit(EVS_PER_PROFILE_MAX, 1)).unwrap();
    }
    assert_eq!(table.free_evs(), 0);
    let error = table.configure(PROFILE, generated(1, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    // What a profile has counts for its own new configuration.
    table.configure(2, explicit(EVS_PER_PROFILE_MAX - 1, 1)).unwrap();
    table.configure(PROFILE, generated(1, 1)).unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    ConfigureFormat(u8),
    FormatOnline,
    FormatOffline,
    FormatReset,
    Auto,
    Explicit(u32),
    Generated(u32),
    Populate(u16, u8),
    Replace(u16, u16, u8, bool),
    Online,
    Offline,
    Reset,
    Acquire,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (6u8..=9).prop_map(Step::ConfigureFormat),
        Just(Step::FormatOnline),
        Just(Step::FormatOffline),
        Just(Step::FormatReset),
        Just(Step::Auto),
        (0u32..5).prop_map(Step::Explicit),
        prop_oneof![0u32..40, Just(4097)].prop_map(Step::Generated),
        (0u16..6, 0u8..4).prop_map(|(value, port)| Step::Populate(value, port)),
        (0u16..6, 0u16..6, 0u8..4, any::<bool>()).prop_map(|(a, b, port, all)| Step::Replace(a, b, port, all)),
        Just(Step::Online),
        Just(Step::Offline),
        Just(Step::Reset),
        Just(Step::Acquire),
        Just(Step::Release),
    ]
}

fn apply(table: &mut EvProfiles, step: Step, id: u64) -> Result<(), EvProfileError> {
    match step {
        Step::ConfigureFormat(width) => table.configure_format(FORMAT, EvFormat::structured(&[width, 16]).unwrap()),
        Step::FormatOnline => table.format_online(FORMAT),
        Step::FormatOffline => table.format_offline(FORMAT),
        Step::FormatReset => table.format_reset(FORMAT),
        Step::Auto => table.configure(id, EvProfileConfig::auto(2)),
        Step::Explicit(count) => table.configure(id, explicit(count, 2)),
        Step::Generated(count) => table.configure(id, generated(count, 2)),
        Step::Populate(value, port) => table.populate(id, &[ev(value << 8, port)]),
        Step::Replace(current, new, port, all) => {
            let copies = if all { Copies::All } else { Copies::One };
            table.replace(id, ev(current << 8, 1).value, ev(new << 8, port), copies).map(|_| ())
        }
        Step::Online => table.online(id),
        Step::Offline => table.offline(id),
        Step::Reset => table.reset(id),
        Step::Acquire => table.acquire(id),
        Step::Release => table.release(id),
    }
}

proptest! {
    #[test]
    fn whatever_a_controller_does_nothing_in_use_loses_what_it_stands_on(
        steps in prop::collection::vec((step(), 0u64..2), 1..120),
    ) {
        let mut table = table();
        table.create(0).unwrap();
        for (step, id) in steps {
            let before = format!("{table:?}");
            if let Err(error) = apply(&mut table, step.clone(), id) {
                prop_assert_eq!(&before, &format!("{table:?}"), "{:?} was refused ({}), but changed something", step, error);
            }
            for profile in [0, 1].map(|id| table.profile(id).unwrap()) {
                let online = profile.state() == ProfileState::Online;
                prop_assert!(profile.qps() == 0 || online);
                let Some(config) = profile.config() else { continue };
                if let Some(format) = config.mode.format() {
                    let state = table.format_state(format).unwrap();
                    prop_assert!(state == ProfileState::Online || !online && state == ProfileState::Offline);
                }
                let mut ports = BTreeMap::new();
                for ev in profile.evs() {
                    prop_assert_eq!(profile.find(ev.value), Some(ev));
                    *ports.entry(ev.port).or_insert(0u32) += 1;
                }
                prop_assert_eq!(ports.values().sum::<u32>() + profile.unpopulated(), config.mode.count());
                prop_assert!(!online || config.mode == EvMode::Auto || ports.len() == config.ports.len() as usize);
            }
        }
    }
}
