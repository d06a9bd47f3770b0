//! Calls that a replay cannot repeat. In: the body of an orchestration. Out: an error at each such call, with what to use
//! instead. Reads the body alone: what a function does that it calls is not known here.

use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Error, Expr, ExprCall, ExprMethodCall, Macro, Path};

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

pub(crate) fn complaints(block: &Block) -> Option<Error> {
    let mut found = Found(None);
    found.visit_block_mut(&mut block.clone());
    found.0
}

struct Found(Option<Error>);

impl Found {
    fn add(&mut self, path: &Path, why: &str) {
        let names: Vec<String> = names(path);
        let shown = names.join("::");
        let error = Error::new(path.span(), format!("`{shown}` {why}"));
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }
}

impl VisitMut for Found {
    fn visit_expr_call_mut(&mut self, call: &mut ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(why) = forbidden(&names(&function.path))
        {
            self.add(&function.path, why);
        }
        visit_mut::visit_expr_call_mut(self, call);
    }

    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        // What `ctx.run` is given runs once and is recorded: it may do what the orchestration may not.
        if call.method == "run" && matches!(call.args.last(), Some(Expr::Closure(_))) {
            self.visit_expr_mut(&mut call.receiver);
            return;
        }
        visit_mut::visit_expr_method_call_mut(self, call);
    }

    fn visit_macro_mut(&mut self, call: &mut Macro) {
        let names = names(&call.path);
        let ends = |end: [&str; 2]| names.ends_with(&end.map(str::to_owned));
        let biased = call.tokens.to_string().starts_with("biased");
        if (ends(["tokio", "select"]) || ends(["futures", "select"])) && !biased {
            self.add(
                &call.path,
                "looks at its branches in another order each time: use `duroxide::select!`",
            );
        }
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = path.segments.iter().map(|s| s.ident.to_string());
    names.collect()
}

fn forbidden(names: &[String]) -> Option<&'static str> {
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
