//! NICs made ready for a wire and given back, on veths in namespaces of their own. Needs root.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use weir::run::nic::{IfName, NicFacts, NicGuard, Verdict, nic_checks, wait_for_carrier};

#[path = "live/possible.rs"]
mod possible;
use possible::possible;

/// Runs a test in a new namespace with a veth pair `n0`, `n1`, both up. The namespace goes with the thread.
fn with_a_pair(test: impl FnOnce() + Send + 'static) {
    if !possible() {
        return;
    }
    let body = move || {
        weir::sys::enter_new_network_namespace().expect("root may");
        ip("link add n0 type veth peer name n1");
        ip("link set n0 up");
        ip("link set n1 up");
        test();
    };
    if let Err(panic) = thread::spawn(body).join() {
        std::panic::resume_unwind(panic);
    }
}

fn ip(words: &str) {
    run("ip", words);
}

fn run(program: &str, words: &str) -> String {
    let output = Command::new(program).args(words.split(' ')).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn name(word: &str) -> IfName {
    word.parse().expect("a name")
}

/// What `ethtool -k` says of all features, which is what people would compare.
fn features(interface: &str) -> String {
    run("ethtool", &format!("-k {interface}"))
}

fn directory(test: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("weir-nic-{test}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a place for temporary files");
    directory
}

fn files_in(directory: &PathBuf) -> usize {
    fs::read_dir(directory).expect("made above").count()
}

/// Makes `n0` ready and leaves it as SIGKILL does: the settings changed, the file there, its owner gone. Gives the file.
fn killed(directory: &PathBuf) -> PathBuf {
    std::mem::forget(NicGuard::prepare(&name("n0"), directory).expect("a veth can be a wire"));
    let file = fs::read_dir(directory).expect("made above").next().expect("one file").expect("readable").path();
    let mut dead = Command::new("true").stdin(Stdio::null()).spawn().expect("it is everywhere");
    let dead_pid = dead.id();
    dead.wait().expect("it ends at once");
    let text = fs::read_to_string(&file).expect("readable");
    let text = text.replace(&format!("\"pid\": {}", std::process::id()), &format!("\"pid\": {dead_pid}"));
    fs::write(&file, text).expect("writable");
    file
}

#[test]
fn a_nic_is_promiscuous_and_neither_merges_nor_strips_and_afterwards_is_as_it_was() {
    with_a_pair(|| {
        let directory = directory("as-it-was");
        run("ethtool", "-K n0 gro on rxvlan on");
        let before = features("n0");
        let guard = NicGuard::prepare(&name("n0"), &directory).expect("a veth can be a wire");
        let during = NicFacts::inspect(&name("n0")).expect("it is there");
        assert_eq!((during.promiscuity, &during.merging_or_stripping), (1, &vec![]));
        assert_eq!((guard.warnings(), files_in(&directory)), (&[][..], 1));
        guard.restore().expect("nothing in the way");
        assert_eq!(features("n0"), before);
        let after = NicFacts::inspect(&name("n0")).expect("it is there");
        assert_eq!((after.promiscuity, files_in(&directory)), (0, 0));
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn what_a_killed_weir_left_changed_is_put_back_at_the_end_of_the_next() {
    with_a_pair(|| {
        let directory = directory("killed");
        run("ethtool", "-K n0 gro on rxvlan on");
        let before = features("n0");
        killed(&directory);

        let left = NicFacts::inspect(&name("n0")).expect("it is there");
        assert_ne!(features("n0"), before);
        assert_eq!(left.merging_or_stripping, [""; 0]);
        NicGuard::prepare(&name("n0"), &directory).expect("its owner is dead").restore().expect("nothing in the way");
        assert_eq!(features("n0"), before);
        assert_eq!(files_in(&directory), 0);
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn what_a_killed_weir_left_changed_is_put_back_under_another_name() {
    with_a_pair(|| {
        let directory = directory("killed-renamed");
        run("ethtool", "-K n0 gro on rxvlan on");
        let before = features("n0").lines().skip(1).map(str::to_string).collect::<Vec<_>>();
        killed(&directory);
        ip("link set n0 down");
        ip("link set n0 name z0");
        let facts = NicFacts::inspect(&name("z0")).expect("renamed above");
        assert!(NicGuard::is_left_over(&facts, &directory));
        // A NIC that is down cannot be the end of a wire, and still gets back what it had.
        assert!(NicGuard::put_back_left_over(&facts, &directory).expect("nothing in the way"));
        assert!(!NicGuard::put_back_left_over(&facts, &directory).expect("nothing left"));
        assert_eq!(features("z0").lines().skip(1).collect::<Vec<_>>(), before);
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn what_is_over_is_swept_and_what_may_be_needed_stays() {
    with_a_pair(|| {
        let directory = directory("swept");
        let file = killed(&directory);
        let text = fs::read_to_string(&file).expect("readable");
        let mut kept: serde_json::Value = serde_json::from_str(&text).expect("our own JSON");
        let own = file.file_name().expect("a file").to_string_lossy().into_owned();
        let mut other = kept.clone();
        other["address"] = "02:00:00:00:00:99".into();
        fs::write(directory.join(format!("before.{own}")), other.to_string()).expect("writable");
        kept["boot"] = "another".into();
        fs::write(directory.join("7.123.nic.json"), kept.to_string()).expect("writable");
        fs::write(directory.join("8.123.nic.json"), &text).expect("writable");
        for (draft, age) in [("old.nic.draft", 3600), ("new.nic.draft", 0)] {
            let draft = fs::File::create(directory.join(draft)).expect("writable");
            draft.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("ours");
        }
        // No process has so high a number.
        fs::write(directory.join("9.nic.4194305.draft"), "").expect("writable");
        let own_draft = format!("9.nic.{}.draft", std::process::id());
        fs::write(directory.join(&own_draft), "").expect("writable");
        let left = || {
            let files = fs::read_dir(&directory).expect("made above").flatten();
            let mut names: Vec<_> = files.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        NicGuard::sweep(&directory).expect("a namespace");
        let mut stay = [own.as_str(), "8.123.nic.json", "new.nic.draft", own_draft.as_str()];
        stay.sort();
        assert_eq!(left(), stay);
        ip("link del n0");
        NicGuard::sweep(&directory).expect("a namespace");
        assert_eq!(left(), ["8.123.nic.json", own_draft.as_str(), "new.nic.draft"]);
        fs::remove_dir_all(&directory).expect("ours");
    });
}

#[test]
fn a_nic_in_the_hands_of_a_living_weir_is_refused_with_its_pid_and_stays_as_it_is() {
    with_a_pair(|| {
        let directory = directory("living");
        run("ethtool", "-K n0 gro on");
        std::mem::forget(NicGuard::prepare(&name("n0"), &directory).expect("a veth can be a wire"));
        let file = fs::read_dir(&directory).expect("made above").next().expect("one file").expect("readable").path();
        let mut other = Command::new("sleep").arg("60").spawn().expect("it is everywhere");
        let stat = fs::read_to_string(format!("/proc/{}/stat", other.id())).expect("it lives");
        let started = stat.rsplit(')').next().and_then(|s| s.split_whitespace().nth(19)).expect("a start").to_string();
        let mut kept: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&file).expect("readable")).expect("our own JSON");
        kept["owner"] = serde_json::json!({ "pid": other.id(), "started": started.parse::<u64>().expect("a number") });
        fs::write(&file, kept.to_string()).expect("writable");

        let refused = NicGuard::prepare(&name("n0"), &directory).expect_err("its owner lives").to_string();
        other.kill().expect("ours to end");
        other.wait().expect("ended");
        assert!(refused.contains(&format!("kill {}", kept["owner"]["pid"])), "{refused}");
        assert_eq!(fs::read_to_string(&file).expect("still there"), kept.to_string());
        fs::remove_dir_all(&directory).expect("ours");
    });
}

#[test]
fn a_nic_is_found_by_its_alternative_name_and_followed_when_it_is_renamed() {
    with_a_pair(|| {
        let directory = directory("renamed");
        run("ethtool", "-K n0 gro on");
        ip("link property add dev n0 altname enp66s0f0np0v1234567");
        let before = features("n0").lines().skip(1).map(str::to_string).collect::<Vec<_>>();
        let guard = NicGuard::prepare(&name("enp66s0f0np0v1234567"), &directory).expect("found");
        assert_eq!(guard.facts().name, "n0");
        ip("link set n0 down");
        ip("link set n0 name z.1");
        ip("link set z.1 up");
        guard.restore().expect("its index is the same");
        assert_eq!(features("z.1").lines().skip(1).collect::<Vec<_>>(), before);
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn a_nic_without_carrier_is_made_ready_with_a_warning() {
    with_a_pair(|| {
        let directory = directory("no-carrier");
        ip("link set n1 down");
        let guard = NicGuard::prepare(&name("n0"), &directory).expect("its cable may come later");
        assert_eq!(guard.warnings(), ["n0: no carrier; packets pass when something is at its other end"]);
        guard.restore().expect("nothing in the way");
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn a_nic_that_is_gone_at_the_end_leaves_nothing_behind() {
    with_a_pair(|| {
        let directory = directory("gone");
        let guard = NicGuard::prepare(&name("n0"), &directory).expect("a veth can be a wire");
        ip("link del n0");
        guard.restore().expect("nothing to put back");
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn a_nic_that_cannot_be_the_end_of_a_wire_is_refused_before_anything_is_changed() {
    with_a_pair(|| {
        let directory = directory("refused");
        let refused = |interface: &str| {
            NicGuard::prepare(&name(interface), &directory).expect_err("cannot be a wire").to_string()
        };
        run("ethtool", "-K n0 gro on");
        ip("link add br0 type bridge");
        ip("link set n0 master br0");
        let before = features("n0");
        assert!(refused("n0").ends_with("; ip link set dev n0 nomaster"), "{}", refused("n0"));
        assert_eq!(features("n0"), before);
        ip("link set n0 nomaster");
        ip("link set n0 down");
        assert!(refused("n0").ends_with("; ip link set dev n0 up"), "{}", refused("n0"));
        assert!(refused("br0").contains("is a bridge"), "{}", refused("br0"));
        assert!(refused("lo").contains("is the loopback"), "{}", refused("lo"));
        assert_eq!(files_in(&directory), 0);
        fs::remove_dir(&directory).expect("empty");
    });
}

#[test]
fn doctor_knows_the_kinds_of_real_interfaces() {
    with_a_pair(|| {
        ip("link add above link n0 type macvlan");
        ip("tuntap add tunnel mode tun");
        let verdict = |interface: &str| {
            let facts = NicFacts::inspect(&name(interface)).expect("made above");
            nic_checks(&facts)[0].verdict
        };
        assert_eq!(
            ["n0", "above", "tunnel", "lo"].map(verdict),
            [Verdict::Ok, Verdict::Note, Verdict::Fail, Verdict::Fail]
        );
        let a = NicFacts::inspect(&name("n0")).expect("made above");
        assert_eq!(a.driver.as_deref(), Some("veth"));
        assert!(a.xdp_support.is_none_or(|s| s.native), "{:?}", a.xdp_support);
        assert_eq!(a.peer.expect("the other end").name.as_deref(), Some("n1"));
    });
}

#[cfg(feature = "xdp")]
#[test]
fn an_mtu_is_taken_up_to_the_limit_that_was_tried_out_and_not_one_byte_further() {
    with_a_pair(|| {
        let facts = || {
            let mut facts = NicFacts::inspect(&name("n0")).expect("made above");
            facts.probe_native_mtu();
            facts
        };
        let most = facts().native_mtu.expect("root may try");
        let verdict_at = |mtu: u32| {
            ip(&format!("link set n0 mtu {mtu}"));
            ip(&format!("link set n1 mtu {mtu}"));
            let checks = nic_checks(&facts());
            checks.into_iter().find(|c| c.check == "mtu").expect("a line on the MTU").verdict
        };
        assert_eq!(
            [1500, most, most + 1, 9000].map(verdict_at),
            [Verdict::Ok, Verdict::Ok, Verdict::Fail, Verdict::Fail]
        );
        // What the doctor says holds for the program itself.
        let gate =
            weir::port::xdp::program::Gate::load(1, weir::port::xdp::program::OnFailure::Drop, 1).expect("root may");
        let native = weir::port::xdp::program::Mode::Native;
        assert!(gate.attach(facts().index, native).is_err());
        verdict_at(most);
        gate.attach(facts().index, native).expect("within the limit").detach().expect("ours");
    });
}

#[test]
fn carrier_is_waited_for_until_it_is_stable_and_not_for_ever() {
    with_a_pair(|| {
        let index = NicFacts::inspect(&name("n0")).expect("made above").index;
        let (stable, limit) = (Duration::from_millis(30), Duration::from_millis(200));
        assert!(wait_for_carrier(index, stable, limit).expect("it is there"));
        ip("link set n1 down");
        assert!(!wait_for_carrier(index, stable, limit).expect("it is there"));
        ip("link del n0");
        assert!(wait_for_carrier(index, stable, limit).is_err());
    });
}
