//! A command in the guest: a whole Linux in virtual time, built by `tools/guest`.
//!
//! The guest is User Mode Linux in time-travel mode. Its clock stands still while code runs and jumps to the next timer
//! when nothing has anything to do, so its network is the real kernel's and no figure depends on this machine. What spins
//! makes virtual time stand still: weir runs there with `--poll sleep`.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Error;

/// The first process of the guest.
const INIT: &str = include_str!("../../tools/guest.d/init");

/// What is to run, and within what bounds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program and its arguments; the program is looked for in the guest's usual places unless it is a path.
    pub words: Vec<OsString>,
    /// The one folder that can be written in the guest, under the path it has here; made if it is not there. The command
    /// starts where this process is, or in this folder if the guest cannot see that place.
    pub out: PathBuf,
    /// After so long on the wall the guest is ended.
    pub limit: Duration,
    /// Memory of the guest, MiB.
    pub memory: u32,
    /// The clock runs as the wall's does.
    pub real_time: bool,
}

/// Where the guest's kernel is: in the folder that `WEIR_GUEST` names, else below the home folder.
///
/// # Errors
/// It is not there: the command that builds it.
pub fn kernel() -> Result<PathBuf, Error> {
    let folder = env::var_os("WEIR_GUEST").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache/weir/guest")));
    let path = folder.unwrap_or_default().join("linux");
    if path.is_file() {
        return Ok(path);
    }
    Err(Error(format!(
        "no guest for virtual time at {}; once a machine, some minutes: sudo tools/guest (in weir's source)",
        path.display()
    )))
}

/// Runs a command in the guest and passes on what it prints, as it comes. Its exit code is returned.
///
/// # Errors
/// There is no guest, the folder cannot be written, the program lies where the guest sees nothing, or the guest did not
/// come to an end.
pub fn run(plan: &Plan) -> Result<u8, Error> {
    let kernel = kernel()?;
    let out = prepare(plan)?;
    let state = out.join(".guest");
    let console = File::create(state.join("console")).map_err(Error::when("cannot write the guest's console"))?;
    let also = console.try_clone().map_err(Error::when("cannot write the guest's console"))?;
    // `timeout` ends the guest also when this process is gone.
    let mut guest = Command::new("timeout");
    guest.args(["--foreground", "-k", "5"]).arg(plan.limit.as_secs().max(1).to_string()).arg(&kernel);
    guest.arg(format!("mem={}M", plan.memory)).arg(format!("uml_dir={}", state.display()));
    guest.args(["con=null", "con0=null,fd:1", "root=none", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
    guest.arg("random.trust_cpu=on");
    if !plan.real_time {
        guest.arg("time-travel=inf-cpu");
    }
    guest.arg(format!("init={}", state.join("init").display())).arg(format!("GUEST_OUT={}", out.display()));
    if let Ok(here) = env::current_dir() {
        guest.arg(format!("GUEST_CWD={}", here.display()));
    }
    guest.env("TMPDIR", "/dev/shm").stdin(Stdio::null()).stdout(console).stderr(also);
    let guest = guest.spawn().map_err(Error::when(format_args!("cannot start {}", kernel.display())))?;
    let ended = follow(Running(guest), &state).map_err(Error::when("lost the guest"));
    let code = fs::read_to_string(state.join("code")).ok().and_then(|code| code.trim().parse().ok());
    let console = fs::read_to_string(state.join("console")).unwrap_or_default();
    ended?;
    let Some(code) = code else {
        let last = console.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
        return Err(Error(format!(
            "the guest did not come to an end within {} s on the wall; its last lines, from {}:\n{last}",
            plan.limit.as_secs(),
            state.join("console").display()
        )));
    };
    fs::remove_dir_all(&state).map_err(Error::when(format_args!("cannot remove {}", state.display())))?;
    Ok(code)
}

/// Writes what the guest's first process reads. The folder, as an absolute path.
fn prepare(plan: &Plan) -> Result<PathBuf, Error> {
    let program = plan.words.first().map(Path::new).unwrap_or(Path::new(""));
    for hidden in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
        if program.starts_with(hidden) {
            return Err(Error(format!(
                "{} cannot be run in the guest, where {hidden} is empty: copy it elsewhere",
                program.display()
            )));
        }
    }
    let cannot = |what: &Path| Error::when(format!("cannot write {}", what.display()));
    let state = plan.out.join(".guest");
    fs::create_dir_all(&state).map_err(cannot(&state))?;
    let out = plan.out.canonicalize().map_err(cannot(&plan.out))?;
    // A line of the kernel has no quotes and no spaces to spare.
    if out.as_os_str().as_bytes().iter().any(|b| b.is_ascii_whitespace() || *b == b'"' || *b == b',') {
        return Err(Error(format!("{}: the guest wants a path without spaces, quotes and commas", out.display())));
    }
    let mut words = Vec::new();
    for word in &plan.words {
        words.extend_from_slice(word.as_bytes());
        words.push(0);
    }
    let state = out.join(".guest");
    for old in ["code", "stdout", "stderr"] {
        let _ = fs::remove_file(state.join(old));
    }
    fs::write(state.join("words"), words).map_err(cannot(&state))?;
    let init = state.join("init");
    fs::write(&init, INIT).map_err(cannot(&init))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&init, mode).map_err(cannot(&init))?;
    Ok(out)
}

/// A guest that is ended when nobody waits for it any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Passes on what the guest's command prints until the guest has ended.
fn follow(mut guest: Running, state: &Path) -> io::Result<()> {
    let mut said = [(state.join("stdout"), 0), (state.join("stderr"), 0)];
    loop {
        let ended = guest.0.try_wait()?.is_some();
        for (place, (path, from)) in said.iter_mut().enumerate() {
            let Ok(mut file) = File::open(path) else { continue };
            file.seek(SeekFrom::Start(*from))?;
            let mut more = Vec::new();
            *from += file.read_to_end(&mut more)? as u64;
            match place {
                0 => io::stdout().write_all(&more).and_then(|()| io::stdout().flush())?,
                _ => io::stderr().write_all(&more)?,
            }
        }
        if ended {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(program: &str, out: &str) -> Plan {
        Plan {
            words: vec![program.into()],
            out: out.into(),
            limit: Duration::from_secs(1),
            memory: 256,
            real_time: false,
        }
    }

    #[test]
    fn a_program_that_the_guest_cannot_see_is_refused_before_anything_is_written() {
        let refused = prepare(&plan("/tmp/weir", "/proc/nowhere")).expect_err("hidden");
        assert!(
            refused.to_string().starts_with("/tmp/weir cannot be run in the guest, where /tmp is empty"),
            "{refused}"
        );
    }

    #[test]
    fn words_are_handed_over_as_they_are() {
        let folder = env::temp_dir().join(format!("weir-guest-test-{}", std::process::id()));
        let mut wanted = plan("echo", folder.to_str().expect("ASCII"));
        wanted.words.push("two words; $HOME".into());
        let out = prepare(&wanted).expect("written");
        let written = fs::read(out.join(".guest/words")).expect("there");
        fs::remove_dir_all(folder).expect("ours");
        assert_eq!(written, b"echo\0two words; $HOME\0");
    }
}
