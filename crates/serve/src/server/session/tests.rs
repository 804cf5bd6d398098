use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::server::tests::phases::{Stage, stage};
use tidegate_pace::Way;

/// What comes after these bytes from the client.
async fn next(stage: &mut Stage, bytes: &str, order: &mut watch::Receiver<Order>) -> Next {
    stage.peer.write_all(bytes.as_bytes()).await.unwrap();
    let (connection, socket) = (&stage.connection, &stage.socket);
    let behind = Arc::default();
    let watched = Watched {
        connection: Arc::clone(connection),
        socket: Arc::clone(socket),
        behind: Arc::clone(&behind),
    };
    let stream = (Kept::new(watched), behind);
    let mut patience = Patience::new(connection);
    let orders = (&mut patience, order);
    converse((connection, socket), &stream, Entrance::Plain, orders).await
}

#[tokio::test]
async fn files_are_taken_from_the_library() {
    let mut stage = stage(Way::None, 0).await;
    let (orders, mut order) = watch::channel(Order::Serve);
    for (close, told, persists) in [
        ("", false, true),
        ("Connection: close\r\n", false, false),
        ("", true, false),
    ] {
        if told {
            orders.send(Order::Finish).unwrap();
        }
        let request = format!("GET /v.mp4 HTTP/1.1\r\nHost: t\r\n{close}\r\n");
        let Next::Sends(taken) = next(&mut stage, &request, &mut order).await else {
            panic!("it was not taken");
        };
        assert_eq!((taken.persists, taken.answer.left()), (persists, 7_500_000));
        // The head leaves with the file.
        assert!(stage.peer.try_read(&mut [0]).is_err());
        let mut all = vec![0; 7_500_000];
        let mut head = Vec::new();
        let receive = async {
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stage.peer.read_u8().await.unwrap());
            }
            stage.peer.read_exact(&mut all).await.unwrap();
        };
        let (sent, ()) = tokio::join!(send(taken.answer, &stage.socket), receive);
        sent.unwrap();
        assert!(all == std::fs::read(stage.folder.path().join("v.mp4")).unwrap());
    }
}

/// What is short leaves with its head in one call.
#[tokio::test]
async fn other_responses_are_not_taken() {
    let get = "GET /v.mp4 HTTP/1.1\r\nHost: t\r\nRange: bytes=0-8000\r\n\r\n";
    for requests in [
        get.to_owned(),
        get.replace("GET", "HEAD").replace("8000", "70000"),
    ] {
        let mut stage = stage(Way::None, 0).await;
        let (_orders, mut order) = watch::channel(Order::Serve);
        let began = Instant::now();
        let next = next(&mut stage, &requests, &mut order).await;
        assert!(matches!(next, Next::Rests), "{requests}");
        assert!(began.elapsed() >= REST);
    }
}
