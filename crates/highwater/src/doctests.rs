//! Compiles and runs the Rust blocks of the pages in `docs/`; in no build but that of the doc tests.

#[doc = include_str!("../../../docs/tutorial.md")]
pub struct Tutorial;

/// The tutorial shows its program piece by piece, then whole. The pieces that later steps are compiled with are
/// the ones it shows, and the whole program is made of them.
///
/// ```
/// let page = include_str!("../../../docs/tutorial.md");
/// let (steps, whole) = page.split_once("## The whole program").unwrap();
/// for piece in [
///     include_str!("../../../docs/tutorial/book.rs"),
///     include_str!("../../../docs/tutorial/loans.rs"),
///     include_str!("../../../docs/tutorial/slips.rs"),
/// ] {
///     assert!(steps.contains(piece));
///     let (_imports, items) = piece.split_once("\n\n").unwrap();
///     assert!(whole.contains(items));
/// }
/// let tests = steps.split("test]\n").skip(1).filter_map(|test| test.split_once("\n    }\n"));
/// assert_eq!(tests.inspect(|(test, _)| assert!(whole.contains(test), "{test}")).count(), 3);
/// ```
pub struct TutorialIsOneProgram;

#[doc = include_str!("../../../docs/how-to/test-an-aggregate-and-a-view.md")]
pub struct TestAnAggregateAndAView;

#[doc = include_str!("../../../docs/how-to/handle-poison-messages.md")]
pub struct HandlePoisonMessages;

#[doc = include_str!("../../../docs/how-to/change-a-schema.md")]
pub struct ChangeASchema;

#[doc = include_str!("../../../docs/how-to/find-out-why-nothing-happens.md")]
pub struct FindOutWhyNothingHappens;

#[doc = include_str!("../../../docs/how-to/write-a-processor.md")]
pub struct WriteAProcessor;

#[doc = include_str!("../../../docs/how-to/run-roles-as-separate-processes.md")]
pub struct RunRolesAsSeparateProcesses;

#[doc = include_str!("../../../docs/how-to/write-idempotent-effects.md")]
pub struct WriteIdempotentEffects;

#[doc = include_str!("../../../docs/how-to/keep-a-value-unique.md")]
pub struct KeepAValueUnique;

#[doc = include_str!("../../../docs/how-to/run-commands-on-a-schedule.md")]
pub struct RunCommandsOnASchedule;

#[doc = include_str!("../../../docs/how-to/delete-softly.md")]
pub struct DeleteSoftly;

#[doc = include_str!("../../../docs/explanation/consistency-tokens.md")]
pub struct ConsistencyTokens;

/// The tests and rules that the page on guarantees names exist.
///
/// ```
/// use std::{fs, path::Path};
///
/// fn sources(folder: &Path, text: &mut String) {
///     for entry in fs::read_dir(folder).unwrap() {
///         let path = entry.unwrap().path();
///         if path.is_dir() {
///             sources(&path, text);
///         } else if path.extension().is_some_and(|extension| extension == "rs") {
///             text.push_str(&fs::read_to_string(path).unwrap());
///         }
///     }
/// }
///
/// let mut code = String::new();
/// for folder in ["..", "../../apps"] {
///     sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut code);
/// }
/// let page = include_str!("../../../docs/explanation/guarantees.md");
/// let names = page.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2);
/// let mut seen = 0;
/// for name in names {
///     let (a_test, a_rule) = (format!("fn {name}("), format!("{name} ["));
///     assert!(code.contains(&a_test) || code.contains(&a_rule), "{name} does not exist");
///     seen += 1;
/// }
/// assert!(seen > 30, "only {seen} names were found");
/// ```
pub struct GuaranteesNameTests;
