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
        let number = digits.parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && !number.is_sign_negative());
        let number = number
            .ok_or_else(|| format!("invalid size `{text}`; use a form such as 512M or 2G"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_number_and_a_unit_and_are_not_negative() {
        let bytes = |text: &str| text.parse::<Size>().map(|size| size.0).ok();
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("1.5K"), Some(1_536));
        assert_eq!(bytes("2GiB"), Some(2 << 30));
        assert_eq!(bytes("10mb"), Some(10 << 20));
        for wrong in ["", "M", "-1", "-5M", "-0", "inf", "NaN", "1e400", "1X", "é"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
