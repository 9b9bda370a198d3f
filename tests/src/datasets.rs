//! The recipe of `datasets/`: small input files in every form of grains, and with every error.
//!
//! `cargo run --bin datasets` writes them from seeds and test keys; a test compares the files in
//! the repository with this module's output. `exchanges.jsonl` and `README.md` are written by hand.

use std::io;

use gristmill_connectors::generate::{Block, Corpus};
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerOptions, ContainerWriter, FOOTER_LENGTH, FRAME_END,
    Manifest, write_frame,
};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, EncodedGrain, Encoding, Grain, Key, Payload,
    encode, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};

/// The seed of the corpus.
const SEED: u64 = 2026;

/// Number of people in the corpus.
const PEOPLE: u32 = 60;

/// The seed of the signing key. It is public, so its signatures prove nothing.
const TEST_KEY: [u8; 32] = [42; 32];

/// Any error while a file is made.
type Fault = Box<dyn std::error::Error>;

/// A file of the data sets.
#[derive(Debug)]
pub struct DataSet {
    /// Its name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Every generated file.
///
/// # Errors
/// None that the seeds here cause; those of encoding and writing are passed on.
pub fn make() -> Result<Vec<DataSet>, Fault> {
    let corpus = Corpus::new(SEED, PEOPLE);
    let [mut first, second, third] = [corpus.block(0)?, corpus.block(1)?, corpus.block(2)?];
    let manifest = Manifest {
        entries: std::mem::take(&mut first.states).into_iter().collect(),
    };
    let (plain, archived) = second.grains.split_at(second.grains.len() / 2);
    let mut parts = third.grains.chunks(third.grains.len().div_ceil(5));
    let mut part = || parts.next().unwrap_or_default();
    let mut older = part().to_vec();
    older.extend_from_slice(part());
    // Some grains are also in the export.
    let mut sent = part().to_vec();
    sent.extend(plain.iter().rev().take(50).cloned());
    let damaged = damaged(&corpus.block(3)?)?;
    let mut cut = container(blobs(plain), ContainerOptions::default(), None)?;
    cut.truncate(cut.len() / 2);
    let cbor = part()
        .iter()
        .map(|grain| again(grain, cbor_options()))
        .collect::<Result<Vec<_>, _>>()?;
    let signed = part()
        .iter()
        .take(60)
        .map(signed)
        .collect::<Result<Vec<_>, _>>()?;
    let compressed = |codec| ContainerOptions {
        codec,
        ..ContainerOptions::default()
    };
    let with_manifest = ContainerOptions {
        with_manifest: true,
        sorted: true,
        ..ContainerOptions::default()
    };
    Ok(vec![
        DataSet {
            name: "manifest.mg",
            bytes: container(blobs(&first.grains), with_manifest, Some(&manifest))?,
        },
        DataSet {
            name: "plain.mg",
            bytes: container(blobs(plain), ContainerOptions::default(), None)?,
        },
        DataSet {
            name: "zstd.mg",
            bytes: container(blobs(archived), compressed(Codec::Zstd), None)?,
        },
        DataSet {
            name: "lz4.mg",
            bytes: container(blobs(&older), compressed(Codec::Lz4), None)?,
        },
        DataSet {
            name: "stream.frames",
            bytes: frames(&sent)?,
        },
        DataSet {
            name: "cbor.mg",
            bytes: container(
                cbor.iter().map(|grain| &*grain.blob),
                ContainerOptions::default(),
                None,
            )?,
        },
        DataSet {
            name: "signed.mg",
            bytes: container(
                signed.iter().map(|grain| &**grain),
                ContainerOptions::default(),
                None,
            )?,
        },
        DataSet {
            name: "damaged.mg",
            bytes: container(
                damaged.iter().map(|grain| &**grain),
                ContainerOptions::default(),
                None,
            )?,
        },
        DataSet {
            name: "cut.mg",
            bytes: cut,
        },
    ])
}

fn blobs(grains: &[EncodedGrain]) -> impl Iterator<Item = &[u8]> + Clone {
    grains.iter().map(|grain| &*grain.blob)
}

fn container<'g>(
    grains: impl Iterator<Item = &'g [u8]> + Clone,
    options: ContainerOptions,
    manifest: Option<&Manifest>,
) -> io::Result<Vec<u8>> {
    let lengths = grains.clone().map(|grain| grain.len() as u32).collect();
    let mut writer = ContainerWriter::new(Vec::new(), options, lengths)?;
    for grain in grains {
        writer.push(grain)?;
    }
    writer.finish(manifest)
}

fn frames(grains: &[EncodedGrain]) -> Result<Vec<u8>, Fault> {
    let mut stream = Vec::new();
    for grain in grains {
        write_frame(&grain.blob, &mut stream)?;
    }
    stream.extend(FRAME_END);
    Ok(stream)
}

fn cbor_options() -> EncodeOptions {
    EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    }
}

/// The same fields in the other encoding.
fn again(grain: &EncodedGrain, options: EncodeOptions) -> Result<EncodedGrain, Fault> {
    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, DecodeMode::Strict)?;
    let known = grain
        .known()
        .iter()
        .map(|(field, value)| (Key::Field(*field), value.to_value()));
    let own = grain
        .unknown()
        .iter()
        .map(|(key, value)| (Key::Custom((*key).to_owned().into()), value.to_value()));
    Ok(encode(known.chain(own).collect(), options)?)
}

/// The same grain inside an envelope of the test key.
fn signed(grain: &EncodedGrain) -> Result<Vec<u8>, Fault> {
    let blob = again(
        grain,
        EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        },
    )?
    .blob;
    Ok(sign(
        &blob,
        &SigningKey::from_seed(&TEST_KEY),
        None,
        1_767_225_600,
    )?)
}

/// Valid grains, and between them one for every error of grains.
fn damaged(block: &Block) -> Result<Vec<Vec<u8>>, Fault> {
    let good: Vec<_> = block
        .grains
        .iter()
        .take(60)
        .map(|grain| grain.blob.clone())
        .collect();
    let mut all = Vec::new();
    let mut wrong = wrong_grains()?.into_iter();
    for (at, grain) in good.into_iter().enumerate() {
        all.push(grain);
        if at % 4 == 3 {
            all.extend(wrong.next());
        }
    }
    all.extend(wrong);
    Ok(all)
}

/// A belief, different for each `number`.
fn belief(number: usize, tag: Option<&str>, options: EncodeOptions) -> Result<Vec<u8>, Fault> {
    let tags = tag.map_or_else(String::new, |tag| {
        format!(r#","structural_tags":["{tag}"]"#)
    });
    let text = format!(
        r#"{{"type":"belief","subject":"patient-{number:04}","relation":"takes","object":"lisinopril 10 mg","confidence":0.5,
            "created_at":{},"namespace":"clinic"{tags}}}"#,
        1_767_225_600_000_u64 + number as u64
    );
    Ok(encode_json(&Json::parse(text.as_bytes())?, options)?.blob)
}

/// Returns `blob` with the first `from` replaced by `to` of the same length.
fn replaced(mut blob: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "a replacement that moves nothing");
    let at = blob
        .windows(from.len())
        .position(|window| window == from)
        .expect("the bytes are in the belief above");
    blob[at..at + to.len()].copy_from_slice(to);
    blob
}

/// Returns one grain per error code of grains, and a few more for `ERR_CORRUPT`.
fn wrong_grains() -> Result<Vec<Vec<u8>>, Fault> {
    let plain = |number| belief(number, None, EncodeOptions::default());
    let signed_options = EncodeOptions {
        signed: true,
        ..EncodeOptions::default()
    };
    let half = [0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0];
    let mut clear_class = belief(1, Some("phi:medication"), EncodeOptions::default())?;
    clear_class[1] = 0;
    let mut other_type = plain(2)?;
    other_type[2] = 0x02;
    let mut other_version = plain(3)?;
    other_version[0] = 9;
    let mut envelope = sign(
        &belief(4, None, signed_options)?,
        &SigningKey::from_seed(&TEST_KEY),
        None,
        1_767_225_600,
    )?;
    if let Some(last) = envelope.last_mut() {
        *last ^= 1;
    }
    let mut trailing = plain(5)?;
    trailing.push(0xc0);
    // Compressed to a ten-thousandth, and larger than the payload limit.
    let mut bomb = plain(6)?[..9].to_vec();
    bomb[1] = 1 << 2;
    bomb.extend(zstd_of_zeros(DEFAULT_PAYLOAD_LIMIT + 1)?);
    let mut not_a_map = plain(7)?[..9].to_vec();
    not_a_map.extend(b"\x93\x01\x02\x03");
    Ok(vec![
        clear_class,
        other_type,
        other_version,
        envelope,
        trailing,
        bomb,
        not_a_map,
        plain(8)?[..9].to_vec(),
        belief(9, None, signed_options)?,
        replaced(plain(10)?, &half, &[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
        replaced(plain(11)?, &half, &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]),
        replaced(plain(12)?, b"\xa1t\xa6belief", b"\xa1t\xa6relief"),
        replaced(plain(13)?, b"\xa1t\xa6belief", b"\xa1u\xa6belief"),
        replaced(plain(14)?, b"\xa2ca\xcf", b"\xa2cb\xcf"),
        replaced(plain(15)?, b"patient-0015", b"patient-\xff\xff15"),
        replaced(plain(16)?, b"\xa1r\xa5takes", b"\xa1o\xa5takes"),
        replaced(
            plain(17)?,
            b"\xb0lisinopril 10 mg\xa1r\xa5takes",
            b"\xb5lisinopril 10 mg (?!)\xa1r\xa0",
        ),
    ])
}

/// A zstd frame of `length` zeros.
fn zstd_of_zeros(length: usize) -> Result<Vec<u8>, Fault> {
    let zeros = vec![0; length];
    let options = ContainerOptions {
        codec: Codec::Zstd,
        ..ContainerOptions::default()
    };
    let file = container(std::iter::once(&*zeros), options, None)?;
    let region = CONTAINER_HEADER_LENGTH + 4..file.len() - FOOTER_LENGTH;
    Ok(file.get(region).unwrap_or_default().to_vec())
}
