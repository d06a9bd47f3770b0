//! A PgBouncer of a test's own, in front of the server, pooling by transaction.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::url;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Pooler {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Pooler {
    pub(crate) fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("pgbouncer-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server: tokio_postgres::Config = url().parse().unwrap();
        let host = match &server.get_hosts()[0] {
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
        };
        let config = format!(
            "[databases]\n{database} = host={host} port={server_port} user={user}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 200\n\
             default_pool_size = 10\nlogfile = {log}\n",
            database = server.get_dbname().unwrap(),
            server_port = server.get_ports()[0],
            user = server.get_user().unwrap(),
            log = folder.join("log").display(),
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, config).unwrap();
        let process = launch(&folder, &file);
        let mut pooler = Self {
            process,
            port,
            folder,
        };
        pooler.wait();
        pooler
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let has_ended = self.process.try_wait().unwrap().is_some();
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(
                !has_ended && begun.elapsed() < PATIENCE,
                "pgbouncer does not come up: {log}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn url(&self) -> String {
        let server: tokio_postgres::Config = url().parse().unwrap();
        format!(
            "host=127.0.0.1 port={} user={} dbname={}",
            self.port,
            server.get_user().unwrap(),
            server.get_dbname().unwrap()
        )
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Debian keeps it where only root looks; like the server it refuses to run as root.
fn launch(folder: &Path, file: &Path) -> Child {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&on_path).chain([PathBuf::from("/usr/sbin")]);
    let program = places
        .map(|place| place.join("pgbouncer"))
        .find(|program| program.exists())
        .expect(
            "there is no PgBouncer; run `cargo xtask setup` (on Debian: apt-get install pgbouncer)",
        );
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .unwrap()
        .stdout
        .trim_ascii()
        == b"0";
    let mut command = if is_root {
        let owned = Command::new("chown")
            .args(["-R", "postgres"])
            .arg(folder)
            .status();
        assert!(owned.unwrap().success());
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            "postgres",
            "--regid",
            "postgres",
            "--clear-groups",
            "--",
        ]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
