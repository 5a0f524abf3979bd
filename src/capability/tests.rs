//! The table, asked for every controller there can be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const TRANSPORTS: [Transport; 6] = [
    Transport::Pcie,
    Transport::Tcp,
    Transport::Rdma,
    Transport::Fc,
    Transport::Loop,
    Transport::Other,
];

const LIVE: Facts = Facts {
    transport: Transport::Pcie,
    state: State::Live,
    has_unbind: true,
    driver_bound: true,
    vfs: 0,
};

const HOOK: Policy = Policy {
    fabrics_delete: false,
    quiesce: Quiesce::Auto,
    hook_stage: true,
    kernel_async: false,
    named: false,
};

fn policies() -> impl Iterator<Item = Policy> {
    [Quiesce::Auto, Quiesce::Always, Quiesce::Off]
        .into_iter()
        .flat_map(|quiesce| {
            (0..16).map(move |bits| Policy {
                fabrics_delete: bits & 1 != 0,
                quiesce,
                hook_stage: bits & 2 != 0,
                kernel_async: bits & 4 != 0,
                named: bits & 8 != 0,
            })
        })
}

fn facts() -> impl Iterator<Item = Facts> {
    TRANSPORTS.into_iter().flat_map(|transport| {
        State::ALL.into_iter().flat_map(move |state| {
            (0..8).map(move |bits| Facts {
                transport,
                state,
                has_unbind: bits & 1 != 0,
                driver_bound: bits & 2 != 0,
                vfs: bits & 4,
            })
        })
    })
}

/// The table once more, as a list of rows: the first whose condition holds is the answer.
fn expected(f: &Facts, p: &Policy) -> Result<(Class, Action), Left> {
    let pcie = f.transport == Transport::Pcie;
    let live = f.state == State::Live;
    let thrifty = p.hook_stage && !p.named && p.quiesce == Quiesce::Auto;
    let rows = [
        (p.quiesce == Quiesce::Off, Left::Off),
        (f.transport == Transport::Other, Left::Platform),
        (!pcie && !p.fabrics_delete, Left::Fabrics),
        (
            !pcie && !live && f.state != State::Connecting,
            Left::NotLive(f.state),
        ),
        (pcie && !f.driver_bound, Left::NoDriver),
        (pcie && f.vfs > 0, Left::HasVfs { n: f.vfs }),
        (pcie && !live, Left::NotLive(f.state)),
        (pcie && !f.has_unbind, Left::NoUnbind),
        (pcie && p.kernel_async && thrifty, Left::KernelAsync),
    ];
    match rows.into_iter().find(|(holds, _)| *holds) {
        Some((_, left)) => Err(left),
        None if pcie => Ok((Class::Nvme, Action::Unbind)),
        None => Ok((f.transport.class().unwrap(), Action::Delete)),
    }
}

#[test]
fn every_combination_is_judged_by_the_table() {
    let mut seen = 0;
    for f in facts() {
        for p in policies() {
            assert_eq!(judge(&f, &p), expected(&f, &p), "{f:?} {p:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 6 * 8 * 8 * 3 * 16);
}

#[test]
fn each_row_of_the_table_once() {
    let pcie = Ok((Class::Nvme, Action::Unbind));
    assert_eq!(judge(&LIVE, &HOOK), pcie);
    let vfs = Facts { vfs: 4, ..LIVE };
    assert_eq!(judge(&vfs, &HOOK), Err(Left::HasVfs { n: 4 }));
    let resetting = Facts {
        state: State::Resetting,
        ..LIVE
    };
    assert_eq!(
        judge(&resetting, &HOOK),
        Err(Left::NotLive(State::Resetting))
    );
    let fixed = Facts {
        has_unbind: false,
        ..LIVE
    };
    assert_eq!(judge(&fixed, &HOOK), Err(Left::NoUnbind));
    let kernel = Policy {
        kernel_async: true,
        ..HOOK
    };
    assert_eq!(judge(&LIVE, &kernel), Err(Left::KernelAsync));
    assert_eq!(
        judge(
            &LIVE,
            &Policy {
                quiesce: Quiesce::Always,
                ..kernel
            }
        ),
        pcie
    );
    assert_eq!(
        judge(
            &LIVE,
            &Policy {
                named: true,
                ..kernel
            }
        ),
        pcie
    );
    assert_eq!(
        judge(
            &LIVE,
            &Policy {
                hook_stage: false,
                ..kernel
            }
        ),
        pcie
    );
    let tcp = Facts {
        transport: Transport::Tcp,
        has_unbind: false,
        driver_bound: false,
        ..LIVE
    };
    assert_eq!(judge(&tcp, &HOOK), Err(Left::Fabrics));
    let delete = Policy {
        fabrics_delete: true,
        ..kernel
    };
    assert_eq!(judge(&tcp, &delete), Ok((Class::NvmeTcp, Action::Delete)));
    let connecting = Facts {
        state: State::Connecting,
        ..tcp
    };
    assert_eq!(
        judge(&connecting, &delete),
        Ok((Class::NvmeTcp, Action::Delete))
    );
    let apple = Facts {
        transport: Transport::parse(b"apple-nvme"),
        ..LIVE
    };
    assert_eq!(judge(&apple, &HOOK), Err(Left::Platform));
}

#[test]
fn a_single_controller_is_the_kernels_unless_somebody_wants_it() {
    for p in policies() {
        let kernels = p.hook_stage && !p.named && p.quiesce == Quiesce::Auto;
        assert_eq!(too_few(0, &p), kernels, "{p:?}");
        assert_eq!(too_few(1, &p), kernels, "{p:?}");
        assert!(!too_few(2, &p), "{p:?}");
    }
}

#[test]
fn the_kernels_words_are_read() {
    for state in State::ALL
        .into_iter()
        .filter(|state| *state != State::Unknown)
    {
        assert_eq!(State::parse(state.name().as_bytes()), state);
    }
    assert_eq!(State::parse(b"deleting (no IO)\n"), State::DeletingNoIo);
    for text in [&b""[..], b"\xff", b"Live", b"unknown", b"live live"] {
        assert_eq!(State::parse(text), State::Unknown);
    }
    assert_eq!(Transport::parse(b"pcie\n"), Transport::Pcie);
    assert_eq!(Transport::parse(b"loop"), Transport::Loop);
    for text in [&b""[..], b"\xff\xfe", b"apple-nvme\n", b"PCIE", b"pcie tcp"] {
        assert_eq!(Transport::parse(text), Transport::Other);
    }
}

#[test]
fn classes_are_named_and_numbered() {
    for (i, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class.index(), i);
        assert_eq!(Class::parse(class.name()), Some(class));
    }
    assert_eq!(Class::parse("nvme_tcp"), Some(Class::NvmeTcp));
    for name in ["", "nvm", "nvme-", "NVME", "nvme-tcp ", "scsi"] {
        assert_eq!(Class::parse(name), None);
    }
}

#[test]
fn reasons_read_well() {
    for (left, text) in [
        (Left::HasVfs { n: 1 }, "left: 1 VF is enabled on it"),
        (Left::HasVfs { n: 4 }, "left: 4 VFs are enabled on it"),
        (
            Left::NotLive(State::DeletingNoIo),
            "left: state deleting (no IO)",
        ),
        (
            Left::Fabrics,
            "left: fabrics (quell.fabrics=delete takes it)",
        ),
        (
            Left::KernelAsync,
            "left: the kernel shuts down asynchronously itself",
        ),
    ] {
        assert_eq!(left.to_string(), text);
    }
}

#[test]
fn waits_are_the_drivers() {
    assert_eq!(shutdown_bound_ms(None, 5), 5_000);
    assert_eq!(shutdown_bound_ms(Some(0), 5), 5_000);
    assert_eq!(shutdown_bound_ms(Some(4_999_999), 5), 5_000);
    // Rounded down, as the driver does.
    assert_eq!(shutdown_bound_ms(Some(8_999_999), 5), 8_000);
    assert_eq!(shutdown_bound_ms(Some(60_000_001), 5), 60_000);
    assert_eq!(shutdown_bound_ms(Some(u32::MAX), 5), 60_000);
    assert_eq!(shutdown_bound_ms(Some(8_000_000), 255), 255_000);
    assert_eq!(shutdown_bound_ms(Some(1), u32::MAX), u32::MAX);
    assert_eq!(job_bound_ms(60, 5_000), 70_000);
    assert_eq!(job_bound_ms(u32::MAX, 5_000), u32::MAX);
    assert_eq!(hold_bound_ms(5_000), 7_000);
    assert_eq!(hold_bound_ms(u32::MAX), u32::MAX);
}
