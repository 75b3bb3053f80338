//! The style sheet's colours can be told apart by people who see little contrast (WCAG 2.2, 1.4.3 and 1.4.11, AA).

use std::collections::BTreeMap;

const SHEET: &str = include_str!("../../assets/booking.css");

/// Text and what it stands on: 4.5 to 1.
const TEXT: [(&str, &str); 14] = [
    ("ink", "paper"),
    ("ink", "raised"),
    ("ink", "tint"),
    ("ink", "notice"),
    ("ink", "line"),
    ("soft", "paper"),
    ("soft", "raised"),
    ("accent", "paper"),
    ("accent", "raised"),
    ("accent", "tint"),
    ("accent", "notice"),
    ("on-accent", "accent"),
    ("fault", "paper"),
    ("fault", "raised"),
];

/// The edges of what can be used, the focus, and what they stand on: 3 to 1.
const EDGES: [(&str, &str); 7] = [
    ("edge", "paper"),
    ("edge", "raised"),
    ("accent", "paper"),
    ("accent", "raised"),
    ("accent", "tint"),
    ("fault", "paper"),
    ("fault", "raised"),
];

type Colours = BTreeMap<&'static str, [u8; 3]>;

/// The custom properties of the first and of the second `:root`: light and dark.
fn themes() -> (Colours, Colours) {
    let mut blocks = SHEET.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap());
    let colours = |block: &'static str| block.lines().filter_map(colour).collect::<Colours>();
    let (light, dark) = (colours(blocks.next().unwrap()), colours(blocks.next().unwrap()));
    assert!(SHEET.split("@media (prefers-color-scheme: dark)").nth(1).unwrap().contains(":root {"));
    (light, dark)
}

/// `--ink: #1c2426;`
fn colour(line: &'static str) -> Option<(&'static str, [u8; 3])> {
    let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
    let value = u32::from_str_radix(value.strip_suffix(';')?, 16).unwrap();
    let [_, red, green, blue] = value.to_be_bytes();
    Some((name, [red, green, blue]))
}

/// <https://www.w3.org/TR/WCAG22/#dfn-relative-luminance>
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// <https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio>
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_and_edges_stand_out_in_light_and_in_dark() {
    assert_eq!(contrast([0; 3], [255; 3]).round(), 21.0);
    assert!((contrast([0x77; 3], [255; 3]) - 4.48).abs() < 0.01, "the usual example of what just fails");
    let (light, dark) = themes();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>(), "both themes name all");
    let mut faults = Vec::new();
    for (theme, colours) in [("light", light), ("dark", dark)] {
        for (pairs, least) in [(&TEXT[..], 4.5), (&EDGES[..], 3.0)] {
            for (front, back) in pairs {
                let ratio = contrast(colours[front], colours[back]);
                if ratio < least {
                    faults.push(format!("{theme}: {front} on {back} is {ratio:.2}, needs {least}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_colour_in_use_is_a_custom_property() {
    let rules = SHEET.split(":root {").last().unwrap();
    let rules = rules.split_once('}').unwrap().1;
    assert!(!rules.contains('#') && !rules.contains("rgb"), "the contrast of the others is not known");
    for used in rules.split("var(--").skip(1) {
        let name = used.split(')').next().unwrap();
        assert!(themes().0.contains_key(name), "--{name} is not defined");
    }
}
