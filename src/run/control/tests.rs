use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use super::*;
use crate::pipeline::Link;
use crate::stats::counters::{Census, Counters, DropCounts};
use crate::stats::histogram::{Sojourns, empty};
use crate::time::Instant;

/// A directory of a test's own, gone with it.
struct Room(PathBuf);

impl Room {
    fn new() -> Room {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let room = std::env::temp_dir().join(format!("weir-control-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&room).unwrap();
        Room(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Bridge {
    specs: [Spec; 2],
    changes: u32,
}

impl Bridge {
    fn new() -> Bridge {
        let spec = |s| spec::parse(s).unwrap().spec;
        Bridge { specs: [spec("codel | tbf rate 20mbit burst 5k"), spec("pfifo limit 100")], changes: 0 }
    }
}

impl Instance for Bridge {
    fn info(&self) -> Info {
        let [down, up] = self.specs.each_ref().map(Spec::to_string);
        Info { name: "a".into(), pid: 7, nics: ["wan".into(), "lan".into()], seconds: 1.5, down, up }
    }

    fn reports(&mut self) -> Result<Vec<Report>, String> {
        let report = |(i, direction): (usize, &'static str)| {
            let stages = self.specs[i].build(Link::default()).stats(Instant::ZERO);
            Report {
                direction,
                from: self.info().nics[i].clone(),
                to: self.info().nics[1 - i].clone(),
                spec: self.specs[i].to_string(),
                seconds: 1.5,
                sojourns: Sojourns::of(&stages),
                stages,
                counters: Counters::default(),
                drops: DropCounts::default(),
                backlog: (0, 0),
                census: Census::default(),
                late: empty(),
                autorate: None,
                devices: vec![],
            }
        };
        Ok([(0, "down"), (1, "up")].map(report).into())
    }

    fn log(&mut self, directory: &Path, seconds: f64) -> Result<(), String> {
        Err(format!("{} for {seconds}", directory.display()))
    }

    fn end_log(&mut self) -> Result<Vec<String>, String> {
        Ok(vec!["down: 1 arrived".into()])
    }

    fn specs(&self) -> [Spec; 2] {
        self.specs.clone()
    }

    fn change(&mut self, specs: [Option<Spec>; 2]) -> Result<(), String> {
        self.changes += 1;
        for (now, new) in self.specs.iter_mut().zip(specs) {
            *now = new.unwrap_or(now.clone());
        }
        Ok(())
    }
}

/// Asks, while an instance serves in another thread until it has answered once.
fn exchange(bridge: &mut Bridge, request: &Request) -> (Result<Value, String>, bool) {
    let room = Room::new();
    let server = Server::bind(&room.0, "a").unwrap();
    server.listener.set_nonblocking(false).unwrap();
    std::thread::scope(|threads| {
        let client = threads.spawn(|| ask(&room.0, "a", request));
        let (stream, _) = server.listener.accept().unwrap();
        let stop = serve_one(stream, bridge).unwrap();
        (client.join().unwrap(), stop)
    })
}

fn change(down: Option<&str>, up: Option<&str>) -> Request {
    Request::Change { down: down.map(Into::into), up: up.map(Into::into) }
}

#[test]
fn an_instance_says_who_it_is() {
    let (answer, stop) = exchange(&mut Bridge::new(), &Request::Info);
    let info: Info = serde_json::from_value(answer.unwrap()).unwrap();
    assert_eq!(info, Bridge::new().info());
    assert!(!stop);
}

#[test]
fn statistics_come_as_text_and_as_one_array_with_the_direction_in_each() {
    let (answer, _) = exchange(&mut Bridge::new(), &Request::Stats);
    let answer = answer.unwrap();
    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("qdisc tbf 1: dev lan root refcnt 2 rate 20Mbit"), "{text}");
    assert!(text.contains("\nqdisc pfifo 1: dev wan root refcnt 2 limit 100p\n"), "{text}");
    let got: Vec<_> = answer["qdiscs"].as_array().unwrap().iter().map(|q| [&q["kind"], &q["direction"]]).collect();
    assert_eq!(got, [["tbf", "down"], ["codel", "down"], ["pfifo", "up"]]);
}

#[test]
fn histograms_come_as_files() {
    let (answer, _) = exchange(&mut Bridge::new(), &Request::Hist);
    let answer = answer.unwrap();
    let files = answer["files"].as_array().unwrap();
    let names: Vec<_> = files.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.hlog", "a-down.hgrm", "a-up.hgrm"]);
    assert!(files[0]["content"].as_str().unwrap().contains("Tag=down,0.000,1.500,"), "{}", files[0]);
}

#[test]
fn one_direction_changes_and_the_other_stays() {
    let mut bridge = Bridge::new();
    let (answer, _) = exchange(&mut bridge, &change(Some("codel ecn | tbf rate 5mbit burst 5k"), None));
    assert_eq!(answer.unwrap()["down"], "codel ecn | tbf rate 5mbit burst 5kb");
    assert_eq!(bridge.specs[0].to_string(), "codel ecn | tbf rate 5mbit burst 5kb");
    assert_eq!(bridge.specs[1].to_string(), "pfifo limit 100");
}

#[test]
fn a_change_with_a_bad_direction_changes_nothing_at_all() {
    for (down, up, why) in [
        (Some("codel ecn | tbf rate 5mbit burst 5k"), Some("pfifo limt 5"), "did you mean \"limit\"?"),
        (Some("codel ecn | tbf rate 5mbit burst 5k"), Some("bfifo limit 5k"), "only parameters can change"),
        (Some("codel ecn"), None, "codel | tbf is at work and codel is wanted"),
        (None, None, "nothing to change"),
    ] {
        let mut bridge = Bridge::new();
        let (answer, _) = exchange(&mut bridge, &change(down, up));
        let error = answer.unwrap_err();
        assert!(error.contains(why), "{error}");
        assert_eq!(bridge.changes, 0);
    }
}

#[test]
fn a_log_wants_an_absolute_path_and_a_time_and_says_what_was_written() {
    let log = |directory: &str, seconds| Request::Log { directory: directory.into(), seconds };
    let said = |request| exchange(&mut Bridge::new(), &request).0.unwrap_err();
    assert_eq!(said(log("/tmp/x", 2.0)), "/tmp/x for 2");
    assert!(said(log("x", 2.0)).contains("absolute path"));
    assert!(said(log("/tmp/x", 0.0)).contains("number of seconds"));
    let (answer, _) = exchange(&mut Bridge::new(), &Request::EndLog);
    assert_eq!(answer.unwrap()["lines"][0], "down: 1 arrived");
}

#[test]
fn an_instance_that_is_told_to_stop_says_so_to_its_driver() {
    let (answer, stop) = exchange(&mut Bridge::new(), &Request::Stop);
    assert_eq!((answer, stop), (Ok(Value::Null), true));
}

#[test]
fn words_that_are_no_request_are_answered_with_an_error() {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(b"{\"do\":\"dance\"}\n").unwrap();
    assert!(!serve_one(server, &mut Bridge::new()).unwrap());
    let mut answer = String::new();
    BufReader::new(client).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("{\"error\":\"not a request"), "{answer}");
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_instance() {
    let room = Room::new();
    let server = Server::bind(&room.0, "a").unwrap();
    let file = path(&room.0, "a");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    drop(server);
    assert!(!file.exists());
}

#[test]
fn what_a_dead_instance_left_is_taken_away_and_a_living_one_is_not() {
    let room = Room::new();
    let file = path(&room.0, "dead");
    drop(UnixListener::bind(&file).unwrap());
    let living = Server::bind(&room.0, "living").unwrap();
    assert_eq!(names(&room.0), ["living"]);
    assert!(!file.exists());
    drop(UnixListener::bind(&file).unwrap());
    drop(Server::bind(&room.0, "dead").unwrap());
    assert_eq!(Server::bind(&room.0, "living").unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(living);
}

#[test]
fn whoever_lists_instances_takes_no_socket_from_one_that_is_just_starting() {
    let room = Room::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                names(&room.0);
            }
        });
        let starting = scope.spawn(|| {
            for _ in 0..3000 {
                let server = Server::bind(&room.0, "a").unwrap();
                assert!(path(&room.0, "a").exists());
                drop(server);
            }
        });
        let started = starting.join();
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap();
        started.unwrap();
    });
    let left: Vec<_> = std::fs::read_dir(&room.0).unwrap().collect();
    assert_eq!(left.len(), 0, "{left:?}");
}

#[test]
fn without_a_name_the_only_instance_is_meant() {
    let room = Room::new();
    assert_eq!(choose(&room.0, None).unwrap_err(), "no instance is running");
    let _a = Server::bind(&room.0, "a").unwrap();
    assert_eq!(choose(&room.0, None), Ok("a".into()));
    let _b = Server::bind(&room.0, "b").unwrap();
    assert_eq!(choose(&room.0, None).unwrap_err(), "2 instances are running, say which: a, b");
    assert_eq!(choose(&room.0, Some("c")), Ok("c".into()));
    assert_eq!(ask(&room.0, "c", &Request::Info).unwrap_err(), "no instance c: there is a, b");
}
