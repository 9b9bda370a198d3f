//! An external program as an embedder: a JSON text per line in, a JSON array of numbers per line
//! out.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{EmbedError, Embedder};
use crate::index::vectors::DIMENSION_LIMIT;

/// An external program that embeds texts.
#[derive(Debug)]
pub struct CommandEmbedder {
    model: String,
    words: Vec<String>,
    dimensions: usize,
}

/// Maximal number of texts for one run of the program.
const TEXTS: usize = 4_096;

/// The environment variable with the passphrase of the keyring, which the program doesn't get.
const PASSPHRASE: &str = "GRISTMILL_PASSPHRASE";

impl CommandEmbedder {
    /// Creates an embedder for the program and arguments in `words`, separated by spaces. Runs the
    /// program once to determine the number of dimensions.
    ///
    /// # Errors
    /// [`EmbedError::Command`].
    pub fn start(words: &str) -> Result<CommandEmbedder, EmbedError> {
        let model = words.trim().to_owned();
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut embedder = CommandEmbedder {
            model,
            words,
            dimensions: 0,
        };
        let probe = embedder.run(&["memory".to_owned()])?;
        embedder.dimensions = probe.first().map_or(0, Vec::len);
        match (1..=DIMENSION_LIMIT).contains(&embedder.dimensions) {
            true => Ok(embedder),
            false => {
                Err(embedder.fault(format!("its vectors have {} numbers", embedder.dimensions)))
            }
        }
    }

    fn fault(&self, reason: impl ToString) -> EmbedError {
        EmbedError::Command {
            program: self.model.clone(),
            reason: reason.to_string(),
        }
    }

    /// Runs the program once with `texts`.
    fn run(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let output = self.output(json_lines(texts))?;
        let vectors: Result<Vec<Vec<f32>>, _> = serde_json::Deserializer::from_slice(&output)
            .into_iter()
            .collect();
        let vectors = vectors
            .map_err(|error| self.fault(format!("its answer is no array of numbers: {error}")))?;
        match vectors.len() == texts.len() {
            true => Ok(vectors),
            false => Err(self.fault(format!(
                "{} vectors for {} texts",
                vectors.len(),
                texts.len()
            ))),
        }
    }

    /// Runs the program with `input`. Returns its standard output.
    fn output(&self, input: String) -> Result<Vec<u8>, EmbedError> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| self.fault("no program is named"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_remove(PASSPHRASE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.fault(error))?;
        let pipe = child.stdin.take();
        // A program may write output before it has read all input, so another thread writes the
        // input.
        let feed = move || pipe.map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes()));
        let feeder = std::thread::Builder::new().spawn(feed).map_err(|error| {
            // The program waits for input that won't come; errors of ending it have no
            // consequence.
            _ = child.kill().and_then(|()| child.wait());
            self.fault(error)
        })?;
        let output = child
            .wait_with_output()
            .map_err(|error| self.fault(error))?;
        // An input that wasn't read completely shows in the number of vectors.
        drop(feeder.join());
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(self.fault(output.status)),
        }
    }
}

/// Writes each text as a JSON string on a line of its own.
fn json_lines(texts: &[String]) -> String {
    let mut lines = String::new();
    for text in texts {
        lines.push_str(&serde_json::Value::from(text.as_str()).to_string());
        lines.push('\n');
    }
    lines
}

impl Embedder for CommandEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TEXTS) {
            vectors.extend(self.run(texts)?);
        }
        if vectors.iter().any(|vector| vector.len() != self.dimensions) {
            return Err(self.fault("its vectors don't all have the same length"));
        }
        Ok(vectors)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_returns_a_vector_for_each_text() {
        let embedder = CommandEmbedder::start("sed s/.*/[1,2.5,-3]/").unwrap();
        assert_eq!(embedder.dimensions(), 3);
        let texts: Vec<String> = (0..5_000).map(|number| format!("text\n{number}")).collect();
        let vectors = embedder.embed(&texts).unwrap();
        assert!(vectors.len() == 5_000 && vectors.iter().all(|vector| *vector == [1.0, 2.5, -3.0]));
    }

    #[test]
    fn a_program_that_fails_or_prints_anything_else_is_an_error() {
        for words in [
            "",
            "false",
            "echo nothing",
            "echo [1] [2]",
            "echo []",
            "no-such-program-anywhere",
        ] {
            assert!(
                matches!(
                    CommandEmbedder::start(words),
                    Err(EmbedError::Command { .. })
                ),
                "{words}"
            );
        }
    }
}
