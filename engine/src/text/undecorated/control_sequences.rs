//! Control sequences of terminals (ECMA-48), as they are and as source code and other programs
//! write them.

/// What a control sequence does, and its length in bytes. It moves the cursor if the first is true.
type Sequence = (bool, usize);

pub(super) const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// Maximal length in bytes of the parameters of a control sequence, and of a string in one, like
/// the target of a link.
const PARAMETERS: usize = 64;
const STRING: usize = 4 << 10;

/// Returns whether `bytes`, which may be any, have a control sequence that begins with a character
/// of ASCII other than a backslash.
pub(crate) fn may_have_sequences(bytes: &[u8]) -> bool {
    memchr::memchr2_iter(ESCAPE, b'[', bytes).any(|at| sequence_at(bytes, at).is_some())
}

/// Returns the control sequence at `at` of `bytes`.
pub(super) fn sequence_at(bytes: &[u8], at: usize) -> Option<Sequence> {
    let rest = bytes.get(at..)?;
    let after = |head: usize, (moves, length): Sequence| (moves, head + length);
    match rest {
        [0xc2, 0x9b, parameters @ ..] => Some(after(2, with_parameters(parameters)?)),
        // What spells the escape character is left over, apart from what follows.
        [b'[', ..] if is_after_name(bytes, at) => {
            let (_, length) = after_escape(rest, true)?;
            Some((true, length))
        }
        // The caret is left over.
        [b'[', sequence @ ..] if at > 0 && bytes.get(at - 1) == Some(&b'^') => {
            Some(after(1, after_escape(sequence, true)?))
        }
        [b'[', ..] => stripped(rest),
        _ => {
            let escape = escape_length(rest)?;
            let is_spelled = rest.first() != Some(&ESCAPE);
            Some(after(
                escape,
                after_escape(rest.get(escape..)?, is_spelled)?,
            ))
        }
    }
}

/// Returns whether the bytes before `at` are a name of the escape character in letters.
fn is_after_name(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    ["ESC", "0x1b", "0x1B"]
        .iter()
        .any(|name| before.ends_with(name.as_bytes()))
}

/// Returns the length of the escape character with which `bytes` begin, as it is or spelled.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [ESCAPE, ..] => Some(1),
        [0xe2, 0x90, 0x9b, ..] => Some(3),
        [b'\\', b'e' | b'E', ..] => Some(2),
        [b'\\', b'0', b'3', b'3', ..] => Some(4),
        [b'\\', b'3', b'3', b'[', ..] | [b'\\', b'2', b'7', b'[', ..] => Some(3),
        [b'\\', b'x' | b'X', b'1', b'b' | b'B', ..] => Some(4),
        [b'\\', b'u', b'0', b'0', b'1', b'b' | b'B', ..] => Some(6),
        _ => None,
    }
}

/// Returns the length of the bell with which `bytes` begin, as it is or spelled.
fn bell_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [BELL, ..] => Some(1),
        [b'\\', b'a', ..] | [b'^', b'G', ..] => Some(2),
        [b'\\', b'0', b'0', b'7', ..] => Some(4),
        [b'\\', b'x' | b'X', b'0', b'7', ..] => Some(4),
        [b'\\', b'u', b'0', b'0', b'0', b'7', ..] => Some(6),
        _ => None,
    }
}

/// Returns the rest of a control sequence after its escape character. Spelled escape characters
/// begin the usual sequences only.
fn after_escape(bytes: &[u8], is_spelled: bool) -> Option<Sequence> {
    let is_style = |length: usize| Some((false, length));
    match bytes {
        [b'[', parameters @ ..] => {
            let (moves, length) = with_parameters(parameters)?;
            Some((moves, 1 + length))
        }
        [b']', string @ ..] => match string_length(string) {
            Some(length) => is_style(1 + length),
            None => is_style(1).filter(|_| !is_spelled),
        },
        // A character set.
        [b'(' | b')', b'0' | b'A' | b'B', ..] => is_style(2),
        _ if is_spelled => None,
        [b'P' | b'X' | b'^' | b'_', string @ ..] => {
            is_style(1 + string_length(string).unwrap_or_default())
        }
        [b' '..=b'/', 0x30..=0x7e, ..] => is_style(2),
        // Saves or restores the cursor, or sets the mode of the keypad. Others end with a letter,
        // which may be that of a name: the byte before it may be a length.
        [b'7' | b'8' | b'=' | b'>', ..] => Some((true, 1)),
        _ => None,
    }
}

/// Returns the control sequence of the parameters with which `bytes` begin and the letter after
/// them.
fn with_parameters(bytes: &[u8]) -> Option<Sequence> {
    let of_sequence = |byte: &&u8| matches!(byte, b' '..=b'?');
    let parameters = bytes.iter().take(PARAMETERS).take_while(of_sequence);
    let length = parameters.count();
    let last = bytes
        .get(length)
        .filter(|last| matches!(last, 0x40..=0x7e))?;
    Some((moves_cursor(*last), length + 1))
}

/// Returns whether a control sequence that ends with the letter `last` moves the cursor: colours,
/// erased lines, modes and reports don't.
fn moves_cursor(last: u8) -> bool {
    !matches!(
        last,
        b'm' | b'K' | b'J' | b'h' | b'l' | b'n' | b'c' | b'q' | b't' | b'p'
    )
}

/// Returns the length of the string with which `bytes` begin, up to the bell or terminator after
/// it; `None` if there is none before the next control sequence.
fn string_length(bytes: &[u8]) -> Option<usize> {
    for at in 0..bytes.len().min(STRING) {
        let rest = bytes.get(at..)?;
        if let Some(bell) = bell_length(rest) {
            return Some(at + bell);
        }
        let escape = match rest {
            [0xc2, 0x9c, ..] => return Some(at + 2),
            [b'^', b'[', ..] => 2,
            rest => escape_length(rest).unwrap_or_default(),
        };
        if escape > 0 {
            let is_terminator = rest.get(escape) == Some(&b'\\');
            return is_terminator.then_some(at + escape + 1);
        }
    }
    None
}

/// Returns the control sequences with which `bytes` begin, whose escape characters were removed,
/// and their length. Only those that set colours or modes are recognised, and the first needs
/// parameters: `[Karl]` is a word in brackets, and so is `[12Karl]`.
fn stripped(bytes: &[u8]) -> Option<Sequence> {
    if bytes.starts_with(b"[m[K") {
        return Some((false, 4));
    }
    let after = bytes.strip_prefix(b"[")?;
    let private = usize::from(after.first() == Some(&b'?'));
    let of_number = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    let numbers = after.iter().skip(private).take(PARAMETERS);
    let count = numbers.take_while(of_number).count();
    let is_last = match after.get(private + count)? {
        b'm' => private == 0,
        b'h' | b'l' => private == 1,
        _ => false,
    };
    let length = 1 + private + count + 1;
    let rest = bytes.get(length..).unwrap_or_default();
    let next = if rest.starts_with(b"[K") { 2 } else { 0 };
    (count > 0 && is_last).then_some((false, length + next))
}
