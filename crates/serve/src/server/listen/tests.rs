use std::sync::Arc;

use tidegate_pace::Way;
use tokio::net::{TcpListener, TcpStream};

use super::{Config, Connection, Counted, Past, Server, Transport};

#[tokio::test]
async fn connections_whose_task_panics_are_counted_as_ended() {
    let mut config = Config::new(std::env::temp_dir());
    config.groups = vec![Way::None.into()];
    let server = Server::bind(config, None).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _client = TcpStream::connect(address).await.unwrap();
    let (socket, peer) = listener.accept().await.unwrap();
    let transport = Transport::Tcp {
        socket: Arc::new(socket),
        is_secure: false,
    };
    let shared = Arc::clone(&server.shared);
    let connection = Connection::new(shared, Past::new(0, 0, peer), transport);
    let counted = Counted::new(Arc::new(connection));
    let open = |count| format!("connections_open {count}\n");
    assert!(server.shared.metrics.text().contains(&open(1)));
    let task = tokio::spawn(async move {
        let _counted = counted;
        panic!("as it should");
    });
    task.await.unwrap_err();
    let page = server.shared.metrics.text();
    assert!(page.contains(&open(0)), "{page}");
    assert!(page.contains("reason=\"broken\"} 1\n"), "{page}");
}
