//! What a user reads who writes something else. Every program in `ui` must fail with exactly the words beside it.
//! `TRYBUILD=overwrite cargo test -p duroxide-macros --test ui` writes them anew.

#[test]
fn mistakes_are_explained_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
