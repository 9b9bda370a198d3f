//! Tests of the byte search.

use arrow::array::{BinaryArray, RecordBatch, StringArray};
use gristmill_schemas::columns::{LifecycleEvent, RejectRow, SourceOutcome, SourceRow, StateRow};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::*;
use crate::erase::identifier_search::IdentifierSearch;
use crate::erase::request::{Person, SubjectRequest};
use crate::index::domain_fields::{self, FieldRows};
use crate::index::hexastore::{StatementColumns, build};
use crate::keys::{FileKeys, Keyring};
use crate::lake::{DataFile, Table};
use crate::segment::unsorted_grains_properties;
use crate::text::with_grain_if_any;

#[test]
fn raw_search_covers_exactly_the_bytes_outside_of_pages() {
    let bytes = b"PAR1headBODYheadBODYBODYfoot";
    let outside = |parts: &[Range<usize>]| {
        outside(bytes, parts)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        outside(&[8..12, 16..20, 20..24]),
        [&b"PAR1head"[..], b"head", b"foot"]
    );
    assert_eq!(outside(&[]), [bytes]);
    assert!(outside(&[0..10, 10..28]).is_empty());
}

#[test]
fn pieces_overlap_by_more_than_the_longest_pattern() {
    let bytes: Vec<u8> = (0..2 * PIECE as u32 + 7)
        .map(|at| (at % 251) as u8)
        .collect();
    let pieces: Vec<&[u8]> = pieces(&bytes).collect();
    assert_eq!(
        pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(),
        [PIECE + OVERLAP, PIECE + 7, 7]
    );
    assert_eq!(pieces[0][PIECE..], pieces[1][..OVERLAP]);
    assert_eq!(super::pieces(b"").count(), 0);
}

/// Returns a search for the person `name`.
fn patterns_of(name: &str) -> PatternSearch {
    let request = SubjectRequest {
        people: vec![Person {
            identifiers: [name.to_owned()].into(),
            ..Person::default()
        }],
        ..SubjectRequest::default()
    };
    let search = IdentifierSearch::new(&request, |_| false, std::iter::empty()).unwrap();
    PatternSearch::new(std::iter::empty(), search)
}

/// Returns how many matches of `name` are in the opened cells of `file`, a file of `table`.
async fn opened_matches(lake: &Lake, table: &Table, file: &DataFile, name: &str) -> u64 {
    let open = LakeFile::open(lake, &table.path_of(&file.name)).await;
    let found = search_opened(&open.unwrap(), &patterns_of(name), None);
    found.unwrap().remnants
}

/// Returns a hexastore whose subjects are `terms`.
fn hexastore_of(terms: &[&str]) -> Vec<u8> {
    let subjects: ArrayRef = Arc::new(StringArray::from(terms.to_vec()));
    let nothing: ArrayRef = Arc::new(StringArray::new_null(terms.len()));
    let columns =
        StatementColumns::NAMES
            .into_iter()
            .zip([subjects, Arc::clone(&nothing), nothing]);
    let columns = columns.map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    build(&[StatementColumns::of(&batch).unwrap()])
}

/// Returns how often the byte search finds a name in a hexastore whose bytes are `bytes`.
fn remnants_in_hexastore(bytes: Vec<u8>) -> u64 {
    remnants_in("index/a/hexastore.bin", bytes)
}

/// Returns how often the byte search finds a name in the file `path`, whose bytes are `bytes`.
fn remnants_in(path: &str, bytes: Vec<u8>) -> u64 {
    let search = FileSearch {
        patterns: &patterns_of("Ada Okafor"),
        retained: &RetainedRows::default(),
    };
    let length = bytes.len() as u64;
    let bytes = MappedFile(Arc::new(bytes.into()));
    let found = search.file(path, bytes).unwrap();
    assert_eq!((found.files, found.bytes), (1, length));
    found.remnants
}

#[test]
fn the_terms_of_a_hexastore_are_searched_one_by_one() {
    let apart = hexastore_of(&["A letter to Okafor", "Ada, please call"]);
    assert_eq!(remnants_in_hexastore(apart), 0);
    let whole = hexastore_of(&["A", "Ada Okafor", "Berlin"]);
    assert_eq!(remnants_in_hexastore(whole), 1);
    let mut damaged = hexastore_of(&["from Ada Okafor, today"]);
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(remnants_in_hexastore(damaged), 1);
}

#[test]
fn a_hexastore_with_a_wrong_header_is_searched_as_a_whole() {
    let mut cut = hexastore_of(&["from Ada Okafor, today"]);
    // The number of bytes of all terms: the terms seem to end within the name.
    assert_eq!(cut[24..32], 22_u64.to_le_bytes());
    cut[24] = 10;
    assert_eq!(remnants_in_hexastore(cut), 1);
    let mut left_over = hexastore_of(&["from Ada Okafor, today"]);
    // The end of the only term: what follows belongs to none.
    assert_eq!(left_over[144..149], [22, 0, 0, 0, 0]);
    left_over[144] = 4;
    let content = left_over.len() - 32;
    let checksum = blake3::hash(&left_over[..content]);
    left_over[content..].copy_from_slice(checksum.as_bytes());
    assert_eq!(remnants_in_hexastore(left_over), 1);
}

/// Returns a domain field index of grains, of which each has a field with one of `names`.
fn field_index_of(names: &[&str]) -> Vec<u8> {
    let mut rows = FieldRows::default();
    for name in names {
        let text = format!(
            r#"{{"type": "event", "role": "user", "content": "x", "created_at": 1, "{name}": 1}}"#
        );
        let json = Json::parse(text.as_bytes()).unwrap();
        let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        with_grain_if_any(&blob, |grain| rows.add(grain));
    }
    domain_fields::build(vec![rows])
}

#[test]
fn the_names_of_a_domain_field_index_are_found_and_do_not_read_as_one() {
    let found = |names: &[&str]| remnants_in("index/a/fields.bin", field_index_of(names));
    assert_eq!(found(&["for Ada", "okafor"]), 0);
    assert_eq!(found(&["hc:x", "note on Ada Okafor", "z"]), 1);
    assert_eq!(found(&["ada_okafor"]), 1);
}

/// Searches a segment that has only `blobs`, written with `properties`, for a name.
fn searched_segment(
    blobs: &[Option<&[u8]>],
    properties: WriterProperties,
) -> Result<ByteSearchResult> {
    let blobs: ArrayRef = Arc::new(BinaryArray::from_opt_vec(blobs.to_vec()));
    let batch = RecordBatch::try_from_iter([(SystemColumn::Blob.name(), blobs)]).unwrap();
    searched_column(batch, properties, "Ada Okafor")
}

/// Returns what a search for the person `name` finds in a file of `grains` with the rows `batch`.
fn searched_column(
    batch: RecordBatch,
    properties: WriterProperties,
    name: &str,
) -> Result<ByteSearchResult> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let search = FileSearch {
        patterns: &patterns_of(name),
        retained: &RetainedRows::default(),
    };
    let bytes = MappedFile(Arc::new(file.into()));
    search.file("grains/a.parquet", bytes)
}

/// Returns a compressed grain that mentions `name`.
fn compressed_grain(name: &str) -> Vec<u8> {
    let prose = "the quick brown fox jumps over the lazy dog while seven wizards box with a \
                 jovial sphinx of black quartz, and nobody asks them what their vow was about";
    let json = format!(
        r#"{{"type":"event","created_at":1767225600000,"role":"user","content":"hi",
            "extra":{{"note":"{prose} {prose}, said {name}, because {prose}"}}}}"#
    );
    let options = EncodeOptions {
        compressed: true,
        ..EncodeOptions::default()
    };
    let json = Json::parse(json.as_bytes()).unwrap();
    let blob = encode_json(&json, options).unwrap().blob;
    let patterns = patterns_of("Ada Okafor");
    assert_eq!(patterns.count(&blob, &mut Vec::new()), (0, 0));
    blob
}

#[test]
fn a_compressed_grain_is_searched_decompressed() {
    for (name, is_found) in [("Ada Okafor", true), ("Ada Zorro", false)] {
        let blob = compressed_grain(name);
        let blobs = [Some(&b"another"[..]), Some(blob.as_slice())];
        let found = searched_segment(&blobs, unsorted_grains_properties()).unwrap();
        assert_eq!(found.remnants > 0, is_found, "{name}");
    }
}

#[test]
fn values_of_a_page_are_told_apart_from_what_only_looks_like_them() {
    for (text, is_found) in [
        ("doe@x.test", true),
        ("jdoe@x.test", false),
        ("data:jdoe@x.test", false),
        ("a,jdoe@x.test", false),
    ] {
        for has_dictionary in [false, true] {
            let texts: ArrayRef = Arc::new(StringArray::from(vec!["other", text, "more"]));
            let batch = RecordBatch::try_from_iter([("subject", texts)]).unwrap();
            let properties = WriterProperties::builder().set_dictionary_enabled(has_dictionary);
            let found = searched_column(batch, properties.build(), "doe@x.test").unwrap();
            assert_eq!(found.remnants > 0, is_found, "{text} {has_dictionary}");
        }
    }
}

#[test]
fn compressed_grains_are_searched_or_an_error_however_a_page_has_them() {
    let blob = compressed_grain("Ada Okafor");
    let with = |version, has_dictionary, encoding| {
        WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(has_dictionary)
            .set_encoding(encoding)
            .build()
    };
    for blobs in [
        [Some(&b"another"[..]), Some(&b""[..]), Some(blob.as_slice())],
        [Some(&b"another"[..]), None, Some(blob.as_slice())],
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for has_dictionary in [false, true] {
                let properties = with(version, has_dictionary, Encoding::PLAIN);
                let found = searched_segment(&blobs, properties).unwrap();
                assert!(found.remnants > 0, "{version:?} {has_dictionary}");
            }
            let properties = with(version, false, Encoding::DELTA_LENGTH_BYTE_ARRAY);
            assert!(searched_segment(&blobs, properties).is_err());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sealed_cell_of_the_small_tables_is_searched() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("lake").display().to_string();
    let mut lake = Lake::open_or_create(&place).await.unwrap();
    let keyring = folder.path().join("keyring.json");
    let keyring = Keyring::open_or_create(&keyring, "for tests").unwrap();
    let keys = FileKeys::next_to(keyring).unwrap();
    lake.enable_encryption(Box::new(keys)).await.unwrap();
    let name = "Marguerite Oyelaran";
    let named = |is_named: bool| is_named.then(|| name.to_owned());
    for (source, reason) in [(true, false), (false, true)] {
        let row = SourceRow {
            run_id: "a run".to_owned(),
            source_id: None,
            source: named(source),
            kind: None,
            size: 0,
            outcome: SourceOutcome::Skipped,
            first_ordinal: 0,
            grains: 0,
            duplicates: 0,
            erased: 0,
            rejected: 0,
            reason: named(reason),
            at: 0,
        };
        let file = lake.write_sources(&[row]).await.unwrap();
        let table = lake.sources.as_ref().unwrap();
        assert_ne!(opened_matches(&lake, table, &file, name).await, 0);
    }
    for column in ["source", "field", "message", "bytes"] {
        let row = RejectRow {
            source_id: "0".repeat(64),
            source: named(column == "source").unwrap_or_default(),
            ordinal: 0,
            offset: None,
            error_code: "ERR_VERSION".to_owned(),
            field: named(column == "field"),
            message: named(column == "message").unwrap_or_default(),
            bytes: named(column == "bytes").unwrap_or_default().into_bytes(),
            truncated: false,
            rejected_at: 0,
        };
        let file = lake.write_rejects(&[&row]).await.unwrap();
        assert_ne!(opened_matches(&lake, &lake.rejects, &file, name).await, 0);
    }
    for (actor, reason) in [(true, false), (false, true)] {
        let row = StateRow {
            content_address: "0".repeat(64),
            event: LifecycleEvent::Expired,
            value: None,
            at: 0,
            actor: named(actor),
            reason: named(reason),
            source_id: None,
        };
        let file = lake.write_events(&[row]).await.unwrap();
        assert_ne!(opened_matches(&lake, &lake.state, &file, name).await, 0);
    }
}

#[tokio::test]
async fn a_file_that_was_removed_since_it_was_listed_contains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let lake = Lake::open_or_create(&place).await.unwrap();
    let search = LakeSearch {
        lake: &lake,
        patterns: Arc::new(patterns_of("Ada Okafor")),
        retained: Arc::default(),
        pool: crate::erase::run::thread_pool(1).unwrap(),
    };
    let gone = Path::from("audit/part-00000000000000000000000000.parquet");
    let found = search.file(&gone).await.unwrap();
    assert_eq!((found.files, found.remnants), (0, 0));
}
