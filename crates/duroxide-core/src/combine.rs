//! Waiting for several things, as macros. Both look at their futures in the order they are written, in every replay.

/// Waits for all; a tuple of their results, in order.
///
/// ```
/// use duroxide_core::{ActivityRef, OrchestrationContext, join};
///
/// const PRICE: ActivityRef<String, u64> = ActivityRef::new("price");
///
/// async fn both(ctx: OrchestrationContext, (a, b): (String, String)) -> Result<u64, String> {
///     let (a, b) = join!(ctx.call(PRICE, &a), ctx.call(PRICE, &b));
///     Ok(a? + b?)
/// }
/// ```
#[macro_export]
macro_rules! join {
    (@ [$($future:ident $done:ident $work:expr,)*] $next:expr, $($rest:expr,)*) => {
        $crate::join!(@ [$($future $done $work,)* future done $next,] $($rest,)*)
    };
    (@ [$($future:ident $done:ident $work:expr,)*]) => {{
        $(
            let mut $future = ::core::pin::pin!(::core::future::IntoFuture::into_future($work));
            let mut $done = ::core::option::Option::None;
        )*
        ::core::future::poll_fn(|cx| {
            let mut all = true;
            $(
                if $done.is_none() {
                    match ::core::future::Future::poll($future.as_mut(), cx) {
                        ::core::task::Poll::Ready(value) => $done = ::core::option::Option::Some(value),
                        ::core::task::Poll::Pending => all = false,
                    }
                }
            )*
            if all {
                ::core::task::Poll::Ready(())
            } else {
                ::core::task::Poll::Pending
            }
        })
        .await;
        ($($done.expect("all of them are done"),)*)
    }};
    ($($work:expr),+ $(,)?) => {
        $crate::join!(@ [] $($work,)+)
    };
}

/// Waits for the first; a tie goes to the branch written first. The others are dropped, and so cancelled, before the
/// branch runs.
///
/// ```
/// use duroxide_core::{OrchestrationContext, select};
/// use std::time::Duration;
///
/// async fn decide(ctx: OrchestrationContext, _input: ()) -> Result<String, String> {
///     select! {
///         answer = ctx.receive::<String>("answer") => Ok(answer?),
///         () = ctx.sleep(Duration::from_secs(3600)) => Ok("nobody answered".to_owned()),
///     }
/// }
/// ```
#[macro_export]
macro_rules! select {
    (@ [$($future:ident $done:ident $value:pat, $work:expr, $then:expr;)*] $next_value:pat = $next:expr => $next_then:expr, $($rest:tt)*) => {
        $crate::select!(@ [$($future $done $value, $work, $then;)* future done $next_value, $next, $next_then;] $($rest)*)
    };
    (@ [$($future:ident $done:ident $value:pat, $work:expr, $then:expr;)*] $next_value:pat = $next:expr => $next_then:expr) => {
        $crate::select!(@ [$($future $done $value, $work, $then;)* future done $next_value, $next, $next_then;])
    };
    (@ [$($future:ident $done:ident $value:pat, $work:expr, $then:expr;)*]) => {{
        $(
            let mut $done = ::core::option::Option::None;
        )*
        {
            $(
                let mut $future = ::core::pin::pin!(::core::future::IntoFuture::into_future($work));
            )*
            ::core::future::poll_fn(|cx| {
                $(
                    if let ::core::task::Poll::Ready(value) =
                        ::core::future::Future::poll($future.as_mut(), cx)
                    {
                        $done = ::core::option::Option::Some(value);
                        return ::core::task::Poll::Ready(());
                    }
                )*
                ::core::task::Poll::Pending
            })
            .await;
        }
        $(
            if let ::core::option::Option::Some(value) = $done {
                // A pattern that may not match is an error here, and not a branch that is passed over.
                match value {
                    $value => $then,
                }
            } else
        )*
        {
            unreachable!("one of them is done")
        }
    }};
    ($value:pat = $($rest:tt)+) => {
        $crate::select!(@ [] $value = $($rest)+)
    };
}
