//! What keeps the command from running is one line, and the exit code says whose fault it was.

use crate::program::{Demo, run};
use std::fs;
use std::net::TcpListener;

/// Runs a demo that cannot start; returns its exit code and the one line it must write.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = run(&[&["demo"], arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let [line] = lines[..] else { panic!("one line is wanted: {said}") };
    assert!(output.stdout.is_empty(), "nothing ran");
    (output.status.code().unwrap(), line.to_owned())
}

#[test]
fn a_port_in_use_is_named() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, line) = refused(&["--listen", &address, "--data", data.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(
        line.starts_with(&format!("error: cannot listen on {address}: ")) && line.contains("--listen"),
        "{line}"
    );
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0, "and nothing was touched");
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let (below, odd) = (file.join("data"), folder.path().join("what?"));
    for (data, why) in [
        (&below, ""),
        (&file, ": it is a file, a folder is needed;"),
        (&odd, ": its name has a question mark;"),
    ] {
        let (code, line) = refused(&["--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
        assert_eq!(code, 1);
        assert!(line.starts_with("error: cannot use the data folder") && line.contains("--data"), "{line}");
        assert!(line.contains(why), "{line}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_damaged_store_and_a_file_of_another_program_are_named() {
    for content in
        [&b"this is no database, but it is long enough to be taken for a page of one"[..], &[0x53; 5_000]]
    {
        let data = tempfile::tempdir().unwrap();
        let store = data.path().join("booking.db");
        fs::write(&store, content).unwrap();
        let (code, line) = refused(&["--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
        assert_eq!(code, 1);
        assert!(line.contains("booking.db is damaged"), "{line}");
        assert_eq!(fs::read(&store).unwrap(), content, "and left as it is");
    }
    // A view store where the store should be.
    let data = tempfile::tempdir().unwrap();
    drop(Demo::start(data.path(), &[]).stop("-TERM"));
    fs::rename(data.path().join("booking.views.db"), data.path().join("booking.db")).unwrap();
    let (code, line) = refused(&["--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(line.contains("is not a Highwater store"), "{line}");
}

#[test]
fn other_interfaces_than_loopback_are_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7300", "[::ffff:192.0.2.1]:7300"] {
        let (code, line) = refused(&["--listen", address]);
        assert_eq!(code, 1);
        assert!(line.starts_with("error: refusing to listen on "), "{line}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [
        &["demo", "--role", "king"][..],
        &["demo", "--listen", "nowhere"],
        &["demo", "--role", "worker", "--listen", "7300"],
        &["demo", "--allow-host", "http://example.org"],
        &["demo", "--seats", "0"],
        &["demo", "--seats", "201"],
        &["demo", "--zone", "Europe/Atlantis"],
        &["demo", "--what"],
        &["dance"],
        &[],
    ] {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    for arguments in [&["--help"][..], &["--version"], &["demo", "--help"]] {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?}");
    }
}
