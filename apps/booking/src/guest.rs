//! Which names and addresses can be written to.

use lettre::Address;

/// The longest name, in characters.
pub const NAME_CHARS: usize = 100;

/// The longest e-mail address, in bytes: what fits into a path of SMTP (RFC 5321, 4.5.3.1.3).
pub const EMAIL_BYTES: usize = 254;

/// Checks a name, already without space around it.
///
/// # Errors
/// What is wrong with it, as a sentence for its owner.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("Please give a name.".into());
    }
    if name.chars().all(is_invisible) {
        return Err("Please give a name that can be seen.".into());
    }
    if name.chars().count() > NAME_CHARS {
        return Err(format!("A name can have {NAME_CHARS} characters at most."));
    }
    if name.chars().any(breaks_a_line) {
        return Err("A name cannot contain line breaks or control characters.".into());
    }
    Ok(())
}

/// Checks an e-mail address, already without space around it.
///
/// # Errors
/// What is wrong with it, as a sentence for its owner.
pub fn check_email(email: &str) -> Result<(), String> {
    if email.is_empty() {
        return Err("Please give an e-mail address: the answer comes by mail.".into());
    }
    if email.len() > EMAIL_BYTES {
        return Err(format!("An e-mail address can have {EMAIL_BYTES} bytes at most."));
    }
    if email.chars().any(breaks_a_line) {
        return Err("An e-mail address cannot contain line breaks or control characters.".into());
    }
    if !email.is_ascii() {
        return Err("This restaurant can only write to e-mail addresses of plain letters (ASCII).".into());
    }
    if email.parse::<Address>().is_err() {
        return Err("This is not an e-mail address; it should look like ada@example.org.".into());
    }
    Ok(())
}

/// Space, and the characters that only steer how others are shown (zero width, direction, byte order mark).
fn is_invisible(c: char) -> bool {
    let steers = matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
    );
    steers || (c.is_whitespace() && !breaks_a_line(c))
}

fn breaks_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_script_are_fine_but_not_empty_long_or_broken_ones() {
        for name in ["Ada", "Robert'); DROP TABLE days;--", "<b>", "李小龍", "🦀 & Söhne", &"é".repeat(100)]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "\u{200b}",
            "\u{feff} ",
            "a\n",
            "\na",
            "a\nb",
            "a\r\nBcc: b",
            "\u{0}",
            "\u{7f}",
            "a\u{2028}b",
            &"é".repeat(101),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn only_what_can_be_written_to_is_an_address() {
        for email in ["ada@example.org", "a.b+c@sub.example.org", "\"odd one\"@example.org"] {
            assert_eq!(check_email(email), Ok(()), "{email}");
        }
        let long = format!("{}@example.org", "a".repeat(250));
        for email in [
            "",
            "a\u{a0}@b.ch",
            "\u{202e}a@b.ch",
            "ada",
            "@example.org",
            "ada@",
            "a@b@c",
            "a b@example.org",
            "a@b\nBcc: c@d",
            "a\r@b.c",
            "a@b.c\n",
            &long,
        ] {
            assert!(check_email(email).is_err(), "{email:?}");
        }
    }
}
