//! Waiting for all, waiting for the first. Children are polled in argument order, so the outcome is the same in every
//! replay.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use super::OrchestrationContext;
use super::join_all::JoinAll;

/// Which of two came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Either2<A, B> {
    /// The first argument.
    First(A),
    /// The second argument.
    Second(B),
}

impl<A, B> Either2<A, B> {
    /// Whether the first argument came first.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::First(_))
    }

    /// Whether the second argument came first.
    pub fn is_second(&self) -> bool {
        matches!(self, Self::Second(_))
    }

    /// The argument's position, from 0.
    pub fn index(&self) -> usize {
        match self {
            Self::First(_) => 0,
            Self::Second(_) => 1,
        }
    }
}

impl<T> Either2<T, T> {
    /// Position and value.
    pub fn into_tuple(self) -> (usize, T) {
        match self {
            Self::First(value) => (0, value),
            Self::Second(value) => (1, value),
        }
    }
}

/// Which of three came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Either3<A, B, C> {
    /// The first argument.
    First(A),
    /// The second argument.
    Second(B),
    /// The third argument.
    Third(C),
}

impl<A, B, C> Either3<A, B, C> {
    /// The argument's position, from 0.
    pub fn index(&self) -> usize {
        match self {
            Self::First(_) => 0,
            Self::Second(_) => 1,
            Self::Third(_) => 2,
        }
    }
}

impl<T> Either3<T, T, T> {
    /// Position and value.
    pub fn into_tuple(self) -> (usize, T) {
        match self {
            Self::First(value) => (0, value),
            Self::Second(value) => (1, value),
            Self::Third(value) => (2, value),
        }
    }
}

impl OrchestrationContext {
    /// Waits for all; results come in the order of the arguments.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let words = input.split(' ').map(|word| ctx.schedule_activity("translate", word)).collect();
    ///     let translated: Result<Vec<String>, String> = ctx.join(words).await.into_iter().collect();
    ///     Ok(translated?.join(" "))
    /// }
    /// ```
    pub async fn join<T, F: Future<Output = T>>(&self, futures: Vec<F>) -> Vec<T> {
        JoinAll::new(futures).await
    }

    /// Waits for both.
    pub async fn join2<T1, T2>(
        &self,
        f1: impl Future<Output = T1>,
        f2: impl Future<Output = T2>,
    ) -> (T1, T2) {
        let (mut f1, mut f2) = (pin!(f1), pin!(f2));
        let (mut t1, mut t2) = (None, None);
        poll_fn(|cx| {
            step(&mut t1, f1.as_mut(), cx);
            step(&mut t2, f2.as_mut(), cx);
            match (t1.take(), t2.take()) {
                (Some(a), Some(b)) => Poll::Ready((a, b)),
                (a, b) => {
                    (t1, t2) = (a, b);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for all three.
    pub async fn join3<T1, T2, T3>(
        &self,
        f1: impl Future<Output = T1>,
        f2: impl Future<Output = T2>,
        f3: impl Future<Output = T3>,
    ) -> (T1, T2, T3) {
        let ((a, b), c) = self.join2(self.join2(f1, f2), f3).await;
        (a, b, c)
    }

    /// Waits for the first of two; a tie goes to the first argument. The other one is dropped, and so cancelled.
    ///
    /// ```
    /// use duroxide::{Either2, OrchestrationContext};
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let work = ctx.schedule_activity("slow", input);
    ///     let limit = ctx.schedule_timer(Duration::from_secs(30));
    ///     match ctx.select2(work, limit).await {
    ///         Either2::First(result) => result,
    ///         Either2::Second(()) => Err("too slow".to_owned()),
    ///     }
    /// }
    /// ```
    pub async fn select2<T1, T2>(
        &self,
        f1: impl Future<Output = T1>,
        f2: impl Future<Output = T2>,
    ) -> Either2<T1, T2> {
        let (mut f1, mut f2) = (pin!(f1), pin!(f2));
        poll_fn(|cx| {
            if let Poll::Ready(value) = f1.as_mut().poll(cx) {
                return Poll::Ready(Either2::First(value));
            }
            f2.as_mut().poll(cx).map(Either2::Second)
        })
        .await
    }

    /// Waits for the first of three; a tie goes to the lowest argument. The others are dropped, and so cancelled.
    pub async fn select3<T1, T2, T3>(
        &self,
        f1: impl Future<Output = T1>,
        f2: impl Future<Output = T2>,
        f3: impl Future<Output = T3>,
    ) -> Either3<T1, T2, T3> {
        let (mut f1, mut f2, mut f3) = (pin!(f1), pin!(f2), pin!(f3));
        poll_fn(|cx| {
            if let Poll::Ready(value) = f1.as_mut().poll(cx) {
                return Poll::Ready(Either3::First(value));
            }
            if let Poll::Ready(value) = f2.as_mut().poll(cx) {
                return Poll::Ready(Either3::Second(value));
            }
            f3.as_mut().poll(cx).map(Either3::Third)
        })
        .await
    }

    /// Waits for the first of many, with its position; a tie goes to the lowest. The others are dropped, and so
    /// cancelled. With no futures it never resolves.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let mirrors = ["north", "south"];
    ///     let calls = mirrors.map(|mirror| ctx.schedule_activity("fetch", format!("{mirror}/{input}")));
    ///     let (first, result) = ctx.select(calls.into()).await;
    ///     Ok(format!("{} answered {}", mirrors[first], result?))
    /// }
    /// ```
    pub async fn select<T, F: Future<Output = T>>(&self, futures: Vec<F>) -> (usize, T) {
        let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
        poll_fn(|cx| {
            for (place, future) in futures.iter_mut().enumerate() {
                if let Poll::Ready(value) = future.as_mut().poll(cx) {
                    return Poll::Ready((place, value));
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn step<T>(done: &mut Option<T>, future: Pin<&mut impl Future<Output = T>>, cx: &mut Context<'_>) {
    if done.is_none()
        && let Poll::Ready(value) = future.poll(cx)
    {
        *done = Some(value);
    }
}
