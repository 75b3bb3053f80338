use crate::program::{Demo, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_running_demo_is_backed_up_checked_and_restored_after_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let store = format!("sqlite:{}", data.join("booking.db").display());
    let copy = folder.path().join("booking.backup").display().to_string();
    let demo = Demo::start(&data, &[]);
    let made = run(&["backup", "--store", &store, "--to", &copy]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let again = run(&["backup", "--store", &store, "--to", &copy]);
    assert_eq!((again.status.code(), text(&again.stderr).contains("exists already")), (Some(1), true));
    let checked = run(&["backup", "--verify", &copy]);
    assert!(checked.status.success() && text(&checked.stdout).contains("is whole"), "{checked:?}");
    let in_use = run(&["restore", "--from", &copy, "--to", &store, "--replace"]);
    assert_eq!(
        (in_use.status.code(), text(&in_use.stderr).contains("open in another program")),
        (Some(1), true)
    );
    assert!(demo.stop("-TERM").0.success());
    let in_the_way = run(&["restore", "--from", &copy, "--to", &store]);
    assert_eq!((in_the_way.status.code(), text(&in_the_way.stderr).contains("--replace")), (Some(1), true));
    let restored = run(&["restore", "--from", &copy, "--to", &store, "--replace"]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(text(&restored.stdout).contains("restored into epoch"), "{restored:?}");
    let demo = Demo::start(&data, &[]);
    assert!(demo.get("/booking/").starts_with("HTTP/1.1 200"));
    assert!(demo.stop("-TERM").0.success());
}

#[test]
fn wrong_usage_of_a_backup_is_told() {
    for arguments in
        [&["backup"][..], &["backup", "--store", "booking.db", "--to", "x"], &["restore", "--from", "x"]]
    {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
