//! Calls that a replay cannot repeat. In: the body of an orchestration. Out: an error at each path to such a function,
//! also inside macros, with what to use instead. Reads the body alone: what a function does that it calls is not known
//! here.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Error, Expr, ExprCall, ExprMethodCall, ExprPath, Item, Lit, LitStr, Macro, Path, Token,
};

/// The last names of a path, and what to use instead. `*` stands for any name.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["SystemTime", "now"], NOW),
    (&["Instant", "now"], NOW),
    (&["Utc", "now"], NOW),
    (&["Local", "now"], NOW),
    (&["Zoned", "now"], NOW),
    (&["Timestamp", "now"], NOW),
    (&["OffsetDateTime", "now_utc"], NOW),
    (&["OffsetDateTime", "now_local"], NOW),
    (&["Uuid", "new_v4"], ID),
    (&["Uuid", "now_v6"], ID),
    (&["Uuid", "now_v7"], ID),
    (&["rand", "random"], CHANCE),
    (&["rand", "rng"], CHANCE),
    (&["rand", "thread_rng"], CHANCE),
    (&["thread_rng"], CHANCE),
    (&["fastrand", "*"], CHANCE),
    (&["getrandom", "*"], CHANCE),
    (&["tokio", "spawn"], TASK),
    (&["task", "spawn"], TASK),
    (&["task", "spawn_blocking"], TASK),
    (&["task", "spawn_local"], TASK),
    (&["thread", "spawn"], TASK),
    (&["rayon", "spawn"], TASK),
    (&["thread", "sleep"], SLEEP),
    (&["time", "sleep"], SLEEP),
    (&["time", "sleep_until"], SLEEP),
    (&["time", "interval"], SLEEP),
    (&["time", "timeout"], LIMIT),
    (&["time", "timeout_at"], LIMIT),
    (&["env", "var"], WORLD),
    (&["env", "vars"], WORLD),
    (&["env", "var_os"], WORLD),
    (&["env", "args"], WORLD),
    (&["fs", "*"], WORLD),
    (&["File", "open"], WORLD),
    (&["File", "create"], WORLD),
    (&["TcpStream", "connect"], WORLD),
    (&["reqwest", "get"], WORLD),
];

const NOW: &str = "reads a clock, which tells another time in every replay: use `ctx.now()`";
const ID: &str = "makes another id in every replay: use `ctx.uuid()`";
const CHANCE: &str =
    "draws another number in every replay: use `ctx.random()` or `ctx.random_below(n)`";
const TASK: &str = "runs beside the orchestration, where nothing is recorded: use `ctx.call(…)` with an activity, or `ctx.spawn(…)`";
const SLEEP: &str = "waits for something that is not recorded: use `ctx.sleep(…)`";
const LIMIT: &str = "measures time that is not recorded: use `ctx.timeout(limit, …)`";
const WORLD: &str = "looks at the world, which may have changed by the next replay: use an activity, or `ctx.run(\"name\", || async { … })`";

/// What is wrong with the body of an orchestration whose context has this name.
pub(crate) fn complaints(
    block: &Block,
    context: Option<&Ident>,
    unchecked: &[LitStr],
) -> Option<Error> {
    let mut found = Found {
        errors: None,
        context: context.map(Ident::to_string),
        unchecked: unchecked.iter().map(plain_path).collect(),
    };
    found.visit_block_mut(&mut block.clone());
    found.errors
}

/// A path as it is compared: without spaces, and without a leading `::`.
fn plain_path(text: &LitStr) -> String {
    let text: String = text.value().split_whitespace().collect();
    text.trim_start_matches("::").to_owned()
}

struct Found {
    errors: Option<Error>,
    /// The name of the context.
    context: Option<String>,
    /// Paths that the author answers for.
    unchecked: Vec<String>,
}

impl Found {
    /// Complains of a path if it is in the table and the author does not answer for it.
    fn check(&mut self, names: &[String], span: Span) {
        if let Some(why) = forbidden(names)
            && !self.is_unchecked(names)
        {
            self.add(&names.join("::"), span, why);
        }
    }

    fn is_unchecked(&self, names: &[String]) -> bool {
        let path = names.join("::");
        self.unchecked.iter().any(|end| {
            let rest = path.strip_suffix(end.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
        })
    }

    fn add(&mut self, shown: &str, span: Span, why: &str) {
        let error = Error::new(span, format!("`{shown}` {why}"));
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Whether this is `ctx.run(…)`: what it is given runs once and is recorded, so it may do what the orchestration
    /// may not.
    fn is_run(&self, call: &ExprMethodCall) -> bool {
        if call.method != "run" || !matches!(call.args.last(), Some(Expr::Closure(_))) {
            return false;
        }
        let is_named = matches!(
            call.args.first(),
            Some(Expr::Lit(first)) if matches!(first.lit, Lit::Str(_))
        );
        // A clone of the context may have any name; then the name of the effect tells.
        is_named || (self.context.is_some() && root_of(&call.receiver) == self.context)
    }

    /// Looks through the tokens of a macro that are no list of expressions, for paths.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<(String, Span)> = Vec::new();
        // How many colons came after the last name, and whether `.` came before it.
        let (mut colons, mut dot, mut after_run) = (0, false, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.check_scanned(&path);
                        path.clear();
                    }
                    after_run = dot && name == "run";
                    path.push((name.to_string(), name.span()));
                    (colons, dot) = (0, false);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.check_scanned(&path);
                    path.clear();
                    dot = matches!(&other, TokenTree::Punct(mark) if mark.as_char() == '.');
                    if let TokenTree::Group(group) = other
                        && !after_run
                    {
                        self.scan(group.stream());
                    }
                    (colons, after_run) = (0, false);
                }
            }
        }
        self.check_scanned(&path);
    }

    fn check_scanned(&mut self, path: &[(String, Span)]) {
        if let [(_, span), _, ..] = path {
            let names: Vec<String> = path.iter().map(|(name, _)| name.clone()).collect();
            self.check(&names, *span);
        }
    }
}

impl VisitMut for Found {
    // Not only calls: `unwrap_or_else(Uuid::new_v4)` is one too.
    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        let names = names(&path.path);
        // A name alone may be a variable.
        if names.len() > 1 {
            self.check(&names, path.path.span());
        }
        visit_mut::visit_expr_path_mut(self, path);
    }

    fn visit_expr_call_mut(&mut self, call: &mut ExprCall) {
        if let Expr::Path(function) = &*call.func
            && function.path.segments.len() == 1
        {
            self.check(&names(&function.path), function.path.span());
        }
        visit_mut::visit_expr_call_mut(self, call);
    }

    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        if self.is_run(call) {
            self.visit_expr_mut(&mut call.receiver);
            return;
        }
        visit_mut::visit_expr_method_call_mut(self, call);
    }

    // A function or type in the body is not run by the replay; it may be an activity.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_macro_mut(&mut self, call: &mut Macro) {
        let names = names(&call.path);
        let ends = |end: [&str; 2]| names.ends_with(&end.map(str::to_owned));
        let biased = call.tokens.to_string().starts_with("biased");
        if (ends(["tokio", "select"]) || ends(["futures", "select"])) && !biased {
            self.add(
                &names.join("::"),
                call.path.span(),
                "looks at its branches in another order each time: use `duroxide::select!`",
            );
        }
        let list = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        match list {
            Ok(mut list) => {
                for expression in &mut list {
                    self.visit_expr_mut(expression);
                }
            }
            Err(_) => self.scan(call.tokens.clone()),
        }
    }
}

/// The name that a chain of calls begins with.
fn root_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Path(path) => path.path.get_ident().map(Ident::to_string),
        Expr::MethodCall(call) => root_of(&call.receiver),
        Expr::Reference(inner) => root_of(&inner.expr),
        Expr::Paren(inner) => root_of(&inner.expr),
        _ => None,
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = path.segments.iter().map(|s| s.ident.to_string());
    names.collect()
}

fn forbidden(names: &[String]) -> Option<&'static str> {
    // The program's own modules may be called `fs` or `time` too.
    let is_own = |name: &String| matches!(name.as_str(), "crate" | "self" | "super" | "Self");
    if names.first().is_some_and(is_own) {
        return None;
    }
    FORBIDDEN
        .iter()
        .find(|(end, _)| {
            let Some(start) = names.len().checked_sub(end.len()) else {
                return false;
            };
            let mut pairs = names[start..].iter().zip(end.iter());
            pairs.all(|(name, wanted)| *wanted == "*" || name == wanted)
        })
        .map(|(_, why)| *why)
}
