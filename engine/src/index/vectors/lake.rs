//! Builds and searches the vectors of all segments of a lake.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::Int64Type;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::embed::Embedder;
use super::files::VectorFiles;
use super::transfer::open_vectors;
use super::{Metric, VectorBuilder, VectorIndex, file_name, is_vector_file};
use crate::error::{BoxError, Context, EngineError, Result};
use crate::index::SidecarCache;
use crate::lake::{Lake, publish_sidecars};
use crate::segment::{SIDECARS, SegmentId, SegmentReader, SidecarFile};
use crate::text::{text_fields, visit_texts, with_grain};

/// Source of vectors.
#[derive(Debug, Clone)]
pub enum VectorSource {
    /// Files, by the identifiers in `embedding_refs`.
    Files(Arc<VectorFiles>),
    /// An embedder of the grains' texts.
    Embedder(Arc<dyn Embedder>),
}

impl VectorSource {
    /// Returns the column from which the vectors are made or looked up.
    fn column(&self) -> &'static str {
        match self {
            VectorSource::Files(_) => Field::EmbeddingRefs.name(),
            VectorSource::Embedder(_) => SystemColumn::Blob.name(),
        }
    }

    /// Returns true if its embedder made one of `indexes`.
    fn made(&self, indexes: &[VectorIndex]) -> bool {
        let VectorSource::Embedder(embedder) = self else {
            return false;
        };
        indexes.iter().any(|index| {
            index.model() == embedder.model()
                && index.metric() == embedder.metric()
                && index.dimensions() == embedder.dimensions()
        })
    }
}

/// Result of building vectors.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VectorReport {
    /// Number of segments that were indexed.
    pub segments: u64,
    /// Number of segments that have vectors of the embedder already.
    pub whole: u64,
    /// Number of sealed segments, which have no vectors because these would reveal what the texts
    /// are about.
    pub sealed: u64,
    /// Number of vectors by model.
    pub vectors: BTreeMap<String, u64>,
    /// Number of references to vectors that aren't in any file.
    pub missing: u64,
    /// Number of unusable vectors: of another number of dimensions, zero, not finite, or of an
    /// unknown metric.
    pub unfit: u64,
    /// Bytes of the files that were written.
    pub bytes: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Builds the vectors of every segment of `lake`. Those that an embedder made already are kept,
/// unless `all` is true; those of files are replaced. One segment is in memory at a time.
///
/// # Errors
/// [`EngineError::File`] if a segment can't be read, a text can't be embedded or a file can't be
/// written.
pub async fn index_vectors(lake: &Lake, source: &VectorSource, all: bool) -> Result<VectorReport> {
    let started = std::time::Instant::now();
    let mut report = VectorReport::default();
    let existing = match source {
        VectorSource::Embedder(_) if !all => files_of(lake).await?,
        _ => HashMap::new(),
    };
    for segment in lake.segments()? {
        // A vector reveals what its text is about.
        if segment.id.is_sealed() {
            report.sealed += 1;
            continue;
        }
        if let Some(names) = existing.get(&segment.id)
            && source.made(&open_vectors(lake, &segment, names).await?)
        {
            report.whole += 1;
            continue;
        }
        let path = lake.grains.path_of(&segment.file.name);
        let bytes = lake.location().read(&path).await?;
        let (own, rows) = (source.clone(), segment.file.rows);
        let made = tokio::task::spawn_blocking(move || {
            SegmentVectors::of(bytes, &own).map(|found| found.files(rows))
        });
        let (files, counts) = made
            .await
            .file("can't index", &path)?
            .file("can't index", &path)?;
        report.bytes += publish_sidecars(
            lake.location(),
            &segment.id,
            &segment.binding(lake.location()).await?,
            files,
        )
        .await?;
        SidecarCache::of(lake).evict(&segment.id);
        report.segments += 1;
        report.missing += counts.missing;
        report.unfit += counts.unfit;
        for (model, count) in counts.vectors {
            *report.vectors.entry(model).or_default() += count;
        }
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// The vectors of one segment by model.
#[derive(Default)]
struct SegmentVectors {
    builders: BTreeMap<String, VectorBuilder>,
    missing: u64,
    unfit: u64,
}

/// Counts of one segment.
struct VectorCounts {
    vectors: BTreeMap<String, u64>,
    missing: u64,
    unfit: u64,
}

/// Number of rows that are read and embedded at a time.
const BATCH: usize = 8_192;

impl SegmentVectors {
    fn of(
        bytes: gristmill_connectors::source::SourceBytes,
        source: &VectorSource,
    ) -> Result<SegmentVectors, BoxError> {
        let reader = SegmentReader::open(bytes)?;
        let column = source.column();
        let mut collected = SegmentVectors::default();
        let mut first_row = 0;
        if let VectorSource::Embedder(embedder) = source {
            // A segment without texts gets an empty index.
            collected.builder_of(&**embedder);
        }
        for batch in reader.read(0..reader.row_groups(), Some(&[column]), BATCH)? {
            let batch = batch?;
            match source {
                VectorSource::Files(files) => collected.refer(&batch, first_row, files)?,
                VectorSource::Embedder(embedder) => {
                    collected.embed(&batch, first_row, &**embedder)?
                }
            }
            first_row += batch.num_rows() as u32;
        }
        Ok(collected)
    }

    fn builder(
        &mut self,
        model: &str,
        dimensions: usize,
        metric: Option<Metric>,
    ) -> Option<&mut VectorBuilder> {
        if !self.builders.contains_key(model) {
            self.builders.insert(
                model.to_owned(),
                VectorBuilder::new(model, dimensions, metric?)?,
            );
        }
        self.builders.get_mut(model)
    }

    /// Adds the vectors that the rows of `batch` refer to.
    fn refer(
        &mut self,
        batch: &RecordBatch,
        first_row: u32,
        files: &VectorFiles,
    ) -> Result<(), BoxError> {
        let lists = batch
            .column(0)
            .as_list_opt::<i32>()
            .ok_or("`embedding_refs` is no list")?;
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            let references = lists.value(row);
            let references = references
                .as_struct_opt()
                .ok_or("`embedding_refs` has no structs")?;
            for at in 0..references.len() {
                self.add_reference(references, at, first_row + row as u32, files);
            }
        }
        Ok(())
    }

    /// Adds the vector of one reference of `row`.
    fn add_reference(
        &mut self,
        references: &StructArray,
        at: usize,
        row: u32,
        files: &VectorFiles,
    ) {
        let text = |name: &str| {
            let column = references.column_by_name(name)?.as_string_opt::<i32>()?;
            column.is_valid(at).then(|| column.value(at).to_owned())
        };
        let Some(vector) = text("vector_id").and_then(|id| files.get(&id)) else {
            self.missing += 1;
            return;
        };
        let model = text("model").unwrap_or_else(|| "unnamed".to_owned());
        let metric = Metric::named(text("distance_metric").as_deref());
        let stated = references
            .column_by_name("dimensions")
            .and_then(|column| column.as_primitive_opt::<Int64Type>());
        let fits = stated
            .is_none_or(|stated| stated.is_null(at) || stated.value(at) == vector.len() as i64);
        let builder = match fits {
            true => self.builder(&model, vector.len(), metric),
            false => None,
        };
        let added = builder
            .is_some_and(|builder| Some(builder.metric()) == metric && builder.add(row, vector));
        self.unfit += u64::from(!added);
    }

    /// Returns the builder of the vectors of `embedder`.
    fn builder_of(&mut self, embedder: &dyn Embedder) -> Option<&mut VectorBuilder> {
        self.builder(
            embedder.model(),
            embedder.dimensions(),
            Some(embedder.metric()),
        )
    }

    /// Adds the vectors of the texts of `batch`.
    fn embed(
        &mut self,
        batch: &RecordBatch,
        first_row: u32,
        embedder: &dyn Embedder,
    ) -> Result<(), BoxError> {
        let (rows, texts) = embedded_texts(batch, first_row)?;
        let vectors = embedder.embed(&texts)?;
        for (row, vector) in rows.into_iter().zip(vectors) {
            let builder = self.builder_of(embedder);
            let added = builder.is_some_and(|builder| builder.add(row, &vector));
            self.unfit += u64::from(!added);
        }
        Ok(())
    }

    fn files(self, segment_rows: u64) -> (Vec<SidecarFile>, VectorCounts) {
        let mut counts = VectorCounts {
            vectors: BTreeMap::new(),
            missing: self.missing,
            unfit: self.unfit,
        };
        let mut files = Vec::new();
        for (model, builder) in self.builders {
            let (name, count) = (file_name(&model), builder.len() as u64);
            counts.vectors.insert(model, count);
            files.push(SidecarFile::whole(&name, builder.build(segment_rows)));
        }
        (files, counts)
    }
}

/// Maximal number of bytes of a grain's text that are embedded.
const TEXT_LIMIT: usize = 8 << 10;

/// Returns the rows of the grains of `batch` that have texts, counted from `first_row`, and these
/// texts.
fn embedded_texts(
    batch: &RecordBatch,
    first_row: u32,
) -> Result<(Vec<u32>, Vec<String>), BoxError> {
    let blobs = batch
        .column(0)
        .as_binary_opt::<i32>()
        .ok_or("`blob` isn't binary")?;
    let texts = (first_row..)
        .zip(0..blobs.len())
        .filter_map(|(number, row)| Some((number, embedded_text(blobs.value(row))?)));
    Ok(texts.unzip())
}

/// Returns the text of a grain, one part per line; `None` if there is none.
fn embedded_text(blob: &[u8]) -> Option<String> {
    let text = with_grain(blob, |grain| {
        let mut text = String::new();
        for field in text_fields(grain.grain_type()?) {
            visit_texts(grain, *field, &mut |part| {
                if text.len() < TEXT_LIMIT {
                    text.push_str(&part[..part.floor_char_boundary(TEXT_LIMIT - text.len())]);
                    text.push('\n');
                }
            });
        }
        Some(text)
    })?;
    (!text.trim().is_empty()).then_some(text)
}

/// The vectors of all segments of a lake for one model.
#[derive(Debug)]
pub struct LakeVectors {
    segments: Vec<Arc<VectorIndex>>,
}

/// A row with its similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VectorHit {
    /// Index of its segment in the lake.
    pub segment: usize,
    /// Its row there.
    pub row: u32,
    /// Its similarity, by [`Metric::similarity`].
    pub score: f64,
}

/// Number of candidates of a search, unless more rows are requested.
const EFFORT: usize = 96;

impl LakeVectors {
    /// Opens the vectors of `model`, or of the only model. All segments must have vectors of it,
    /// because an incomplete search would be a wrong answer.
    ///
    /// # Errors
    /// [`EngineError::SealedVectors`] if a segment is sealed; [`EngineError::Vectors`] if there is
    /// no such model, several and none is named, or a segment's vectors are missing or damaged.
    pub async fn open(lake: &Lake, model: Option<&str>) -> Result<LakeVectors> {
        let files = files_of(lake).await?;
        let segments = lake.segments()?;
        if segments.iter().any(|segment| segment.id.is_sealed()) {
            return Err(EngineError::SealedVectors);
        }
        let (name, named) = chosen_name(&files, model)?;
        let mut opened = Vec::with_capacity(segments.len());
        for segment in &segments {
            if !files
                .get(&segment.id)
                .is_some_and(|names| names.contains(&name))
            {
                return Err(EngineError::Vectors(format!(
                    "the segment {} has none of {named}",
                    segment.id.as_str()
                )));
            }
            opened.push(
                SidecarCache::of(lake)
                    .vectors(lake.location(), segment, &name)
                    .await?,
            );
        }
        Ok(LakeVectors { segments: opened })
    }

    /// Returns the model.
    pub fn model(&self) -> Option<&str> {
        self.segments.first().map(|index| index.model())
    }

    /// Returns the number of dimensions, if there are vectors.
    pub fn dimensions(&self) -> Option<usize> {
        self.segments
            .iter()
            .find(|index| !index.is_empty())
            .map(|index| index.dimensions())
    }

    /// Returns the `limit` rows nearest to `vector`, nearest first, among the rows `within` (a set
    /// for each segment; `None`: all rows). Rows are compared one by one, which is exact, if they
    /// are restricted or a walk through the graph would visit as many.
    pub fn search(
        &self,
        vector: &[f32],
        limit: usize,
        within: Option<&[RoaringBitmap]>,
    ) -> Vec<VectorHit> {
        let effort = EFFORT.max(limit.saturating_mul(2));
        let mut hits = Vec::new();
        for (segment, index) in self.segments.iter().enumerate() {
            let near = match within {
                Some(within) => within
                    .get(segment)
                    .map(|rows| index.scan_rows(vector, limit, rows))
                    .unwrap_or_default(),
                None if effort >= index.len() => index.scan(vector, limit),
                None => index.search(vector, limit, effort),
            };
            hits.extend(near.into_iter().map(|near| VectorHit {
                segment,
                row: near.row,
                score: index.metric().similarity(near.distance),
            }));
        }
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits.truncate(limit);
        hits
    }
}

/// Returns the ids of the segments of `lake` by their text.
fn ids_by_name(lake: &Lake) -> Result<HashMap<String, SegmentId>> {
    Ok(lake
        .segments()?
        .into_iter()
        .map(|segment| (segment.id.as_str().to_owned(), segment.id))
        .collect())
}

/// Returns the names of the vector files of each segment.
pub(crate) async fn files_of(lake: &Lake) -> Result<HashMap<SegmentId, Vec<String>>> {
    let mut files: HashMap<SegmentId, Vec<String>> = HashMap::new();
    let segments = ids_by_name(lake)?;
    for file in lake.location().list(SIDECARS).await? {
        let parts: Vec<_> = file.location.parts().collect();
        if let [_, segment, name] = &parts[..]
            && is_vector_file(name.as_ref())
            && let Some(id) = segments.get(segment.as_ref())
        {
            files
                .entry(id.clone())
                .or_default()
                .push(name.as_ref().to_owned());
        }
    }
    Ok(files)
}

/// Returns the file name of `model`, or the only one in `files`, and what messages call it.
fn chosen_name(
    files: &HashMap<SegmentId, Vec<String>>,
    model: Option<&str>,
) -> Result<(String, String)> {
    Ok(match model {
        Some(model) => (file_name(model), format!("the model `{model}`")),
        None => (only_name(files)?, "this model".to_owned()),
    })
}

fn only_name(files: &HashMap<SegmentId, Vec<String>>) -> Result<String> {
    let mut names: Vec<&String> = files.values().flatten().collect();
    names.sort();
    names.dedup();
    match names[..] {
        [name] => Ok(name.clone()),
        [] => Err(EngineError::Vectors("there are none".to_owned())),
        _ => Err(EngineError::Vectors(
            "there are those of several models; name one".to_owned(),
        )),
    }
}
