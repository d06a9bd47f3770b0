//! Limits of every name among the options. In: options. Out: the first that a store cannot keep.

use duroxide_core::limits::{MAX_INSTANCE_ID_BYTES, MAX_TAG_NAME_BYTES, MAX_WORKER_TAGS};
use duroxide_core::provider::TagFilter;

use super::{InvalidOptions, RuntimeOptions, refuse};

/// The name of the node and its tags can be kept by every store.
pub(super) fn check(options: &RuntimeOptions) -> Result<(), InvalidOptions> {
    if let Some(node) = &options.worker_node_id {
        check_name("worker_node_id", node, MAX_INSTANCE_ID_BYTES)?;
    }
    let (TagFilter::Tags(tags) | TagFilter::DefaultAnd(tags)) = &options.worker_tag_filter else {
        return Ok(());
    };
    if tags.is_empty() || tags.len() > MAX_WORKER_TAGS {
        return refuse(format!(
            "worker_tag_filter needs 1 to {MAX_WORKER_TAGS} tags, got {}",
            tags.len()
        ));
    }
    tags.iter()
        .try_for_each(|tag| check_name("a tag of worker_tag_filter", tag, MAX_TAG_NAME_BYTES))
}

fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<(), InvalidOptions> {
    if name.is_empty() {
        return refuse(format!("{what} must not be empty"));
    }
    if name.len() > bytes_max {
        return refuse(format!(
            "{what} must have at most {bytes_max} bytes, got {}",
            name.len()
        ));
    }
    if name.contains('\0') {
        return refuse(format!(
            "{what} `{}` has a zero byte, which PostgreSQL keeps in no text",
            name.escape_debug()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut RuntimeOptions)) -> String {
        let mut options = RuntimeOptions::default();
        change(&mut options);
        options.validate().unwrap_err().to_string()
    }

    #[test]
    fn names_that_no_store_keeps_are_refused() {
        let node = |name: &str| refusal(|options| options.worker_node_id = Some(name.to_owned()));
        assert!(node("").contains("must not be empty"), "{}", node(""));
        assert!(node("a\0b").contains("zero byte"), "{}", node("a\0b"));
        let long = node(&"n".repeat(MAX_INSTANCE_ID_BYTES + 1));
        assert!(long.contains("at most 1024 bytes"), "{long}");
        let tag = |name: &str| {
            refusal(|options| options.worker_tag_filter = TagFilter::Tags([name.into()].into()))
        };
        assert!(tag("").contains("must not be empty"), "{}", tag(""));
        let long = tag(&"t".repeat(MAX_TAG_NAME_BYTES + 1));
        assert!(long.contains("at most 256 bytes"), "{long}");
    }
}
