//! Delivery of webhooks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host_client_core::Host;
use host_client_page::{ApprovalLinks, WebhookApprover, WebhookConfig, WebhookSecret};
use relay_test_support::within;
use serde_json::json;

use crate::stage::{Browser, Receiver, SECRET, host, secret};

fn links() -> ApprovalLinks {
    ApprovalLinks::new("https://agent.example/pages", secret()).unwrap()
}

fn asking(config: WebhookConfig) -> Host {
    host(&WebhookApprover::new(links(), config).unwrap())
}

/// Calls the tool, which is denied because the webhook cannot be told, and returns the message.
async fn denied(host: &Host) -> String {
    within(host.call("bank.pay", &json!({"to": "Ada"}))).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_message_is_signed() {
    let mut receiver = Receiver::start([]).await;
    let host = asking(receiver.config());
    let asking = tokio::spawn(async move { denied(&host).await });
    let message = receiver.next().await;
    let header = |name: &str| message.headers[name].to_str().unwrap();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - timestamp.parse::<u64>().unwrap();
    assert!(age < 60, "{timestamp}");
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend_from_slice(&message.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap());
    let signature = STANDARD.decode(header("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
    hmac::verify(&key, &signed, &signature).unwrap();
    assert!(message.link().starts_with("https://agent.example/pages/approve/"), "{}", message.link());
    asking.abort();
}

#[tokio::test]
async fn a_message_is_sent_again_until_it_is_taken() {
    let busy = || StatusCode::SERVICE_UNAVAILABLE.into_response();
    let mut receiver = Receiver::start([busy(), busy(), StatusCode::TOO_MANY_REQUESTS.into_response()]).await;
    let host = asking(receiver.config());
    let asking = tokio::spawn(async move { denied(&host).await });
    let first = receiver.next().await;
    for _ in 0..3 {
        let again = receiver.next().await;
        assert_eq!((&again.headers["webhook-id"], &again.body), (&first.headers["webhook-id"], &first.body));
    }
    asking.abort();
}

#[tokio::test]
async fn a_message_that_is_not_taken_denies_the_call() {
    let statuses = |status: StatusCode, count: usize| (0..count).map(move |_| status.into_response());
    for (answers, sent) in [
        (statuses(StatusCode::BAD_GATEWAY, 6).collect::<Vec<Response>>(), 6),
        (statuses(StatusCode::FORBIDDEN, 1).collect(), 1),
    ] {
        let mut receiver = Receiver::start(answers).await;
        let error = denied(&asking(receiver.config())).await;
        assert!(error.ends_with("nobody could be asked"), "the code learns no more: {error}");
        for _ in 0..sent {
            receiver.next().await;
        }
        assert!(!receiver.has_more());
    }
}

#[tokio::test]
async fn a_decision_counts_although_the_receiver_fails_afterwards() {
    let busy = || StatusCode::SERVICE_UNAVAILABLE.into_response();
    let mut receiver = Receiver::start((0..6).map(|_| busy())).await;
    let mut links = None;
    let _pages =
        crate::stage::Server::start(|url| links.insert(ApprovalLinks::new(url, secret()).unwrap()).router()).await;
    // The next try would come after the test.
    let config = receiver.config().first_pause(Duration::from_secs(600));
    let host = host(&WebhookApprover::new(links.unwrap(), config).unwrap());
    let asking = tokio::spawn(async move { host.call("bank.pay", &json!({"to": "Ada"})).await });
    let link = receiver.next().await.link();
    let browser = Browser::new();
    let approved = browser.answer(&browser.open(&link).await, &[("decision", "approve")]).await;
    assert!(approved.text.contains("<h1>Approved</h1>"), "{}", approved.text);
    within(asking).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = Receiver::start([]).await;
    let mut receiver = Receiver::start([Redirect::temporary(&elsewhere.url()).into_response()]).await;
    let error = denied(&asking(receiver.config())).await;
    assert!(error.ends_with("nobody could be asked"), "{error}");
    receiver.next().await;
    assert!(!elsewhere.has_more() && !receiver.has_more());
}

#[tokio::test]
async fn a_private_network_is_not_reached_unless_it_is_named() {
    let mut receiver = Receiver::start([]).await;
    let config = WebhookConfig::new(receiver.url(), WebhookSecret::new(SECRET).unwrap());
    let error = denied(&asking(config)).await;
    assert!(error.ends_with("nobody could be asked"), "{error}");
    assert!(!receiver.has_more());
    for url in ["", "agent.example", "ftp://agent.example", "https://me:word@agent.example"] {
        let config = WebhookConfig::new(url, WebhookSecret::new(SECRET).unwrap());
        assert!(WebhookApprover::new(links(), config).is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_link_of_another_secret_is_refused() {
    let mut receiver = Receiver::start([]).await;
    let mut url = String::new();
    let pages = crate::stage::Server::start(|at| {
        url = at.to_owned();
        ApprovalLinks::new(at, secret()).unwrap().router()
    })
    .await;
    let other = ApprovalLinks::new(&url, host_client_page::LinkSecret::new([8; 32]).unwrap()).unwrap();
    let host = host(&WebhookApprover::new(other, receiver.config()).unwrap());
    let asking = tokio::spawn(async move { denied(&host).await });
    assert_eq!(Browser::new().open(&receiver.next().await.link()).await.status, 404);
    asking.abort();
    drop(pages);
}
