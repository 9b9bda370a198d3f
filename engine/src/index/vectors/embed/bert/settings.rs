//! The configuration of a sentence transformer: sizes, token limit, pooling. It doesn't include the
//! weights.

use std::path::{Component, Path, PathBuf};

use candle_transformers::models::bert::{Config, HiddenAct, PositionEmbeddingType};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::BoxError;
use crate::index::vectors::DIMENSION_LIMIT;

/// Maximal number of layers.
const LAYER_LIMIT: usize = 256;

/// Maximal size of a configuration file in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// Minimal token limit of a model: the special tokens around every text, and some of the text.
const MIN_TOKENS: usize = 8;

/// Pooling of the vectors of a text's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The vector of the first token.
    First,
    /// The mean.
    Mean,
    /// The maximum of each dimension.
    Greatest,
}

/// A model without its weights.
#[derive(Debug)]
pub(super) struct Settings {
    /// Sizes of its parts.
    pub(super) config: Config,
    /// Folder of its tokenizer and weights.
    pub(super) folder: PathBuf,
    /// Maximal number of tokens of a text, including special tokens.
    pub(super) tokens: usize,
    /// Whether texts are converted to lower case before tokenisation.
    pub(super) lower_case: bool,
    pub(super) pooling: Pooling,
    /// Whether its vectors are normalised.
    pub(super) normalised: bool,
}

impl Settings {
    /// Reads the configuration in `folder`. `config.json` is required. Without `modules.json`, the
    /// pooling is that of `1_Pooling/config.json` or else the mean, and vectors are normalised.
    pub(super) fn read(folder: &Path) -> Result<Settings, BoxError> {
        let modules = Modules::read(folder)?;
        let inner = folder.join(&modules.transformer);
        let declared: BertConfig =
            read(&inner.join("config.json"))?.ok_or("it has no `config.json`")?;
        let config = declared.checked()?;
        let sentences: SentenceConfig =
            read(&inner.join("sentence_bert_config.json"))?.unwrap_or_default();
        let tokenizer: TokenizerConfig =
            read(&inner.join("tokenizer_config.json"))?.unwrap_or_default();
        // Tokenizers without a limit state one of 10^30.
        let limits = [
            sentences.max_seq_length.map(|limit| limit as f64),
            tokenizer.model_max_length,
        ];
        let limit = limits.into_iter().flatten().next().unwrap_or(f64::INFINITY) as usize;
        let tokens = limit.min(config.max_position_embeddings);
        if tokens < MIN_TOKENS {
            return Err(format!("it reads {tokens} tokens of a text").into());
        }
        let pooling =
            read::<Map<String, Value>>(&folder.join(&modules.pooling).join("config.json"))?;
        Ok(Settings {
            pooling: pooling.map_or(Ok(Pooling::Mean), |pooling| pooling_of(&pooling))?,
            config,
            folder: inner,
            tokens,
            lower_case: sentences.do_lower_case,
            normalised: modules.normalised,
        })
    }
}

/// The content of `modules.json`.
struct Modules {
    transformer: PathBuf,
    pooling: PathBuf,
    normalised: bool,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    path: PathBuf,
}

impl Modules {
    fn read(folder: &Path) -> Result<Modules, BoxError> {
        let mut modules = Modules {
            transformer: PathBuf::new(),
            pooling: PathBuf::from("1_Pooling"),
            normalised: true,
        };
        let Some(listed) = read::<Vec<Module>>(&folder.join("modules.json"))? else {
            return Ok(modules);
        };
        modules.normalised = false;
        for module in listed {
            modules.add(module)?;
        }
        Ok(modules)
    }

    /// Adds a listed module.
    fn add(&mut self, module: Module) -> Result<(), BoxError> {
        if module
            .path
            .components()
            .any(|part| !matches!(part, Component::Normal(_)))
        {
            return Err(
                format!("its module `{}` lies outside of it", module.path.display()).into(),
            );
        }
        match module.kind.rsplit('.').next() {
            Some("Transformer") => self.transformer = module.path,
            Some("Pooling") => self.pooling = module.path,
            Some("Normalize") => self.normalised = true,
            _ => return Err(format!("its module `{}` can't be applied", module.kind).into()),
        }
        Ok(())
    }
}

/// The content of `config.json`.
#[derive(Deserialize)]
struct BertConfig {
    model_type: Option<String>,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default = "default_epsilon")]
    layer_norm_eps: f64,
    position_embedding_type: Option<String>,
}

const fn default_epsilon() -> f64 {
    1e-12
}

impl BertConfig {
    fn checked(self) -> Result<Config, BoxError> {
        if let Some(other) = self.model_type.as_deref().filter(|name| *name != "bert") {
            return Err(format!("it is of the type `{other}`; `bert` is read").into());
        }
        if let Some(other) = self
            .position_embedding_type
            .as_deref()
            .filter(|name| *name != "absolute")
        {
            return Err(
                format!("its positions are of the type `{other}`; `absolute` is read").into(),
            );
        }
        let hidden_act = match &*self.hidden_act {
            "gelu" => HiddenAct::Gelu,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => HiddenAct::GeluApproximate,
            "relu" => HiddenAct::Relu,
            other => {
                return Err(format!(
                    "its activation `{other}` is unknown; gelu, gelu_new and relu are read"
                )
                .into());
            }
        };
        let heads = self.num_attention_heads;
        let fits = (1..=DIMENSION_LIMIT).contains(&self.hidden_size)
            && (1..=DIMENSION_LIMIT * 4).contains(&self.intermediate_size)
            && (1..=LAYER_LIMIT).contains(&self.num_hidden_layers)
            && heads > 0
            && self.hidden_size.is_multiple_of(heads);
        if !fits {
            return Err("the sizes in its `config.json` are impossible".into());
        }
        Ok(Config {
            vocab_size: self.vocab_size,
            hidden_size: self.hidden_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: heads,
            intermediate_size: self.intermediate_size,
            hidden_act,
            max_position_embeddings: self.max_position_embeddings,
            type_vocab_size: self.type_vocab_size,
            layer_norm_eps: self.layer_norm_eps,
            position_embedding_type: PositionEmbeddingType::Absolute,
            ..Config::default()
        })
    }
}

/// The content of `sentence_bert_config.json`.
#[derive(Default, Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<u32>,
    #[serde(default)]
    do_lower_case: bool,
}

/// The content of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    model_max_length: Option<f64>,
}

/// Returns the pooling of `1_Pooling/config.json`, which is stated as a word or as flags.
fn pooling_of(settings: &Map<String, Value>) -> Result<Pooling, BoxError> {
    let flags = settings
        .iter()
        .filter(|(_, flag)| **flag == Value::Bool(true));
    let mut modes: Vec<&str> = flags
        .filter_map(|(key, _)| key.strip_prefix("pooling_mode_"))
        .collect();
    modes.extend(settings.get("pooling_mode").and_then(Value::as_str));
    match modes[..] {
        ["cls" | "cls_token"] => Ok(Pooling::First),
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["max" | "max_tokens"] => Ok(Pooling::Greatest),
        _ => Err(format!(
            "its pooling is `{}`; one of cls, mean and max is read",
            modes.join(" ")
        )
        .into()),
    }
}

/// Reads the JSON file at `path`; `None` if it doesn't exist.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, BoxError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let length = match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| format!("`{name}`: {error}"))?.len(),
    };
    if length > FILE_LIMIT {
        return Err(format!("its `{name}` has more than {FILE_LIMIT} bytes").into());
    }
    let bytes = std::fs::read(path).map_err(|error| format!("`{name}`: {error}"))?;
    Ok(Some(
        serde_json::from_slice(&bytes).map_err(|error| format!("`{name}`: {error}"))?,
    ))
}
