//! PostgreSQL servers of this run. In: Debian's `postgresql`. Out: a server that can be crashed, started again and
//! followed by a synchronous standby that takes over. Everything lives in the folder of the run and ends with this
//! process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The user of the servers who owns everything.
const OWNER: &str = "duroxide";
/// The account that root's servers run under: PostgreSQL refuses root.
const ACCOUNT: &str = "postgres";
const SERVER_READY_MAX: Duration = Duration::from_secs(60);

/// A server and, if wanted, its standby.
pub(super) struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    primary: Node,
    standby: Option<Node>,
    made: u32,
}

struct Node {
    data: PathBuf,
    port: u16,
    server: Child,
}

impl Cluster {
    pub(super) fn start(folder: &Path, with_standby: bool) -> Self {
        let folder = folder.join("postgres");
        std::fs::create_dir_all(&folder).expect("a folder for the server");
        if is_root() {
            must(Command::new("chown").arg(ACCOUNT).arg(&folder));
        }
        let programs = programs();
        let data = folder.join("node-0");
        must(
            unprivileged(&programs.join("initdb"))
                .args(["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"])
                .arg(format!("--username={OWNER}"))
                .arg("--pgdata")
                .arg(&data),
        );
        let port = free_port();
        let mut cluster = Self {
            primary: Node {
                server: spawn(&programs, &folder, &data, port),
                data,
                port,
            },
            programs,
            folder,
            standby: None,
            made: 1,
        };
        cluster.wait(cluster.primary.port);
        if with_standby {
            cluster.follow();
        }
        cluster
    }

    pub(super) fn port(&self) -> u16 {
        self.primary.port
    }

    /// Ends the server without any notice to anybody, and starts it again.
    pub(super) fn crash(&mut self) {
        stop(&self.programs, &mut self.primary);
        let Node { data, port, .. } = &self.primary;
        self.primary.server = spawn(&self.programs, &self.folder, data, *port);
        self.wait(self.primary.port);
    }

    /// The primary is lost for good; its standby takes over, and gets a standby of its own.
    pub(super) fn promote(&mut self) {
        let mut next = self.standby.take().expect("a standby follows");
        // The primary ends first: a transaction that only it has was never acknowledged.
        stop(&self.programs, &mut self.primary);
        must(
            unprivileged(&self.programs.join("pg_ctl"))
                .args(["promote", "-w", "-D"])
                .arg(&next.data),
        );
        std::mem::swap(&mut self.primary, &mut next);
        std::fs::remove_dir_all(&next.data).expect("remove the lost server");
        // Commits do not wait for a standby until there is one again.
        self.ask("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.ask("SELECT pg_reload_conf()");
    }

    /// Makes a standby of the server; from then on every commit waits for both.
    pub(super) fn follow(&mut self) {
        let data = self.folder.join(format!("node-{}", self.made));
        self.made += 1;
        must(
            unprivileged(&self.programs.join("pg_basebackup"))
                .args(["-h", "127.0.0.1", "-U", OWNER, "-R", "-c", "fast"])
                .args(["-p", &self.primary.port.to_string(), "-D"])
                .arg(&data),
        );
        let port = free_port();
        let server = spawn(&self.programs, &self.folder, &data, port);
        self.wait(port);
        self.standby = Some(Node { data, port, server });
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        let begun = Instant::now();
        while self.ask(streams).trim() != "1" {
            assert!(
                begun.elapsed() < SERVER_READY_MAX,
                "the standby does not stream"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.ask("SELECT pg_reload_conf()");
    }

    /// Asks the server by psql.
    fn ask(&self, sql: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args(["-h", "127.0.0.1", "-U", OWNER, "-d", "postgres", "-At"])
            .args(["-p", &self.primary.port.to_string(), "-c", sql])
            .output()
            .expect("psql starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn wait(&self, port: u16) {
        let begun = Instant::now();
        loop {
            let asked = Command::new(self.programs.join("pg_isready"))
                .args(["-h", "127.0.0.1", "-q", "-p", &port.to_string()])
                .status();
            if asked.is_ok_and(|status| status.success()) {
                return;
            }
            if begun.elapsed() > SERVER_READY_MAX {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("the server does not come up:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        stop(&self.programs, &mut self.primary);
        if let Some(standby) = &mut self.standby {
            stop(&self.programs, standby);
        }
    }
}

fn stop(programs: &Path, node: &mut Node) {
    // It may have ended by itself.
    let _ = unprivileged(&programs.join("pg_ctl"))
        .args(["stop", "-m", "immediate", "-w", "-D"])
        .arg(&node.data)
        .output();
    let _ = node.server.wait();
}

fn spawn(programs: &Path, folder: &Path, data: &Path, port: u16) -> Child {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("a log");
    unprivileged(&programs.join("postgres"))
        .arg("-D")
        .arg(data)
        .args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=200",
        ])
        .args(["-c", "unix_socket_directories=", "-c"])
        .arg(format!("port={port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the server starts")
}

/// Where the server's programs are: where Debian keeps them, the newest first, or on the path.
fn programs() -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    found.sort();
    found.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    found
        .into_iter()
        .find(|folder| folder.join("initdb").exists() && folder.join("pg_basebackup").exists())
        .expect("there is no PostgreSQL server; run `cargo xtask setup` (on Debian: apt-get install postgresql)")
}

/// A command that runs without rights and ends with this process.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

fn must(command: &mut Command) {
    let done = command.output().expect("a command starts");
    assert!(
        done.status.success(),
        "{command:?} ended with {}\n{}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
}

fn free_port() -> u16 {
    let bound = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    bound.expect("a free port").port()
}
