//! Amounts of memory and storage on the command line.

/// An amount of memory or storage in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match text[digits.len()..]
            .to_ascii_uppercase()
            .trim_end_matches("IB")
            .trim_end_matches('B')
        {
            "" => 1,
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            "T" => 1_u64 << 40,
            other => return Err(format!("unknown unit `{other}`; use K, M, G or T")),
        };
        let number: f64 = digits
            .parse()
            .map_err(|_| format!("invalid size `{text}`; use a form such as 512M or 2G"))?;
        Ok(Size((number * unit as f64) as u64))
    }
}

/// A memory limit in bytes, at least [`MINIMUM_MEMORY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub usize);

/// Least memory that a command can run in, in bytes: 128 MiB.
pub const MINIMUM_MEMORY: usize = 128 << 20;

impl std::str::FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let Size(bytes) = text.parse()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes < MINIMUM_MEMORY {
            let minimum = MINIMUM_MEMORY >> 20;
            return Err(format!(
                "{text} is too little memory; the minimum is {minimum}M"
            ));
        }
        Ok(MemoryLimit(bytes))
    }
}
