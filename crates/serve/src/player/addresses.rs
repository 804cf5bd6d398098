//! A server with several addresses: each is tried a while after the one before it.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

/// After this time the server's next address is tried too (RFC 8305, section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Why there is nothing to try.
pub(super) const NONE: &str = "the server has no address of that kind";

/// The result of the first try that succeeds. The next one begins when the last one has failed, or has not succeeded in time; tries that have
/// begun go on. If none succeeds, it is the error of the last one that failed; `None` if there is no try.
pub(super) async fn first<T, E, F>(tries: impl IntoIterator<Item = F>) -> Result<T, Option<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut tries = tries.into_iter().fuse();
    let mut begun = JoinSet::new();
    let mut reason = None;
    loop {
        let next = tries.next();
        let more = next.is_some();
        if let Some(next) = next {
            begun.spawn(next);
        }
        tokio::select! {
            biased;
            ended = begun.join_next() => match ended {
                Some(Ok(Ok(connection))) => return Ok(connection),
                Some(Ok(Err(error))) => reason = Some(error),
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => return Err(reason),
            },
            () = sleep(NEXT_ADDRESS), if more => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;

    use tokio::time::Instant;

    use super::*;

    type Try = Pin<Box<dyn Future<Output = Result<u32, &'static str>> + Send>>;

    fn fails(why: &'static str) -> Try {
        Box::pin(ready(Err(why)))
    }

    fn hangs() -> Try {
        Box::pin(pending())
    }

    fn answers(number: u32) -> Try {
        Box::pin(ready(Ok(number)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_address_is_tried_after_a_while_or_a_failure() {
        let began = Instant::now();
        assert_eq!(first([answers(1), answers(2)]).await, Ok(1));
        assert_eq!(first([fails("a"), answers(2)]).await, Ok(2));
        assert_eq!(first([fails("a"), fails("b")]).await, Err(Some("b")));
        assert_eq!(first(Vec::<Try>::new()).await, Err(None));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(first([hangs(), hangs(), answers(3)]).await, Ok(3));
        assert_eq!(began.elapsed(), 2 * NEXT_ADDRESS);
        // One that is late may still be the first.
        let late: Try = Box::pin(async {
            sleep(2 * NEXT_ADDRESS).await;
            Ok(1)
        });
        assert_eq!(first([late, hangs()]).await, Ok(1));
    }
}
