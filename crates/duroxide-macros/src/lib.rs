#![doc = include_str!("lib.md")]

mod attribute;
mod define;
mod fingerprint;
mod kind;
mod lint;
mod methods;
mod signature;

use proc_macro::TokenStream;

/// Makes an activity out of an async function.
///
/// ```
/// use duroxide::prelude::*;
///
/// #[duroxide::activity]
/// async fn greet(name: String) -> Result<String, String> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// #[duroxide::activity(name = "mail.send")]
/// async fn send(ctx: ActivityContext, mailer: State<String>, to: String, text: String) -> Result<(), String> {
///     ctx.trace_info(format!("{} sends {text} to {to}", *mailer));
///     Ok(())
/// }
/// ```
///
/// `greet` stays a function that can be called. It stands for a definition too, a type of the same name with the name
/// (that of the function, or `name`), the input, the output and the error, and goes into `ctx.call(greet, …)` and
/// `.register(greet)`.
///
/// The function may take, in any order: the `ActivityContext`; `State<T>`, which the program gives with `.state(…)`;
/// and inputs, none, one or several. It returns a `Result` of types that serde can store. If its error implements
/// `duroxide::Retryable`, retry policies ask it.
#[proc_macro_attribute]
pub fn activity(attribute: TokenStream, item: TokenStream) -> TokenStream {
    define::free(kind::Kind::Activity, attribute.into(), &item.into()).into()
}

/// Makes an orchestration out of an async function.
///
/// ```
/// use duroxide::prelude::*;
///
/// # #[duroxide::activity]
/// # async fn greet(name: String) -> Result<String, String> { Ok(name) }
/// #[duroxide::orchestration(version = "1.1.0")]
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
///     Ok(ctx.call(greet, &name).await?)
/// }
/// ```
///
/// `hello` stands for a definition, a type of the same name: it goes into `client.start(hello, …)`,
/// `ctx.child(hello, …)`, `ctx.spawn(hello, …)` and `.register(hello)`. The definition carries the name (that of the
/// function, or `name`), the version (or none: registered as 1.0.0, started as the policy says), the input, the output
/// and the error.
///
/// The function takes the `OrchestrationContext` first, then inputs, none, one or several. It returns a `Result` of
/// types that serde can store.
///
/// Calls that a replay cannot repeat do not compile in its body: clocks, randomness, tasks, threads, timers of tokio,
/// files, the environment. The error says what to use instead. The lint reads the body alone, macros in it included,
/// but neither what it calls nor the items in it; it goes by the last names of a path, unless that begins with `crate`,
/// `self` or `super`. Closures given to `ctx.run` may do all of it. `unchecked("fs::read")` leaves paths with this end
/// alone, `unchecked` turns the lint off.
///
/// The definition takes the name of the function among types and modules: `mod hello` cannot stand beside it.
#[proc_macro_attribute]
pub fn orchestration(attribute: TokenStream, item: TokenStream) -> TokenStream {
    define::free(kind::Kind::Orchestration, attribute.into(), &item.into()).into()
}

/// Makes activities and orchestrations out of methods.
///
/// ```
/// use duroxide::prelude::*;
///
/// struct Shop {
///     currency: String,
/// }
///
/// #[duroxide::handlers]
/// impl Shop {
///     #[activity]
///     async fn price(&self, cents: u64) -> Result<String, String> {
///         Ok(format!("{cents} {}", self.currency))
///     }
///
///     #[orchestration]
///     async fn offer(ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
///         Ok(ctx.call(Shop::price, &cents).await?)
///     }
/// }
///
/// let shop = Shop { currency: "EUR".to_owned() };
/// let code = Handlers::new().state(shop).register(Shop::price).register(Shop::offer);
/// assert!(code.build().is_ok());
/// ```
///
/// `Shop::price` and `Shop::offer` stand for definitions, registered as `Shop::price` and `Shop::offer` unless `name`
/// says otherwise. An activity that takes `&self` gets the value that the program gave with `.state(…)`. An
/// orchestration takes no `self`. In a unit test, `shop.price(250).await` calls the method. Methods without an
/// attribute stay what they are.
#[proc_macro_attribute]
pub fn handlers(attribute: TokenStream, item: TokenStream) -> TokenStream {
    methods::expand(attribute.into(), item.into()).into()
}
