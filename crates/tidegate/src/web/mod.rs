//! `tidegate web`: the page in the browser.

mod api;
mod desks;
mod folders;
mod gate;
mod guard;
mod key;
mod page;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Common;
use crate::cli::web::Web;
use crate::exit::Exit;
use desks::Desks;
use folders::Folders;
use gate::{Address, Gate};
use key::Key;
use page::Page;

pub fn run(options: &Web, common: &Common) -> anyhow::Result<Exit> {
    let mut page = Page::open(options.page.as_deref())?;
    let key = Arc::new(Key::random()?);
    let gate = gate(options, &key)?;
    let desks = if options.captures.is_empty() {
        None
    } else {
        Some(Desks::new(Folders::open(&options.captures)?, &key))
    };
    let serves = [
        desks.as_ref().map(|_| "captures"),
        gate.as_ref().map(|_| "gate"),
    ];
    page.tell(&serves.into_iter().flatten().collect::<Vec<_>>());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the server")?;
    let router = |port| router(page, gate, desks, port);
    let done = runtime.block_on(serve(options, common, router, &key));
    // A capture may be read for minutes, in a thread that would be waited for.
    runtime.shutdown_background();
    done
}

/// The gate that the page may show.
fn gate(options: &Web, key: &Arc<Key>) -> anyhow::Result<Option<Gate>> {
    let Some(text) = &options.gate else {
        return Ok(None);
    };
    let address: Address = text
        .parse()
        .map_err(|why| anyhow!("--gate {text}: {why}"))?;
    let token = options.gate_token.as_deref();
    Gate::new(address, token, Arc::clone(key), options.gate_change).map(Some)
}

async fn serve(
    options: &Web,
    common: &Common,
    router: impl FnOnce(u16) -> Router,
    key: &Key,
) -> anyhow::Result<Exit> {
    let mut term = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let wanted = SocketAddrV4::new(Ipv4Addr::LOCALHOST, options.port);
    let listener = TcpListener::bind(wanted).await.with_context(|| {
        format!("cannot listen on {wanted}: choose another port with --port, or any with --port 0")
    })?;
    let address = listener.local_addr().context("cannot listen")?;
    // The address is the command's result: programs that start it read it from there. Browsers send nothing behind the # to a server.
    match (&options.gate, options.captures.is_empty()) {
        (Some(_), _) => println!("http://{address}/#view=gate&key={}", key.text()),
        (None, false) => println!("http://{address}/#key={}", key.text()),
        (None, true) => println!("http://{address}/"),
    }
    let router = router(address.port());
    if !common.quiet {
        eprintln!("tidegate: open this address in a browser on this machine; Ctrl-C ends it");
    }
    let end = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        result = async { axum::serve(listener, router).await } => result.context("the server failed")?,
        () = end => {}
    }
    Ok(Exit::Done)
}

/// Answers requests for the page's files, for captures and for the gate that come from the page, or from a person's address bar.
fn router(page: Page, gate: Option<Gate>, desks: Option<Desks>, port: u16) -> Router {
    let page = Arc::new(page);
    gate.map_or_else(Router::new, gate::router)
        .merge(desks.map_or_else(Router::new, api::routes))
        .fallback(move |method: Method, uri: axum::http::Uri| {
            let page = Arc::clone(&page);
            async move { page.answer(&method, uri.path()).into_response() }
        })
        .layer(from_fn_with_state(port, guard::guard))
}
