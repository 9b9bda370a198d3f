//! `generate`: writes a realistic corpus from a seed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use gristmill_connectors::generate::{BLOCK_GRAINS, Block, Corpus, Label};
use gristmill_engine::destination::PendingFile;
use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, FRAME_END, Manifest, write_frame,
};
use rayon::prelude::*;
use serde::Serialize;

use super::CommandContext;
use crate::args::transfer::{GenerateArgs, GenerateKind};
use crate::exit::{CommandOutcome, Failure};
use crate::instant_arg::parse_instant;
use crate::output::{begin_file, finish_file, is_stdout, unless_stdout};

/// Result of the command.
#[derive(Debug, Default, Serialize)]
struct GenerateReport {
    files: u64,
    grains: u64,
    bytes: u64,
    /// Identifiers of people in the texts.
    labels: u64,
}

impl GenerateReport {
    /// Counts a file with `block`, of `bytes`.
    fn add_file(&mut self, block: &Block, bytes: u64) {
        self.files += 1;
        self.grains += block.grains.len() as u64;
        self.bytes += bytes;
        self.labels += block.labels.len() as u64;
    }
}

/// Writes the corpus one file at a time.
pub fn run(context: &CommandContext, arguments: GenerateArgs) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    if !arguments.force {
        refuse_existing(&arguments)?;
    }
    std::fs::create_dir_all(&arguments.out).map_err(|error| {
        Failure::environment(
            &format!("can't create `{}`", arguments.out.display()),
            &error,
        )
    })?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(context.threads())
        .build()
        .map_err(|error| Failure::environment("can't start threads", &error))?;
    let corpus = corpus(&arguments)?;
    let written = write_files(&arguments, BlockStream::new(&corpus, &pool))?;
    // Labels and result must not be mixed on standard output.
    match is_stdout(arguments.labels.as_deref()) {
        true => printer.print_requests(),
        false => printer.record(&written)?,
    }
    Ok(CommandOutcome::Done)
}

/// Latest time at which a corpus begins: 2100-01-01, in milliseconds since 1970. The seconds in the
/// headers of grains have 32 bits (§3.1).
const LAST_BEGIN_MS: i64 = 4_102_444_800_000;

/// Returns the corpus that the arguments describe.
fn corpus(arguments: &GenerateArgs) -> Result<Corpus, Failure> {
    let mut corpus = Corpus::new(arguments.seed, arguments.people);
    if let Some(begin) = &arguments.begin {
        corpus.begin_ms = parse_instant("--begin", begin)?;
        if !(0..=LAST_BEGIN_MS).contains(&corpus.begin_ms) {
            return Err(Failure::usage(format!(
                "invalid value `--begin {begin}`; a corpus begins between 1970 and 2100"
            )));
        }
    }
    Ok(corpus)
}

/// Writes the files of the corpus.
fn write_files(
    arguments: &GenerateArgs,
    mut blocks: BlockStream<'_>,
) -> Result<GenerateReport, Failure> {
    let mut written = GenerateReport::default();
    let mut labels = arguments
        .labels
        .as_deref()
        .map(LabelFile::create)
        .transpose()?;
    while written.grains < arguments.grains {
        let wanted = (arguments.grains - written.grains).min(arguments.file_grains.max(1)) as usize;
        let block = blocks.take(wanted)?;
        let path = arguments.out.join(file_name(arguments.kind, written.files));
        let bytes = write_file(&path, arguments.kind, &block);
        written.add_file(
            &block,
            bytes.map_err(|error| Failure::writing(&path, &error))?,
        );
        if let Some(labels) = &mut labels {
            labels.write(&block.labels)?;
        }
    }
    labels.map_or(Ok(()), LabelFile::finish)?;
    Ok(written)
}

/// The grains of a corpus in order, generated in parallel.
struct BlockStream<'c> {
    corpus: &'c Corpus,
    pool: &'c rayon::ThreadPool,
    /// Number of the next block.
    next: u64,
    /// Generated grains that were not taken yet.
    held: Block,
}

impl<'c> BlockStream<'c> {
    fn new(corpus: &'c Corpus, pool: &'c rayon::ThreadPool) -> BlockStream<'c> {
        BlockStream {
            corpus,
            pool,
            next: 0,
            held: Block::default(),
        }
    }

    /// Returns the next `wanted` grains.
    fn take(&mut self, wanted: usize) -> Result<Block, Failure> {
        while self.held.grains.len() < wanted {
            let missing = (wanted - self.held.grains.len()).div_ceil(BLOCK_GRAINS) as u64;
            self.generate(missing)?;
        }
        let rest = self.held.split_off(wanted);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    /// Generates the next `count` blocks.
    fn generate(&mut self, count: u64) -> Result<(), Failure> {
        let numbers = self.next..self.next + count;
        let blocks: Result<Vec<_>, _> = self.pool.install(|| {
            numbers
                .into_par_iter()
                .map(|number| self.corpus.block(number))
                .collect()
        });
        for block in blocks.map_err(|error| Failure::data(error.to_string()))? {
            self.held.append(block);
        }
        self.next += count;
        Ok(())
    }
}

/// The labels of a corpus, as JSON Lines.
struct LabelFile<'p> {
    path: &'p Path,
    out: BufWriter<PendingFile>,
}

impl<'p> LabelFile<'p> {
    fn create(path: &'p Path) -> Result<Self, Failure> {
        let out = BufWriter::new(begin_file(path)?);
        Ok(LabelFile { path, out })
    }

    /// Appends labels.
    fn write(&mut self, labels: &[Label]) -> Result<(), Failure> {
        let mut lines = || -> std::io::Result<()> {
            for label in labels {
                let line = serde_json::json!({
                    "content_address": label.address.to_string(),
                    "kind": label.kind,
                    "value": label.value,
                });
                writeln!(self.out, "{line}")?;
            }
            Ok(())
        };
        lines().map_err(|error| Failure::writing(self.path, &error))
    }

    fn finish(self) -> Result<(), Failure> {
        let file = self.out.into_inner();
        let file = file.map_err(|error| Failure::writing(self.path, &error.into_error()))?;
        finish_file(self.path, file)
    }
}

/// Fails before anything is written if a file of the corpus already exists.
fn refuse_existing(arguments: &GenerateArgs) -> Result<(), Failure> {
    let files = arguments.grains.div_ceil(arguments.file_grains.max(1));
    let corpus = (0..files).map(|number| arguments.out.join(file_name(arguments.kind, number)));
    let labels = unless_stdout(arguments.labels.as_deref()).map(Path::to_owned);
    let mut paths = corpus.chain(labels);
    match paths.find(|path| path.exists()) {
        Some(path) => Err(Failure::writing(
            &path,
            &"the file exists; use `--force` to overwrite it",
        )),
        None => Ok(()),
    }
}

fn file_name(kind: GenerateKind, number: u64) -> String {
    let ending = match kind {
        GenerateKind::Mg => "mg",
        GenerateKind::Frames => "frames",
    };
    format!("corpus-{number:05}.{ending}")
}

/// Writes one file and returns its size in bytes.
fn write_file(path: &Path, kind: GenerateKind, block: &Block) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    match kind {
        GenerateKind::Mg => write_container(out, block)?,
        GenerateKind::Frames => {
            let mut frame = Vec::new();
            for grain in &block.grains {
                frame.clear();
                write_frame(&grain.blob, &mut frame).map_err(std::io::Error::other)?;
                out.write_all(&frame)?;
            }
            out.write_all(&FRAME_END)?;
            out.flush()?;
        }
    }
    Ok(std::fs::metadata(path)?.len())
}

fn write_container(out: BufWriter<File>, block: &Block) -> std::io::Result<()> {
    let manifest = Manifest {
        entries: block.states.iter().cloned().collect(),
    };
    let with_manifest = !manifest.entries.is_empty();
    let lengths = block
        .grains
        .iter()
        .map(|grain| grain.blob.len() as u32)
        .collect();
    let options = ContainerOptions {
        with_manifest,
        ..ContainerOptions::default()
    };
    let mut writer = ContainerWriter::new(out, options, lengths)?;
    for grain in &block.grains {
        writer.push(&grain.blob)?;
    }
    writer
        .finish(with_manifest.then_some(&manifest))
        .map(|_| ())
}
