//! Quotes values in the shell commands that messages and pages suggest.
//!
//! Names of files and values of grains can contain anything. A command that is pasted must take
//! them as values, and run nothing of them.

/// Returns `text` as one word of a POSIX shell, in apostrophes.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_whatever_it_contains() {
        for (text, word) in [
            ("ada", "'ada'"),
            ("", "''"),
            ("a b\nc", "'a b\nc'"),
            ("$(id) `id` \"!\\", "'$(id) `id` \"!\\'"),
            ("x'; rm -rf ~; '", r"'x'\''; rm -rf ~; '\'''"),
        ] {
            assert_eq!(shell_quoted(text), word);
        }
    }
}
