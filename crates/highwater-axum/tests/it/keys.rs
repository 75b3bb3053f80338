//! Keys in a file that several processes share.

use highwater_axum::{KeyError, SigningKeys};
use std::fs;

#[test]
fn the_file_is_made_once_for_its_owner_alone_and_shared_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.txt");
    let all: Vec<SigningKeys> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| SigningKeys::in_file(&path).unwrap())).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    let signature = all[0].sign("test", b"message");
    assert!(all.iter().all(|keys| keys.verifies("test", b"message", &signature)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SigningKeys::in_file(&path), Err(KeyError::Exposed { .. })));
    }
}

#[test]
fn an_older_key_verifies_until_it_is_removed_and_only_the_first_signs() {
    let line = |byte: &str| byte.repeat(43);
    let (old, new) = (line("A"), line("E"));
    let before = SigningKeys::parse(&old).unwrap();
    let during = SigningKeys::parse(&format!("# rotated\n{new}\n\n{old}\n")).unwrap();
    let after = SigningKeys::parse(&new).unwrap();
    let signature = before.sign("test", b"m");
    assert!(during.verifies("test", b"m", &signature) && !after.verifies("test", b"m", &signature));
    let signature = during.sign("test", b"m");
    assert!(after.verifies("test", b"m", &signature) && !before.verifies("test", b"m", &signature));
}

#[test]
fn what_is_no_key_is_refused_with_its_line_and_never_shown() {
    for (text, wrong) in
        [("", 1), ("# nothing\n", 1), ("\nabc", 2), (&*"A".repeat(42), 1), (&"AAAA\n".repeat(2), 1)]
    {
        assert!(
            matches!(SigningKeys::parse(text), Err(KeyError::Invalid { line }) if line == wrong),
            "{text}"
        );
    }
    let many = format!("{}\n", "A".repeat(43)).repeat(9);
    assert!(matches!(SigningKeys::parse(&many), Err(KeyError::Invalid { line: 9 })));
    let keys = SigningKeys::parse(&"A".repeat(43)).unwrap();
    assert_eq!(format!("{keys:?}"), "1 signing keys");
    assert!(!keys.verifies("test", b"m", "") && !keys.verifies("test", b"m", "ä"));
}

/// Computed with Python's `hmac`, over the purpose's length in 8 bytes, the purpose and the message.
#[test]
fn a_signature_is_the_hmac_of_purpose_and_message() {
    let keys = SigningKeys::parse(&"A".repeat(43)).unwrap();
    assert_eq!(keys.sign("test", b"message"), "ADZf0PF1H3m0bHFY_jp_ATrxrGxUsTjljvgUM-i3Ks4");
}
