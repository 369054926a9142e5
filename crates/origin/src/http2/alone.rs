//! One request on a connection of its own, which no task drives.

use super::attempt::Attempt;
use super::driver::Driver;
use super::session::Session;
use crate::definition::Origin;
use crate::error::OriginError;
use crate::upload::Upload;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_net::stream::Stream as Socket;
use freshet_wire::h2::Ask;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The head of the final response to a request without a body, of which nothing else is wanted.
pub(crate) async fn ask_alone(
    origin: &Arc<Origin>,
    socket: Socket,
    head: &RequestHead,
    first_byte: Duration,
) -> Result<ResponseHead, OriginError> {
    let session = Session::new(origin, &socket, &Rc::default());
    let mut driver = pin!(Driver::new(&session, socket, None));
    let ask = Ask { head, length: None, ends: true, limits: origin.settings.limits };
    let unseen = OriginError::OriginUnseen { reason: "it takes no streams" };
    let stream = session.ask(ask).ok_or(unseen)?;
    let mut upload = Upload::new(Vec::new(), None);
    let mut on_interim = |_: ResponseHead| {};
    let mut asking = pin!(Attempt::new(&stream, &mut upload, &mut on_interim, first_byte).run());
    let answer = tokio::select! {
        biased;
        answer = &mut asking => answer,
        // It has told the exchange why.
        () = &mut driver => asking.await,
    };
    answer.map(|(answer, _)| answer.head).map_err(|failed| failed.error)
}
