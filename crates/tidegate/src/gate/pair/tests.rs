//! Two gates in memory, one of which follows the other over TLS.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidegate_gate::config::{Config, Tls};
use tidegate_gate::control::{Adjustment, LocalGate};
use tidegate_gate::{Folders, Gate, Memory, Setting};
use tokio::sync::watch;

use super::*;
use crate::gate::api::access::{Access, guarded};
use crate::gate::api::{Api, listen, router};
use crate::gate::metrics::Bounds;
use crate::gate::testing::{self, Site};

/// A gate in memory, with what its daemon would have.
struct Half {
    site: Site,
    gate: Arc<SharedGate>,
    keeper: Arc<Keeper>,
    events: Arc<Events>,
}

impl Half {
    fn new() -> Self {
        let site = Site::new();
        let config = Config::read(&site.file()).expect("a file");
        let (gate, _) = Gate::<Memory>::up(&config).expect("up");
        Self {
            site,
            gate: Arc::new(SharedGate::new(Box::new(LocalGate::held(gate)))),
            keeper: Arc::new(Keeper::open(None).expect("no file")),
            events: Arc::new(Events::new(None)),
        }
    }

    fn own(&self) -> Own<'_> {
        Own {
            gate: &self.gate,
            keeper: &self.keeper,
            events: &self.events,
        }
    }

    /// Serves its API at a free port until the returned sender is dropped or sent to.
    fn serve(
        &self,
        tls: Option<&Tls>,
        pair: Option<Arc<Pair>>,
    ) -> (SocketAddr, watch::Sender<bool>) {
        let any = config::Listen::Tcp("127.0.0.1:0".parse().expect("an address"));
        let certificate = tls.map(|tls| listen::certificate(tls).expect("a certificate"));
        let socket = listen::open(&any, None, certificate).expect("open");
        let listen::Socket::Tcp(listener, _) = &socket else {
            panic!("this is no port");
        };
        let at = listener.local_addr().expect("its address");
        let api = Api {
            gate: Arc::clone(&self.gate),
            bounds: Bounds {
                subscribers: 1,
                queues: 0,
            },
            keeper: Arc::clone(&self.keeper),
            events: Arc::clone(&self.events),
            certificates: Vec::new().into(),
            pair,
            stands_by: None,
            end: Arc::default(),
        };
        let (end, ended) = watch::channel(false);
        let router = guarded(router(api), Access::Local);
        testing::serving(socket, router, ended);
        (at, end)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let (pins, state) = (self.site.pins(), self.site.state());
        let _ = Gate::<Memory>::down_at(Folders {
            pins: &pins,
            state: &state,
        });
    }
}

/// Writes a certificate for a name, and its key.
fn certificate(folder: &Path, name: &str, of: &str) -> Tls {
    let made = rcgen::generate_simple_self_signed([of.to_owned()]).expect("a key");
    let write = |ending: &str, text: String| -> PathBuf {
        let path = folder.join(format!("{name}.{ending}"));
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
        path
    };
    Tls {
        certificate: write("crt", made.cert.pem()),
        key: write("key", made.signing_key.serialize_pem()),
    }
}

/// The other gate at an address, which is known by this certificate.
fn other(peer: SocketAddr, trusted: Option<&Path>) -> Pair {
    let config = config::Pair {
        peer,
        token: None,
        certificate: trusted.map(Path::to_owned),
    };
    Pair::open(&config, None).expect("a pair")
}

/// What a question comes to, as the status has it.
fn asked(pair: &Pair, gate: &Half) -> PairJson {
    pair.tick(&gate.own());
    pair.status()
}

#[test]
fn gates_of_a_pair_follow_one_another_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = certificate(folder.path(), "here", "127.0.0.1");
    let (first, second) = (Half::new(), Half::new());
    // The first gate is one of a pair as well, and so notes who asks it.
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let back = Arc::new(other(nobody.local_addr().expect("its address"), None));
    assert_eq!(back.status().asked_s, None);
    let (at, _end) = first.serve(Some(&tls), Some(Arc::clone(&back)));
    let pair = other(at, Some(&tls.certificate));

    let name = {
        let reading = first.gate.reading().expect("read");
        reading.roster.subscribers[0].name.to_string()
    };
    let slower = Adjustment {
        setting: Setting {
            down: Some("3mbit".parse().expect("a rate")),
            ..Setting::default()
        },
        ..Adjustment::default()
    };
    first.gate.set(&name, &slower).expect("set");
    let status = asked(&pair, &second);
    assert_eq!(status.error, None);
    assert!(
        status.age_s.is_some() && status.follows_s.is_some(),
        "{status:?}"
    );
    let after = second.gate.subscriber(&name).expect("there").subscriber;
    assert_eq!(after.limits.down.rate, Some(3_000_000));
    assert!(back.status().asked_s.is_some(), "{:?}", back.status());
}

#[test]
fn a_change_that_could_not_be_made_is_tried_again() {
    let (first, second) = (Half::new(), Half::new());
    let (at, _end) = first.serve(None, None);
    let pair = other(at, None);
    let name = {
        let reading = first.gate.reading().expect("read");
        reading.roster.subscribers[0].name.to_string()
    };
    // Only the first gate's file has the plan.
    let plan = "[plan.slower]\ndown = \"2mbit\"\nup = \"1mbit\"\n";
    first.site.write(&format!("{}{plan}", Site::FILE));
    first.gate.reload(None, false).expect("reloaded");
    let slower = Adjustment {
        setting: Setting {
            plan: Some("slower".into()),
            ..Setting::default()
        },
        ..Adjustment::default()
    };
    first.gate.set(&name, &slower).expect("set");
    let rate = || {
        let after = second.gate.subscriber(&name).expect("there").subscriber;
        after.limits.down.rate
    };
    let before = rate();
    assert_eq!(asked(&pair, &second).error, None);
    second.site.write(&format!("{}{plan}", Site::FILE));
    second.gate.reload(None, false).expect("reloaded");
    assert_eq!(asked(&pair, &second).error, None);
    assert_eq!(rate(), before, "it is not time yet");
    pair.lock().again = Some(Instant::now());
    assert_eq!(asked(&pair, &second).error, None);
    assert_eq!(rate(), Some(2_000_000));
    assert_eq!(pair.lock().again, None);
}

#[test]
fn a_gate_that_tls_does_not_trust_is_refused_with_cause_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (Half::new(), Half::new());
    let tls = certificate(folder.path(), "here", "127.0.0.1");
    let wrong = certificate(folder.path(), "wrong", "127.0.0.1");
    let elsewhere = certificate(folder.path(), "elsewhere", "192.0.2.1");
    let (at, _end) = first.serve(Some(&tls), None);
    let (moved, _end) = first.serve(Some(&elsewhere), None);
    let (plain, _end) = first.serve(None, None);
    let cases = [
        (
            at,
            Some(&wrong.certificate),
            "does not vouch for the certificate that it shows",
            "copy the other gate's `certificate`",
        ),
        (
            moved,
            Some(&elsewhere.certificate),
            "its certificate is not for this address",
            "make one for it",
        ),
        (
            plain,
            Some(&tls.certificate),
            "it does not speak TLS",
            "or leave out `certificate` in [pair]",
        ),
        (
            at,
            None,
            "or it speaks TLS",
            "then give its `certificate` in [pair]",
        ),
    ];
    for (peer, trusted, cause, remedy) in cases {
        let pair = other(peer, trusted.map(PathBuf::as_path));
        let status = asked(&pair, &second);
        let error = status.error.clone().expect("refused");
        assert!(error.contains(&peer.to_string()), "{error}");
        assert!(error.contains(cause) && error.contains(remedy), "{error}");
        assert_eq!((status.age_s, status.follows_s), (None, None));
        assert!(status.lines()[0].0.contains(cause), "{:?}", status.lines());
    }
    // Right again: the error is gone.
    let pair = other(at, Some(&tls.certificate));
    assert_eq!(asked(&pair, &second).error, None);
}
