//! The sixteen-byte header of a container (§11.2, §11.3).

use crate::error::{ErrorCode, GrainError};

/// The magic number and version of a container.
pub const MAGIC: [u8; 3] = *b"MG\x01";

/// The length of the header in bytes.
pub const CONTAINER_HEADER_LENGTH: usize = 16;

/// The length of the footer in bytes: a SHA-256.
pub const FOOTER_LENGTH: usize = 32;

/// The maximum length of a container in bytes: offsets have 32 bits.
pub const MAX_CONTAINER_LENGTH: u64 = 1 << 32;

/// The version of the field map in the containers that this crate writes.
pub const FIELD_MAP_VERSION: u8 = 1;

/// The flags byte of a container (byte 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContainerFlags(u8);

impl ContainerFlags {
    const SORTED: u8 = 1;
    const DEDUPLICATED: u8 = 1 << 1;
    const COMPRESSED: u8 = 1 << 2;
    const FIELD_MAP: u8 = 1 << 3;
    const MANIFEST: u8 = 1 << 4;

    pub(super) fn new(sorted: bool, deduplicated: bool, compressed: bool, manifest: bool) -> Self {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        ContainerFlags(
            bit(sorted, Self::SORTED)
                | bit(deduplicated, Self::DEDUPLICATED)
                | bit(compressed, Self::COMPRESSED)
                | bit(manifest, Self::MANIFEST),
        )
    }

    /// Returns the byte.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// True if the grains are in ascending order of `created_at`.
    pub const fn sorted(self) -> bool {
        self.0 & Self::SORTED != 0
    }

    /// True if no address is repeated.
    pub const fn deduplicated(self) -> bool {
        self.0 & Self::DEDUPLICATED != 0
    }

    /// True if the grain region is compressed.
    pub const fn compressed(self) -> bool {
        self.0 & Self::COMPRESSED != 0
    }

    /// True if the file has a custom field map, for which the specification defines no layout.
    pub const fn field_map_included(self) -> bool {
        self.0 & Self::FIELD_MAP != 0
    }

    /// True if the file has an index manifest.
    pub const fn has_index_manifest(self) -> bool {
        self.0 & Self::MANIFEST != 0
    }

    /// True if reserved bits are set.
    pub const fn reserved(self) -> bool {
        self.0 >> 5 != 0
    }
}

/// The compression of the grain region (§11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Codec {
    /// No compression.
    #[default]
    None = 0,
    /// A single zstd frame.
    Zstd = 1,
    /// A single frame of the lz4 frame format.
    Lz4 = 2,
}

impl Codec {
    fn from_byte(byte: u8) -> Option<Codec> {
        [Codec::None, Codec::Zstd, Codec::Lz4]
            .into_iter()
            .find(|codec| *codec as u8 == byte)
    }

    /// Returns `none`, `zstd` or `lz4`.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
        }
    }
}

/// The header of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerHeader {
    /// The flags byte.
    pub flags: ContainerFlags,
    /// The declared number of grains.
    pub grain_count: u32,
    /// The version of the field map.
    pub field_map_version: u8,
    /// The declared codec.
    pub codec: Codec,
}

impl ContainerHeader {
    /// Reads the header of `file`.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if the bytes are not a container header, [`ErrorCode::Version`] for a
    /// later version, [`ErrorCode::Unsupported`] for a custom field map.
    pub fn read(file: &[u8]) -> Result<ContainerHeader, GrainError> {
        let Some(
            &[
                m0,
                m1,
                m2,
                flags,
                c0,
                c1,
                c2,
                c3,
                field_map_version,
                codec,
                ..,
            ],
        ) = file.get(..CONTAINER_HEADER_LENGTH)
        else {
            let message = format!(
                "a container has at least {} bytes",
                CONTAINER_HEADER_LENGTH + FOOTER_LENGTH
            );
            return Err(GrainError::corrupt(file.len(), message));
        };
        if [m0, m1] != [MAGIC[0], MAGIC[1]] {
            return Err(GrainError::corrupt(
                0,
                "a container starts with the bytes 4d 47 01",
            ));
        }
        if m2 != MAGIC[2] {
            let message = format!("unsupported container version: {m2}");
            return Err(GrainError::new(ErrorCode::Version, message).at(2));
        }
        let flags = ContainerFlags(flags);
        if flags.field_map_included() {
            let message = "the file has a custom field map (flag bit 3), for which the \
                           specification gives no layout; ask its writer for a file without one";
            return Err(GrainError::new(ErrorCode::Unsupported, message).at(3));
        }
        let codec = Codec::from_byte(codec)
            .ok_or_else(|| GrainError::corrupt(9, "unknown compression codec"))?;
        Ok(ContainerHeader {
            flags,
            grain_count: u32::from_be_bytes([c0, c1, c2, c3]),
            field_map_version,
            codec,
        })
    }

    /// Returns the sixteen bytes.
    pub fn to_bytes(self) -> [u8; CONTAINER_HEADER_LENGTH] {
        let [m0, m1, m2] = MAGIC;
        let [c0, c1, c2, c3] = self.grain_count.to_be_bytes();
        [
            m0,
            m1,
            m2,
            self.flags.0,
            c0,
            c1,
            c2,
            c3,
            self.field_map_version,
            self.codec as u8,
            0,
            0,
            0,
            0,
            0,
            0,
        ]
    }
}
