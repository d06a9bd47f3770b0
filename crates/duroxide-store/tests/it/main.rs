//! Tests of the generic store, its implementations and the adapter.

mod adapter;
