//! TLS against a server of its own, with a certificate that a CA of its own signed for `localhost`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duroxide_pg::{PgError, PostgresProvider};

const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("tls-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        authority(&folder, "ca");
        authority(&folder, "other");
        certificate(&folder);
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres"]).arg(&folder));
        }
        let data = folder.join("data");
        let bin = programs();
        run(unprivileged(&bin.join("initdb"))
            .args([
                "--auth=trust",
                "--no-sync",
                "--username=duroxide",
                "--pgdata",
            ])
            .arg(&data));
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let file = |name: &str| folder.join(name).display().to_string();
        let process = unprivileged(&bin.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args([
                "-c",
                "listen_addresses=localhost,127.0.0.1",
                "-c",
                "unix_socket_directories=",
            ])
            .args(["-c", "ssl=on", "-c", &format!("port={port}")])
            .args(["-c", &format!("ssl_cert_file={}", file("server.crt"))])
            .args(["-c", &format!("ssl_key_file={}", file("server.key"))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let is_ready = || {
            let mut asked = Command::new(bin.join("pg_isready"));
            asked.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
            asked.status().is_ok_and(|status| status.success())
        };
        while !is_ready() {
            assert!(begun.elapsed() < PATIENCE, "the server does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            process,
            folder,
            port,
        }
    }

    /// Connects to this name, in this mode, trusting this authority.
    async fn connect(&self, host: &str, mode: &str, authority: &str) -> Result<(), PgError> {
        let roots = self.folder.join(format!("{authority}.crt"));
        let url = format!(
            "host={host} port={} user=duroxide dbname=postgres sslmode={mode} sslrootcert={}",
            self.port,
            roots.display()
        );
        PostgresProvider::new(&url).await.map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-QUIT", &self.process.id().to_string()])
            .status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn authority(folder: &Path, name: &str) {
    run(Command::new("openssl")
        .current_dir(folder)
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-keyout",
            &format!("{name}.key"),
            "-out",
            &format!("{name}.crt"),
        ])
        .args(["-subj", &format!("/CN={name}")]));
}

fn certificate(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    run(Command::new("openssl")
        .current_dir(folder)
        .args([
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-keyout", "server.key", "-out", "server.csr"]));
    run(Command::new("openssl")
        .current_dir(folder)
        .args([
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
        ])
        .args([
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "names",
            "-out",
            "server.crt",
        ]));
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .unwrap()
        .stdout
        .trim_ascii()
        == b"0"
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args([
            "--reuid",
            "postgres",
            "--regid",
            "postgres",
            "--clear-groups",
        ]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

fn programs() -> PathBuf {
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    found.sort();
    found.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    let is_there = |folder: &PathBuf| folder.join("initdb").exists();
    found
        .into_iter()
        .find(is_there)
        .expect("a PostgreSQL server is installed; run `cargo xtask setup`")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_believed_as_far_as_the_mode_says() {
    let server = Server::start();
    for (host, mode, authority, is_believed) in [
        ("localhost", "verify-full", "ca", true),
        ("localhost", "verify-full", "other", false),
        // The certificate does not name the address.
        ("127.0.0.1", "verify-full", "ca", false),
        ("127.0.0.1", "verify-ca", "ca", true),
        ("127.0.0.1", "verify-ca", "other", false),
        // A url that names certificates asks for their use, as in libpq.
        ("localhost", "require", "ca", true),
        ("localhost", "require", "other", false),
        ("localhost", "prefer", "other", true),
    ] {
        let connected = server.connect(host, mode, authority).await;
        assert_eq!(
            connected.is_ok(),
            is_believed,
            "{host} {mode} {authority}: {connected:?}"
        );
    }
}
