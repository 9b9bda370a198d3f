//! A program as an embedder: a JSON text per line in, a JSON array of numbers per line out.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{EmbedError, Embedder};
use crate::index::vectors::DIMENSION_LIMIT;

/// A program that embeds.
#[derive(Debug)]
pub struct CommandEmbedder {
    model: String,
    words: Vec<String>,
    dimensions: usize,
}

/// Texts that one run of the program is given.
const TEXTS: usize = 4_096;

impl CommandEmbedder {
    /// Returns the program that `words` name, with its arguments, separated by spaces. It is asked
    /// for one vector to know how many numbers its vectors have.
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

    fn run(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| self.fault("no program is named"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.fault(error))?;
        let mut input = String::new();
        for text in texts {
            input.push_str(&serde_json::Value::from(text.as_str()).to_string());
            input.push('\n');
        }
        let pipe = child.stdin.take();
        // A program may answer before it has read everything, so it is fed from another thread.
        let feed = move || pipe.map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes()));
        let feeder = std::thread::Builder::new().spawn(feed).map_err(|error| {
            // It waits for texts that don't come; what it says to that has no reader.
            _ = child.kill().and_then(|()| child.wait());
            self.fault(error)
        })?;
        let output = child
            .wait_with_output()
            .map_err(|error| self.fault(error))?;
        // Whether everything was read shows in the number of returns.
        drop(feeder.join());
        if !output.status.success() {
            return Err(self.fault(output.status));
        }
        let answers: Result<Vec<Vec<f32>>, _> =
            serde_json::Deserializer::from_slice(&output.stdout)
                .into_iter()
                .collect();
        let vectors = answers
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
    fn a_program_answers_a_vector_for_each_text() {
        let embedder = CommandEmbedder::start("sed s/.*/[1,2.5,-3]/").unwrap();
        assert_eq!(embedder.dimensions(), 3);
        let texts: Vec<String> = (0..5_000).map(|number| format!("text\n{number}")).collect();
        let vectors = embedder.embed(&texts).unwrap();
        assert!(vectors.len() == 5_000 && vectors.iter().all(|vector| *vector == [1.0, 2.5, -3.0]));
    }

    #[test]
    fn a_program_that_fails_or_babbles_is_an_error() {
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
