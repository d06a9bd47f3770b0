//! Licence expressions. In: an SPDX expression and the licences that are allowed. Out: whether one may use what carries
//! it.

/// Whether an expression can be satisfied with allowed licences alone. What cannot be read is not allowed.
pub(crate) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // Old manifests separate alternatives by a slash.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = Words {
        left: spaced.split_whitespace().collect(),
        allowed,
    };
    let answer = words.alternatives();
    answer == Some(true) && words.left.is_empty()
}

/// What is still to be read. `None` is an expression that ends too early.
struct Words<'a> {
    left: Vec<&'a str>,
    allowed: &'a [String],
}

impl<'a> Words<'a> {
    fn alternatives(&mut self) -> Option<bool> {
        let mut answer = self.together()?;
        while self.take("OR") {
            answer |= self.together()?;
        }
        Some(answer)
    }

    fn together(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let answer = self.alternatives()?;
            return self.take(")").then_some(answer);
        }
        let mut licence = self.next()?.to_owned();
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.next()?);
        }
        Some(self.allowed.contains(&licence))
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.left.first() == Some(&word);
        if there {
            self.next();
        }
        there
    }

    fn next(&mut self) -> Option<&'a str> {
        (!self.left.is_empty()).then(|| self.left.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(expression: &str) -> bool {
        let list = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        is_allowed(expression, &list.map(str::to_owned))
    }

    #[test]
    fn one_allowed_alternative_is_enough() {
        assert!(allowed("MIT") && allowed("GPL-3.0 OR MIT") && allowed("Unlicense/MIT"));
        assert!(!allowed("GPL-3.0") && !allowed("GPL-3.0 OR AGPL-3.0"));
    }

    #[test]
    fn all_of_what_belongs_together_must_be_allowed() {
        assert!(allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND GPL-3.0") && !allowed("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(
            allowed("Apache-2.0 WITH LLVM-exception OR GPL-3.0") && !allowed("MIT WITH something")
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        assert!(!allowed("") && !allowed("MIT MIT") && !allowed("(MIT") && !allowed("MIT OR"));
    }
}
