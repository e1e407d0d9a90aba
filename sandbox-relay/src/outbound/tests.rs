use relay_proto::delivery::{ACKNOWLEDGE_MESSAGES, MAX_UNACKNOWLEDGED};
use relay_proto::frame;

use super::*;

fn budgets() -> KeptBudgets {
    KeptBudgets { of_subject: Arc::new(Semaphore::new(1 << 20)), detached: Arc::new(Semaphore::new(1 << 20)) }
}

fn kept() -> (Outbound, OutboundQueue) {
    let (outbound, queue) = outbound(budgets());
    outbound.delivery().number(Numbering::Kept);
    (outbound, queue)
}

fn ping(id: impl ToString) -> Payload {
    Payload::Ping(relay_proto::wire::Ping { id: id.to_string() })
}

async fn sequence(queue: &mut OutboundQueue) -> u64 {
    frame::decode(queue.next().await.unwrap()).unwrap().sequence
}

#[tokio::test]
async fn what_is_not_acknowledged_is_written_again_to_the_next_connection() {
    let (outbound, mut queue) = kept();
    for id in 1..=4 {
        outbound.reserve(0).await.unwrap().send(ping(id));
    }
    assert_eq!([sequence(&mut queue).await, sequence(&mut queue).await, sequence(&mut queue).await], [1, 2, 3]);
    assert_eq!(outbound.delivery().acknowledge(1), Ok(true));
    assert_eq!(outbound.delivery().acknowledge(1), Ok(false));
    assert!(outbound.delivery().acknowledge(4).is_err(), "it was not sent");

    assert!(outbound.detach() && outbound.delivery().is_detached());
    assert!(outbound.delivery().attach(4).is_err(), "the host cannot have received it");
    assert!(outbound.delivery().attach(0).is_err(), "it is not kept any more");
    outbound.delivery().attach(2).unwrap();
    // The third again, and the fourth, which no connection has seen.
    assert_eq!([sequence(&mut queue).await, sequence(&mut queue).await], [3, 4]);
    assert!(queue.try_next().is_none());
}

#[tokio::test]
async fn a_host_that_never_acknowledges_gets_no_more_than_may_be_kept() {
    let (outbound, mut queue) = kept();
    for id in 0..MAX_UNACKNOWLEDGED {
        outbound.reserve(0).await.unwrap().send(ping(id));
        assert!(queue.try_next().is_some());
    }
    outbound.reserve(0).await.unwrap().send(ping("one more"));
    assert!(queue.try_next().is_none());
    let ((), sent) = tokio::join!(
        async {
            tokio::task::yield_now().await;
            outbound.delivery().acknowledge(1).unwrap();
        },
        sequence(&mut queue),
    );
    assert_eq!(sent, MAX_UNACKNOWLEDGED as u64 + 1);
}

#[tokio::test]
async fn kept_bytes_count_for_the_session_its_subject_and_without_a_connection_for_the_relay() {
    let (outbound, mut queue) = kept();
    let budgets = outbound.budgets.clone();
    let all = budgets.of_subject.available_permits();
    outbound.reserve(10_000).await.unwrap().send(ping("large"));
    queue.next().await.unwrap();
    assert_eq!(all - budgets.of_subject.available_permits(), 10_000);
    let free = budgets.detached.available_permits();
    assert!(outbound.detach());
    assert!(free - budgets.detached.available_permits() >= 10_000);
    outbound.reserve(0).await.unwrap().send(ping("small"));
    assert!(free - budgets.detached.available_permits() >= 10_000 + 2 * SMALL_BYTES);
    outbound.delivery().attach(1).unwrap();
    assert_eq!(sequence(&mut queue).await, 2);
    assert_eq!(outbound.delivery().acknowledge(2), Ok(true));
    assert_eq!((all, free), (budgets.of_subject.available_permits(), budgets.detached.available_permits()));
}

#[tokio::test]
async fn a_session_for_which_there_is_no_room_is_not_detached() {
    let (outbound, _queue) = kept();
    let taken = Arc::clone(&outbound.budgets.detached).acquire_many_owned(1 << 20).await.unwrap();
    assert!(!outbound.detach() && !outbound.delivery().is_detached());
    drop(taken);
    assert!(outbound.detach());
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_of_their_own_go_after_messages_or_after_a_second() {
    let (outbound, _queue) = kept();
    let delivery = Arc::clone(&outbound.delivery);
    let acknowledged = |bytes| {
        let message = frame::decode(bytes).unwrap();
        assert!(message.payload.is_none() && message.sequence == 0);
        message.acknowledged
    };
    let began = tokio::time::Instant::now();
    delivery.count(1, 10).unwrap();
    assert_eq!(acknowledged(delivery.acknowledgement().await), 1);
    assert_eq!(began.elapsed().as_millis(), 1_000);
    for sequence in 2..2 + ACKNOWLEDGE_MESSAGES {
        delivery.count(sequence, 10).unwrap();
    }
    assert_eq!(acknowledged(delivery.acknowledgement().await), 1 + ACKNOWLEDGE_MESSAGES);
    assert_eq!(began.elapsed().as_millis(), 1_000);
}
