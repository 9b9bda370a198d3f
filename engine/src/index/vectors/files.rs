//! Reads files of vectors with identifiers.
//!
//! | kind | identifier of a vector |
//! |---|---|
//! | Parquet (`.parquet`), Arrow (`.arrow`, file or stream, buffers uncompressed) | the column `vector_id` (or `id`), next to a column `vector` (or `embedding`) of lists of numbers |
//! | NumPy (`.npy`), two dimensions of f4, f2 or i1 in C order | the line in `<file>.ids`, else the row's number |
//! | `.fvecs` | the line in `<file>.ids`, else the row's number |

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use bytes::Bytes;
use gristmill_connectors::source::SourceBytes;
use half::f16;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::DIMENSION_LIMIT;
use crate::decoder_panic::caught;
use crate::error::BoxError;
use crate::segment::MappedFile;

/// A file of vectors can't be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read vectors from `{}`: {reason}", path.display())]
pub struct VectorFileError {
    path: PathBuf,
    reason: String,
}

/// The vectors of some files. If an identifier occurs in several files, the last one wins.
#[derive(Debug, Default)]
pub struct VectorFiles {
    vectors: HashMap<String, Vec<f32>>,
}

impl VectorFiles {
    /// Reads the vectors of `paths` into memory.
    ///
    /// # Errors
    /// [`VectorFileError`].
    pub fn read(paths: &[PathBuf]) -> Result<VectorFiles, VectorFileError> {
        let mut files = VectorFiles::default();
        for path in paths {
            let rows = read(path).map_err(|reason| VectorFileError {
                path: path.clone(),
                reason: reason.to_string(),
            })?;
            files.vectors.extend(rows);
        }
        Ok(files)
    }

    /// Returns the vector `id`.
    pub fn get(&self, id: &str) -> Option<&[f32]> {
        self.vectors.get(id).map(Vec::as_slice)
    }

    /// Returns the number of vectors there are.
    pub fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }
}

type Rows = Vec<(String, Vec<f32>)>;

fn read(path: &Path) -> Result<Rows, BoxError> {
    let bytes = SourceBytes::map(path)?;
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("parquet") => {
            let bytes = MappedFile(std::sync::Arc::new(bytes));
            read_batches(ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()?)
        }
        Some("arrow") => read_arrow(bytes),
        Some("npy") => with_ids(path, read_npy(&bytes)?),
        Some("fvecs") => with_ids(path, read_fvecs(&bytes)?),
        _ => Err("its name ends in none of .parquet, .arrow, .npy and .fvecs".into()),
    }
}

/// Returns the lines of `<file>.ids`, if there is such a file.
fn read_ids(path: &Path) -> Result<Option<Vec<String>>, BoxError> {
    let mut ids = path.as_os_str().to_owned();
    ids.push(".ids");
    match std::fs::read_to_string(&ids) {
        Ok(text) => Ok(Some(text.lines().map(str::to_owned).collect())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Adds identifiers to vectors: the lines of `<file>.ids`, or their numbers.
fn with_ids(path: &Path, vectors: Vec<Vec<f32>>) -> Result<Rows, BoxError> {
    let ids = match read_ids(path)? {
        Some(ids) => ids,
        None => (0..vectors.len()).map(|row| row.to_string()).collect(),
    };
    if ids.len() != vectors.len() {
        return Err(format!("{} vectors and {} identifiers", vectors.len(), ids.len()).into());
    }
    Ok(ids.into_iter().zip(vectors).collect())
}

/// End-of-stream marker of Arrow: a message of length 0.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Reads the Arrow file format, which is a stream between a magic, and a footer and a magic, as a
/// stream: the library's file reader allocates whatever size a damaged file declares.
fn read_arrow(bytes: SourceBytes) -> Result<Rows, BoxError> {
    let mark = b"ARROW1";
    let stream = match bytes.strip_prefix(mark) {
        None => 0..bytes.len(),
        Some(rest) => {
            let (rest, footer) = rest
                .strip_suffix(mark)
                .and_then(<[u8]>::split_last_chunk)
                .ok_or("its footer is truncated")?;
            let length = rest
                .len()
                .checked_sub(u32::from_le_bytes(*footer) as usize)
                .ok_or("its footer is damaged")?;
            // Writers pad to 8 or 64 bytes after the magic.
            let padding = rest[..length].iter().take_while(|byte| **byte == 0).count();
            mark.len() + padding..mark.len() + length
        }
    };
    let whole = Buffer::from(Bytes::from_owner(MappedFile(std::sync::Arc::new(bytes))));
    let mut stream = whole.slice_with_length(stream.start, stream.len());
    // The library accepts a stream that is truncated between two messages.
    if !stream.ends_with(&END_OF_STREAM) {
        return Err("it is truncated".into());
    }
    let read = || {
        let mut decoder = StreamDecoder::new();
        let batches = std::iter::from_fn(|| decoder.decode(&mut stream).transpose());
        let rows = read_batches(batches)?;
        decoder.finish()?;
        Ok(rows)
    };
    // The library doesn't check the offsets in a stream, and panics if they are out of range.
    caught(read).unwrap_or_else(|| Err("it is damaged".into()))
}

fn read_batches(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<Rows, BoxError> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch?;
        let ids = cast(column(&batch, ["vector_id", "id"])?, &DataType::Utf8)?;
        let item = DataType::List(std::sync::Arc::new(Field::new(
            "element",
            DataType::Float32,
            true,
        )));
        let vectors = cast(column(&batch, ["vector", "embedding"])?, &item)?;
        let (ids, vectors) = (ids.as_string::<i32>(), vectors.as_list::<i32>());
        for row in (0..batch.num_rows()).filter(|row| ids.is_valid(*row) && vectors.is_valid(*row))
        {
            let values = vectors.value(row);
            rows.push((
                ids.value(row).to_owned(),
                values
                    .as_primitive::<Float32Type>()
                    .iter()
                    .flatten()
                    .collect(),
            ));
        }
    }
    Ok(rows)
}

fn column<'b>(batch: &'b RecordBatch, names: [&str; 2]) -> Result<&'b ArrayRef, BoxError> {
    let found = names.iter().find_map(|name| batch.column_by_name(name));
    found.ok_or_else(|| format!("it has neither a column `{}` nor `{}`", names[0], names[1]).into())
}

/// Reads fvecs: each vector follows its number of dimensions (i32).
fn read_fvecs(bytes: &[u8]) -> Result<Vec<Vec<f32>>, BoxError> {
    let mut vectors = Vec::new();
    let mut rest = bytes;
    while let Some((dimensions, after)) = rest.split_first_chunk() {
        let dimensions = usize::try_from(i32::from_le_bytes(*dimensions)).unwrap_or_default();
        if !(1..=DIMENSION_LIMIT).contains(&dimensions) {
            return Err(format!("vector {} has impossible dimensions", vectors.len()).into());
        }
        let (own, after) = after
            .split_at_checked(4 * dimensions)
            .ok_or("its last vector is truncated")?;
        vectors.push(floats(own));
        rest = after;
    }
    if rest.is_empty() {
        Ok(vectors)
    } else {
        Err("its last vector is truncated".into())
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .filter_map(|four| Some(f32::from_le_bytes(*four.first_chunk()?)))
        .collect()
}

/// Returns the length of `count` vectors in bytes; `None` if it exceeds the address space.
fn npy_length(count: usize, dimensions: usize, width: usize) -> Option<usize> {
    count.checked_mul(dimensions)?.checked_mul(width)
}

/// Reads the format of NumPy, versions 1 to 3.
fn read_npy(bytes: &[u8]) -> Result<Vec<Vec<f32>>, BoxError> {
    let (header, data) = split_npy(bytes)?;
    if header.contains("'fortran_order': True") {
        return Err("its numbers are in Fortran order; save it in C order".into());
    }
    let descr = quoted(header, "'descr':").ok_or("its header has no type")?;
    let (width, number) = npy_type(descr)?;
    let [count, dimensions] = npy_shape(header)?[..] else {
        return Err("it doesn't have two dimensions".into());
    };
    let size = npy_length(count, dimensions, width);
    if size != Some(data.len()) || !(1..=DIMENSION_LIMIT).contains(&dimensions) {
        return Err("its size doesn't match its header".into());
    }
    Ok(data
        .chunks_exact(width * dimensions)
        .map(|row| row.chunks_exact(width).map(number).collect())
        .collect())
}

/// Splits a NumPy file into its header and its data.
fn split_npy(bytes: &[u8]) -> Result<(&str, &[u8]), BoxError> {
    let cut = "its header is truncated";
    let rest = bytes
        .strip_prefix(b"\x93NUMPY")
        .ok_or("it isn't a NumPy file")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or(cut)?;
    let (length, rest) = match version[0] {
        1 => rest
            .split_first_chunk()
            .map(|(length, rest)| (usize::from(u16::from_le_bytes(*length)), rest)),
        _ => rest
            .split_first_chunk()
            .map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest)),
    }
    .ok_or(cut)?;
    let (header, data) = rest.split_at_checked(length).ok_or(cut)?;
    Ok((std::str::from_utf8(header)?, data))
}

/// Converts the bytes of a number.
type ReadNumber = fn(&[u8]) -> f32;

/// Returns the width in bytes of the NumPy type `descr`, and how to read it.
fn npy_type(descr: &str) -> Result<(usize, ReadNumber), BoxError> {
    Ok(match descr {
        "<f4" => (4, |bytes| {
            bytes
                .first_chunk()
                .map_or(f32::NAN, |four| f32::from_le_bytes(*four))
        }),
        "<f2" => (2, |bytes| {
            bytes
                .first_chunk()
                .map_or(f32::NAN, |two| f16::from_le_bytes(*two).to_f32())
        }),
        "|i1" => (1, |bytes| {
            bytes
                .first()
                .map_or(f32::NAN, |byte| f32::from(*byte as i8))
        }),
        other => {
            return Err(
                format!("its numbers are of the type {other}; <f4, <f2 and |i1 are read").into(),
            );
        }
    })
}

/// Parses the shape in a NumPy header.
fn npy_shape(header: &str) -> Result<Vec<usize>, BoxError> {
    let shape = header
        .split_once("'shape':")
        .and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    let shape: Result<Vec<usize>, _> = shape
        .ok_or("its header has no shape")?
        .0
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::parse)
        .collect();
    Ok(shape?)
}

/// Returns the quoted text after `key`.
fn quoted<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rest = text.split_once(key)?.1.trim_start().strip_prefix('\'')?;
    Some(rest.split_once('\'')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_files_of_all_known_types_are_read() {
        let file = |descr: &str, data: &[u8]| {
            let head =
                format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 2), }}\n");
            [
                &b"\x93NUMPY\x01\x00"[..],
                &(head.len() as u16).to_le_bytes(),
                head.as_bytes(),
                data,
            ]
            .concat()
        };
        let floats: Vec<u8> = [1.0_f32, -2.0, 0.5, 4.0]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let halves: Vec<u8> = [1.0, -2.0, 0.5, 4.0]
            .iter()
            .flat_map(|number| f16::from_f32(*number).to_le_bytes())
            .collect();
        let expected = [[1.0, -2.0], [0.5, 4.0]];
        assert_eq!(read_npy(&file("<f4", &floats)).unwrap(), expected);
        assert_eq!(read_npy(&file("<f2", &halves)).unwrap(), expected);
        assert_eq!(
            read_npy(&file("|i1", &[1, 254, 0, 4])).unwrap(),
            [[1.0, -2.0], [0.0, 4.0]]
        );
        assert!(read_npy(&file("<f4", &floats[1..])).is_err());
        assert!(read_npy(&file("<i8", &floats)).is_err());
        for end in 0..file("<f4", &floats).len() {
            assert!(read_npy(&file("<f4", &floats)[..end]).is_err());
        }
    }

    #[test]
    fn arrow_files_and_streams_are_read_and_truncated_ones_rejected() {
        use std::sync::Arc;

        use arrow::array::{FixedSizeListArray, StringArray};
        use arrow::ipc::writer::{FileWriter, StreamWriter};

        let vectors = [Some([Some(1.0), Some(2.0)]), None].into_iter();
        let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 2);
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("embedding", Arc::new(vectors)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        file.write(&batch).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.arrow");
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap(), [("a".to_owned(), vec![1.0, 2.0])]);
            for end in 0..bytes.len() {
                assert!(
                    read_arrow(bytes[..end].to_vec().into()).is_err(),
                    "{end} bytes"
                );
            }
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x91;
                // A damaged file must neither panic nor exhaust memory.
                let _ = read_arrow(damaged.into());
            }
        }
    }

    #[test]
    fn fvecs_are_read_and_truncated_ones_rejected() {
        let vector = |numbers: &[f32]| {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            [&2_i32.to_le_bytes()[..], &numbers.collect::<Vec<u8>>()].concat()
        };
        let file = [vector(&[1.0, 2.0]), vector(&[3.0, 4.0])].concat();
        assert_eq!(read_fvecs(&file).unwrap(), [[1.0, 2.0], [3.0, 4.0]]);
        assert!(read_fvecs(&file[..file.len() - 1]).is_err());
        assert!(read_fvecs(&(-1_i32).to_le_bytes()).is_err());
    }
}
