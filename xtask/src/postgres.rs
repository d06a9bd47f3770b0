//! A private PostgreSQL server. In: Debian's `postgresql`, or another installation on the path. Out: a url. The server
//! lives in a temporary folder, as a user without rights, and ends with the process that started it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::run::{SERVER_URL, is_root};

/// The user of the server who owns everything.
const OWNER: &str = "duroxide";
/// The user of the machine under which a server of root's runs: PostgreSQL refuses root.
const ACCOUNT: &str = "postgres";
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it is stopped and its folder removed when this is dropped.
pub(crate) struct Server {
    server: Child,
    folder: Folder,
    port: u16,
}

/// A folder that is removed when this is dropped, also if no server came up in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a server may cost its caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Every commit waits for the disk, as on a machine that counts: what a benchmark measures.
    Durable,
    /// Nothing waits for the disk. A server that is killed loses nothing by it, and the tests do not cut the power.
    Fast,
}

impl Writes {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Durable => &[],
            Self::Fast => &["-c", "fsync=off", "-c", "full_page_writes=off"],
        }
    }
}

impl Server {
    /// Makes a cluster and starts it.
    pub(crate) fn start(writes: Writes) -> Result<Self, String> {
        let programs = programs()?;
        let path = std::env::temp_dir().join(format!("duroxide-postgres-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let holder = Folder(path.clone());
        let folder = path;
        if is_root() {
            quietly(Command::new("chown").arg(ACCOUNT).arg(&folder))?;
        }
        let data = folder.join("data");
        quietly(
            as_nobody(&programs.join("initdb"))
                .args([
                    "--auth=trust",
                    "--no-sync",
                    "--encoding=UTF8",
                    "--locale=C.UTF-8",
                ])
                .arg(format!("--username={OWNER}"))
                .arg("--pgdata")
                .arg(&data),
        )?;
        let port = free_port()?;
        let server = as_nobody(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "max_connections=200",
            ])
            .args(writes.settings())
            .args(["-c", &format!("port={port}"), "-c"])
            .arg(format!("unix_socket_directories={}", folder.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log(&folder)?)
            .spawn()
            .map_err(|e| format!("the server does not start: {e}"))?;
        let server = Self {
            server,
            folder: holder,
            port,
        };
        server.wait(&programs)
    }

    fn wait(mut self, programs: &Path) -> Result<Self, String> {
        let begun = Instant::now();
        loop {
            let asked = Command::new(programs.join("pg_isready"))
                .arg("-h")
                .arg(&self.folder.0)
                .args(["-p", &self.port.to_string(), "-q"])
                .status();
            if asked.is_ok_and(|status| status.success()) {
                return Ok(self);
            }
            let has_ended = !matches!(self.server.try_wait(), Ok(None));
            if has_ended || begun.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default();
                return Err(format!("the PostgreSQL server does not come up:\n{said}"));
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Where it is: at its socket in the file system.
    pub(crate) fn url(&self) -> String {
        format!(
            "host={} port={} user={OWNER} dbname=postgres",
            self.folder.0.display(),
            self.port
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing in it is needed again.
        let _ = Command::new("kill")
            .args(["-QUIT", &self.server.id().to_string()])
            .status();
        let _ = self.server.wait();
    }
}

/// `cargo xtask postgres`: a server for a developer, until interrupted.
pub(crate) fn serve() -> Result<(), String> {
    let mut server = Server::start(Writes::Durable)?;
    println!("{}", server.url());
    println!();
    println!("export {SERVER_URL}='{}'", server.url());
    println!("until this program is interrupted; everything in it is gone then");
    let _ = server.server.wait();
    Ok(())
}

/// Whether a server can be started here, or one is named.
pub(crate) fn is_there() -> bool {
    std::env::var_os(SERVER_URL).is_some() || programs().is_ok()
}

/// Where the server's programs are: on the path, or where Debian keeps them, the newest first.
fn programs() -> Result<PathBuf, String> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&on_path).collect();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    found.splice(0..0, debian.into_iter().rev());
    let has_all = |folder: &PathBuf| {
        ["initdb", "postgres", "pg_isready"]
            .iter()
            .all(|program| folder.join(program).exists())
    };
    found.into_iter().find(has_all).ok_or_else(|| {
        format!(
            "there is no PostgreSQL server; run `cargo xtask setup` (on Debian: apt-get install postgresql), or name one with {SERVER_URL}"
        )
    })
}

/// A command that runs without rights and ends with this process.
fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

fn quietly(command: &mut Command) -> Result<(), String> {
    let done = command
        .output()
        .map_err(|e| format!("{command:?} does not start: {e}"))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{command:?} ended with {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        ))
    }
}

fn log(folder: &Path) -> Result<Stdio, String> {
    let file = std::fs::File::create(folder.join("log")).map_err(|e| e.to_string())?;
    Ok(file.into())
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|e| format!("no free port: {e}"))
}
