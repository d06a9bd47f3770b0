//! The example runs and says what it should.

use std::path::Path;
use std::process::Command;

#[test]
fn the_bank_account_example_says_what_it_should() {
    // Cargo builds the examples with the tests, beside them.
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let run = Command::new(built.join("examples/bank_account"))
        .output()
        .unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let expected = "\
Deposited(5): refused, the account is not open
Opened: balance 0
Deposited(100): balance 100
Withdrawn(30): balance 70
Withdrawn(500): refused, there is only 70
Opened: refused, the account is open already
two at once: true
to anna: 100 came in (attempt 1)
to anna: 30 went out (attempt 1)
to anna: 1 came in (attempt 1)
to anna: 2 came in (attempt 1)
... the lost courier's lease runs out
to anna: welcome (attempt 2)
5 events, balance 73
";
    assert_eq!(said, expected);
}
