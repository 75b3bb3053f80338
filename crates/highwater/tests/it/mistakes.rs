/// What the compiler says about typical mistakes is part of the product.
#[test]
fn typical_mistakes_get_readable_compile_errors() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile/*.rs");
}
