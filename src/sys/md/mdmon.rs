//! mdmon, mdadm's daemon that writes the metadata of one container: whether it lives, what it answers, its start and end.
//!
//! Source: mdadm's `mdmon.c`, `managemon.c` (`handle_message`) and `msg.c`.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::Signal;

use crate::deadline::Deadline;
use crate::path;
use crate::sys::program::{self, timespec};
use crate::sys::{Path, Root, proc};

pub use crate::sys::program::Failure as StartError;

/// The process that its pid file names, if that lives and is an mdmon. A file alone proves nothing: an mdmon that was
/// told to end leaves its own behind.
pub fn pid(root: &Root, container: &str) -> Option<u32> {
    let pid = root.read_u32(path!("/run/mdadm/{container}.pid").as_str())?;
    is_mdmon(root, pid).then_some(pid)
}

/// Whether that process is an mdmon: by the name it was called, `mdmon` at the end of a path, an `@` in front or in place of
/// the first letter, which keeps systemd from killing it.
pub fn is_mdmon(root: &Root, pid: u32) -> bool {
    let mut buf = [0; 128];
    let line = root.read(path!("/proc/{pid}/cmdline").as_str(), &mut buf);
    let name = line.ok().and_then(|line| line.split(|&b| b == 0).next());
    name.is_some_and(|name| name.ends_with(b"mdmon") || name == b"@dmon")
}

/// Asks the mdmon of a container whether its monitor has looked at all arrays: once it answers, what was done to them before
/// is in the metadata. EPIPE: it hung up. EREMOTEIO: it talks something else.
pub fn ping(root: &Root, container: &str, deadline: Deadline) -> Result<(), Errno> {
    ask(root, container, MONITOR, deadline)
}

/// Asks whether its manager has looked for new arrays and disks.
pub fn ping_manager(root: &Root, container: &str, deadline: Deadline) -> Result<(), Errno> {
    ask(root, container, MANAGER, deadline)
}

fn ask(root: &Root, container: &str, what: i32, deadline: Deadline) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    ask_at(&path!("/run/mdadm/{container}.sock"), what, deadline)
}

const START: u32 = 0x5a5a_a5a5;
const END: u32 = 0xa5a5_5a5a;
const MONITOR: i32 = 0;
const MANAGER: i32 = -1;
/// More than a version has.
const ANSWER_MAX: usize = 1024;
/// Between two tries while others wait to be let in.
const PAUSE_MS: u64 = 10;

/// A message is START, the length of what follows as i32, that, and END, in the machine's byte order. What has no length is
/// a question: [`MONITOR`], answered with mdmon's version, or [`MANAGER`].
fn ask_at(path: &Path, what: i32, deadline: Deadline) -> Result<(), Errno> {
    let socket = open(path, deadline)?;
    let mut message = [0; 12];
    let words = [START.to_ne_bytes(), what.to_ne_bytes(), END.to_ne_bytes()];
    message.copy_from_slice(words.as_flattened());
    // An empty socket takes so little at once.
    send(&socket, &message, SendFlags::NOSIGNAL)?;

    if word(&socket, deadline)? != START.to_ne_bytes() {
        return Err(Errno::REMOTEIO);
    }
    let length = i32::from_ne_bytes(word(&socket, deadline)?);
    let mut answer = [0; ANSWER_MAX];
    let answer = answer
        .get_mut(..usize::try_from(length.max(0)).unwrap_or(usize::MAX))
        .ok_or(Errno::REMOTEIO)?;
    receive(&socket, answer, deadline)?;
    match word(&socket, deadline)? == END.to_ne_bytes() {
        true => Ok(()),
        false => Err(Errno::REMOTEIO),
    }
}

fn open(path: &Path, deadline: Deadline) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path.as_str())?;
    loop {
        match connect(&socket, &address) {
            Err(Errno::AGAIN) if !deadline.is_over() => {
                let _ = poll(&mut [], Some(&timespec(PAUSE_MS)));
            }
            Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT),
            other => return other.map(|()| socket),
        }
    }
}

fn word(socket: &OwnedFd, deadline: Deadline) -> Result<[u8; 4], Errno> {
    let mut word = [0; 4];
    receive(socket, &mut word, deadline)?;
    Ok(word)
}

/// Fills `buf`.
fn receive(socket: &OwnedFd, mut buf: &mut [u8], deadline: Deadline) -> Result<(), Errno> {
    while !buf.is_empty() {
        match recv(socket, &mut *buf, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Errno::PIPE),
            Ok((n, _)) => {
                buf = buf
                    .split_at_mut_checked(n)
                    .map_or(&mut [], |(_, rest)| rest)
            }
            Err(Errno::AGAIN | Errno::INTR) if deadline.is_over() => return Err(Errno::TIMEDOUT),
            Err(Errno::AGAIN | Errno::INTR) => {
                let mut wait = [PollFd::new(socket, PollFlags::IN)];
                let _ = poll(&mut wait, Some(&timespec(deadline.rest_ms())));
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Where mdadm's own build, and distributions that have one folder for all, put it.
const PROGRAMS: [&str; 4] = [
    "/sbin/mdmon",
    "/usr/sbin/mdmon",
    "/usr/bin/mdmon",
    "/bin/mdmon",
];

/// In quell's own exitrd there is no mdmon but the old root's, which runs as long as that has its own /sys, /dev and /run.
const OLD: &str = "/oldroot";

/// The mdmon program that would be started.
pub fn program(root: &Root) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|path| root.executable(path))
}

/// The same, in the old root.
fn old_program(root: &Root) -> Option<&'static str> {
    let there = |path: &&str| root.executable(path!("{OLD}{path}").as_str());
    let alive = root.exists(path!("{OLD}/sys/block").as_str());
    PROGRAMS.into_iter().find(|path| alive && there(path))
}

/// Starts the mdmon of a container, in workers only. When it returns well, mdmon has read the metadata and has its socket; a
/// volume is its own only once the volume's state says so.
///
/// It is called `@sbin/mdmon`: systemd leaves such processes alone when it leaves the initrd, and when it ends all others.
pub fn start(root: &Root, container: &str, deadline: Deadline) -> Result<(), StartError> {
    let args = ["@sbin/mdmon", container];
    match (program(root), old_program(root)) {
        (Some(program), _) => program::run(root, program, &args, deadline),
        (None, Some(program)) => program::run_below(root, OLD, program, &args, deadline),
        (None, None) => Err(StartError::Missing),
    }
}

/// Asks the mdmon of a container to see its arrays clean and end (SIGTERM; it leaves its files behind). ESRCH: there is none.
pub fn terminate(root: &Root, container: &str) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let number = pid(root, container).ok_or(Errno::SRCH)?;
    proc::signal(root, number, Signal::TERM, &|| is_mdmon(root, number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    /// What a ping gets from a server that answers with `serve`.
    fn asked(what: i32, serve: impl FnOnce(UnixStream) + Send + 'static) -> Result<(), Errno> {
        let dir = tempfile::tempdir().unwrap();
        let path = path!("{}/md127.sock", dir.path().display());
        let listener = UnixListener::bind(path.as_str()).unwrap();
        let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        let result = ask_at(&path, what, Deadline::in_seconds(60).within_ms(300));
        server.join().unwrap();
        result
    }

    /// Answers in small pieces, and hangs up only after the client has.
    fn answer(pieces: &[&[u8]]) -> impl FnOnce(UnixStream) + Send + use<> {
        let answer = pieces.concat();
        move |mut stream| {
            let mut request = [0; 12];
            stream.read_exact(&mut request).unwrap();
            for piece in answer.chunks(5) {
                let _ = stream.write_all(piece);
            }
            let _ = stream.read(&mut request);
        }
    }

    const HEAD: &[u8] = &START.to_ne_bytes();
    const TAIL: &[u8] = &END.to_ne_bytes();

    #[test]
    fn an_mdmon_answers() {
        let version = answer(&[HEAD, &6i32.to_ne_bytes(), b"v4.4 \0", TAIL]);
        assert_eq!(asked(MONITOR, version), Ok(()));
        let empty = answer(&[HEAD, &0i32.to_ne_bytes(), TAIL]);
        assert_eq!(asked(MANAGER, empty), Ok(()));
        let (sent, received) = std::sync::mpsc::channel();
        let listen = move |mut stream: UnixStream| {
            let mut request = [0; 12];
            stream.read_exact(&mut request).unwrap();
            sent.send(request).unwrap();
        };
        assert_eq!(asked(MANAGER, listen), Err(Errno::PIPE));
        let expected = [HEAD, &(-1i32).to_ne_bytes(), TAIL].concat();
        assert_eq!(received.recv().unwrap(), *expected);
    }

    #[test]
    fn nothing_else_is_taken_for_an_answer() {
        let silent = |mut stream: UnixStream| {
            let _ = stream.read_to_end(&mut Vec::new());
        };
        assert_eq!(asked(MONITOR, silent), Err(Errno::TIMEDOUT));
        let halting = answer(&[HEAD, &6i32.to_ne_bytes(), b"v4"]);
        assert_eq!(asked(MONITOR, halting), Err(Errno::TIMEDOUT));
        let garbage = answer(&[b"HTTP/1.1 400 Bad"]);
        assert_eq!(asked(MONITOR, garbage), Err(Errno::REMOTEIO));
        let endless = answer(&[HEAD, &i32::MAX.to_ne_bytes()]);
        assert_eq!(asked(MONITOR, endless), Err(Errno::REMOTEIO));
        let unended = answer(&[HEAD, &0i32.to_ne_bytes(), HEAD]);
        assert_eq!(asked(MONITOR, unended), Err(Errno::REMOTEIO));
        let hangs_up = |mut stream: UnixStream| {
            stream.read_exact(&mut [0; 12]).unwrap();
            stream.write_all(HEAD).unwrap();
        };
        assert_eq!(asked(MONITOR, hangs_up), Err(Errno::PIPE));
        let nobody = ask_at(&path!("/no/such.sock"), MONITOR, Deadline::in_seconds(1));
        assert_eq!(nobody, Err(Errno::NOENT));
    }

    #[test]
    fn a_full_queue_ends_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = path!("{}/md127.sock", dir.path().display());
        let _listener = UnixListener::bind(path.as_str()).unwrap();
        let short = || Deadline::in_seconds(60).within_ms(20);
        let mut waiting = Vec::new();
        while let Ok(socket) = open(&path, short()) {
            waiting.push(socket);
        }
        assert_eq!(open(&path, short()).err(), Some(Errno::TIMEDOUT));
    }

    #[test]
    fn only_a_process_that_is_mdmon_counts() {
        let dir = tempfile::tempdir().unwrap();
        let processes: [(u32, &[u8]); 7] = [
            (1, b"/sbin/mdmon\0md1\0"),
            (2, b"@sbin/mdmon\0md2\0"),
            (3, b"@dmon\0--takeover\0md3\0"),
            (4, b"mdmon\0"),
            (5, b"/bin/sh\0/sbin/mdmon\0"),
            (6, b"mdmonitor\0"),
            (7, b""),
        ];
        let write = |path: String, text: &[u8]| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (pid, line) in processes {
            write(format!("proc/{pid}/cmdline"), line);
            write(
                format!("run/mdadm/md{pid}.pid"),
                format!("{pid}\n").as_bytes(),
            );
        }
        write("run/mdadm/md8.pid".into(), b"8\n");
        write("run/mdadm/md9.pid".into(), b"-1\n");
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let lives: Vec<u32> = (0..10)
            .filter_map(|n| pid(&root, &format!("md{n}")))
            .collect();
        assert_eq!(lives, [1, 2, 3, 4]);
        let deadline = Deadline::in_seconds(1);
        let refused = Err(Errno::OPNOTSUPP);
        assert_eq!(ping(&root, "md1", deadline), refused);
        assert_eq!(terminate(&root, "md1"), refused);
        assert_eq!(start(&root, "md1", deadline), Err(StartError::Missing));
    }
}
