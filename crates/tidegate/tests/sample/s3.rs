//! `--to s3://…`, to a server of this process.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tidegate_testbed::namespace::Namespace;

use crate::program::{run, tidegate};
use crate::support::{Sampler, complete, detected, pair, transfers};

/// An S3 server in a namespace, with a bucket `samples` in the folder. It takes this port.
fn s3_server(space: &Namespace, folder: &Path, port: u16) {
    fs::create_dir_all(folder.join("samples")).expect("a bucket");
    let bound = space.enter(|| TcpListener::bind(("127.0.0.1", port)));
    let listener = bound.expect("the namespace").expect("bound");
    listener.set_nonblocking(true).expect("a socket");
    let mut service = S3ServiceBuilder::new(FileSystem::new(folder).expect("a folder"));
    service.set_auth(SimpleAuth::from_single("access", "secret"));
    let service = service.build();
    // Until the process of the tests ends.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let service = service.clone();
                tokio::spawn(async move {
                    let http = Builder::new(TokioExecutor::new());
                    // A client that was killed ends its connection with an error.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
}

/// A sampler of all flows, in files of 1 kB, to the bucket.
fn to_s3(space: &Namespace, out: &Path, port: u16) -> Sampler {
    let mut command = tidegate(&["sample", "inside", "--fraction", "1", "--rotate", "1kB"]);
    command
        .args(["--to", "s3://samples/eu/web", "--out"])
        .arg(out)
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "access")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "eu-west-1")
        .stderr(Stdio::piped());
    Sampler::run(space, &mut command)
}

#[test]
fn files_go_to_an_s3_store_also_to_one_that_was_away_and_after_kills() {
    let test = "files_go_to_an_s3_store_also_to_one_that_was_away_and_after_kills";
    let Some((server, client)) = pair(test) else {
        return;
    };
    const PORT: u16 = 9000;
    let folder = tempfile::tempdir().expect("a folder");
    let (out, store) = (folder.path().join("out"), folder.path().join("store"));
    let mut sampler = to_s3(&server, &out, PORT);
    transfers(&server, &client, 200, 1000);
    sampler.until("Files stay here");
    assert!(!complete(&out).is_empty());
    // The store comes: all that waited goes to it.
    s3_server(&server, &store, PORT);
    transfers(&server, &client, 200, 1000);
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("s3://samples/eu/web again"), "{said}");
    assert!(complete(&out).is_empty(), "{said}");
    let objects = store.join("samples/eu/web");
    // Requests and responses, none lost and none twice.
    assert_eq!(detected(&objects), 2 * 400);

    for round in 0..10 {
        let mut sampler = to_s3(&server, &out, PORT);
        thread::scope(|scope| {
            scope.spawn(|| transfers(&server, &client, 200, 1000));
            thread::sleep(Duration::from_millis(30 * round));
            sampler.signal("KILL");
        });
        sampler.end("KILL");
        // A file is here, there, or both if it was sent and not removed yet: then they are the same.
        for file in complete(&out) {
            let there = objects.join(file.file_name().expect("a name"));
            if there.exists() {
                let read = |path: &Path| fs::read(path).expect("a file");
                assert_eq!(read(&there), read(&file));
            }
        }
    }
    let (code, said) = to_s3(&server, &out, PORT).end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(complete(&out).is_empty(), "{said}");
    for file in complete(&objects) {
        let (code, _, problems) = run(&["detect", file.to_str().expect("text")]);
        assert_eq!((code, problems), (0, String::new()), "{}", file.display());
    }
    assert!(detected(&objects) > 2 * 400);

    // A large file goes in parts.
    let name = complete(&objects)[0]
        .file_name()
        .expect("a name")
        .to_owned();
    let name = name.into_string().expect("text");
    let (stem, _) = name.split_once("-inside-").expect("host and interface");
    let name = format!("{stem}-inside-19700101T000000.000000Z.pcapng.zst");
    let large: Vec<u8> = (0..40_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(out.join(&name), &large).expect("written");
    let (code, said) = to_s3(&server, &out, PORT).end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(complete(&out).is_empty(), "{said}");
    assert!(fs::read(objects.join(name)).expect("an object") == large);
}
