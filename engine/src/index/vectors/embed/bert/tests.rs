//! A small model whose weights lie on a wave: what it returns was computed a second time by
//! `tests/tools/bert_reference.py --small`.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const TEXTS: [&str; 4] = [
    "",
    "the cat sat",
    "Cats, cats! 東京",
    "the the the the the the the the the the the the cat",
];

const EXPECTED: [[f32; 8]; 4] = [
    [
        -0.416113, 0.344925, -0.201728, -0.062624, 0.373714, -0.453615, 0.560533, -0.060283,
    ],
    [
        -0.337274, 0.391852, -0.153066, -0.190227, 0.366366, -0.565925, 0.465073, 0.047902,
    ],
    [
        -0.359699, 0.341559, -0.206997, -0.181548, 0.335231, -0.50746, 0.544543, 0.108279,
    ],
    [
        -0.322122, 0.444129, -0.022392, -0.135305, 0.455277, -0.605929, 0.287103, -0.152717,
    ],
];

fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 12, "hidden_act": "gelu", "max_position_embeddings": 10, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    })
}

fn words() -> Value {
    let special = |id: u32, content: &str| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        })
    };
    let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    json!({
        "version": "1.0",
        // Both are overruled.
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 7}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [special(0, "[PAD]"), special(1, "[UNK]"), special(2, "[CLS]"), special(3, "[SEP]")],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
            "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]")],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {
                "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "the": 4, "cat": 5, "sat": 6, "##s": 7, "東": 8,
            },
        },
    })
}

/// Returns the names and shapes of the weights, in the order of the names.
fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![9, 8]),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![10, 8],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![2, 8],
        ),
    ];
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..2 {
        let name = format!("encoder.layer.{layer}");
        norms.extend([
            format!("{name}.attention.output.LayerNorm"),
            format!("{name}.output.LayerNorm"),
        ]);
        let parts = ["self.query", "self.key", "self.value", "output.dense"];
        let attention = parts.map(|part| (format!("attention.{part}"), [8, 8]));
        let dense = [
            ("intermediate.dense".to_owned(), [12, 8]),
            ("output.dense".to_owned(), [8, 12]),
        ];
        for (part, [to, from]) in attention.into_iter().chain(dense) {
            shapes.push((format!("{name}.{part}.weight"), vec![to, from]));
            shapes.push((format!("{name}.{part}.bias"), vec![to]));
        }
    }
    for norm in norms {
        shapes.push((format!("{norm}.weight"), vec![8]));
        shapes.push((format!("{norm}.bias"), vec![8]));
    }
    shapes.sort();
    shapes
}

/// Returns the weights, under names that begin with `prefix`.
fn wave(prefix: &str) -> Vec<u8> {
    let tensors = shapes().into_iter().enumerate().map(|(at, (name, shape))| {
        let raised = if name.ends_with("LayerNorm.weight") {
            1.0
        } else {
            0.0
        };
        let number = |number: usize| {
            (0.4 * (1.0 + 0.7 * at as f64 + 0.31 * number as f64).sin() + raised) as f32
        };
        let bytes: Vec<u8> = (0..shape.iter().product())
            .flat_map(|at| number(at).to_le_bytes())
            .collect();
        (format!("{prefix}{name}"), shape, bytes)
    });
    let tensors: Vec<_> = tensors.collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (
            name,
            TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap(),
        )
    });
    safetensors::serialize(views, None).unwrap()
}

fn write(folder: &Path, name: &str, content: &Value) {
    fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    fs::write(folder.join(name), content.to_string()).unwrap();
}

fn small() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.json", &config());
    write(folder.path(), "tokenizer.json", &words());
    fs::write(folder.path().join(WEIGHTS), wave("")).unwrap();
    folder
}

fn embedded(folder: &Path, texts: &[&str]) -> Vec<Vec<f32>> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    BertEmbedder::open(folder).unwrap().embed(&texts).unwrap()
}

fn alike(found: &[f32], expected: &[f32]) -> bool {
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found - expected).abs() < 2e-5)
}

fn refused(folder: &Path) -> String {
    BertEmbedder::open(folder).unwrap_err().to_string()
}

#[test]
fn vectors_are_those_that_were_computed_by_other_means_whatever_texts_go_along() {
    let folder = small();
    let embedder = BertEmbedder::open(folder.path()).unwrap();
    assert_eq!(embedder.dimensions(), 8);
    // More than go through the model at a time, so that texts of all lengths meet.
    let texts: Vec<String> = (0..TEXTS.len() * 1_500)
        .map(|at| TEXTS[at * 7 % TEXTS.len()].to_owned())
        .collect();
    let vectors = embedder.embed(&texts).unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        let at = TEXTS.iter().position(|known| known == text).unwrap();
        assert!(alike(vector, &EXPECTED[at]), "{text}: {vector:?}");
    }
    assert!(embedder.embed(&[]).unwrap().is_empty());
}

#[test]
fn weights_under_the_name_of_the_type_are_found() {
    let folder = small();
    fs::write(folder.path().join(WEIGHTS), wave("bert.")).unwrap();
    assert!(alike(
        &embedded(folder.path(), &TEXTS[1..2])[0],
        &EXPECTED[1]
    ));
}

#[test]
fn pooling_and_length_are_what_the_modules_say() {
    let folder = small();
    let module = |kind: &str, path: &str| json!({"type": format!("sentence_transformers.models.{kind}"), "path": path});
    let modules = json!([module("Transformer", ""), module("Pooling", "1_Pooling")]);
    write(folder.path(), "modules.json", &modules);
    let mean = embedded(folder.path(), &TEXTS[1..2]).remove(0);
    let length = mean
        .iter()
        .map(|number| number * number)
        .sum::<f32>()
        .sqrt();
    assert!((length - 1.0).abs() > 0.01, "{length}");
    let shortened: Vec<f32> = mean.iter().map(|number| number / length).collect();
    assert!(alike(&shortened, &EXPECTED[1]));

    let pooled = |pooling: Value| {
        write(folder.path(), "1_Pooling/config.json", &pooling);
        embedded(folder.path(), &TEXTS[1..2]).remove(0)
    };
    assert_eq!(
        pooled(json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})),
        mean
    );
    let first = pooled(json!({"pooling_mode_cls_token": true}));
    let greatest = pooled(json!({"pooling_mode": "max"}));
    assert!(
        first != mean
            && greatest
                .iter()
                .zip(&first)
                .all(|(greatest, first)| greatest >= first)
    );
    assert!(
        greatest
            .iter()
            .zip(&mean)
            .all(|(greatest, mean)| greatest > mean)
    );

    for pooling in [
        json!({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}),
        json!({"pooling_mode": "x"}),
    ] {
        write(folder.path(), "1_Pooling/config.json", &pooling);
        assert!(refused(folder.path()).contains("pooling"), "{pooling}");
    }
    write(
        folder.path(),
        "modules.json",
        &json!([module("Transformer", ""), module("Dense", "2_Dense")]),
    );
    assert!(
        refused(folder.path()).contains("`sentence_transformers.models.Dense` can't be applied")
    );
    write(
        folder.path(),
        "modules.json",
        &json!([module("Transformer", "../elsewhere")]),
    );
    assert!(refused(folder.path()).contains("outside"));
}

#[test]
fn a_text_is_truncated_and_lowercased_as_the_folder_configures() {
    let folder = small();
    let long = "the the the the the the the the the cat";
    assert!(alike(&embedded(folder.path(), &[long])[0], &EXPECTED[3]));
    write(
        folder.path(),
        "tokenizer_config.json",
        &json!({"model_max_length": 1e30}),
    );
    assert!(alike(&embedded(folder.path(), &[long])[0], &EXPECTED[3]));
    write(
        folder.path(),
        "sentence_bert_config.json",
        &json!({"max_seq_length": 8, "do_lower_case": true}),
    );
    let [six, longer] = &embedded(folder.path(), &["the the the the the the", long])[..] else {
        panic!()
    };
    assert!(alike(six, longer) && !alike(longer, &EXPECTED[3]));
    write(
        folder.path(),
        "sentence_bert_config.json",
        &json!({"max_seq_length": 3}),
    );
    assert!(refused(folder.path()).contains("3 tokens"));

    let mut words = words();
    words["normalizer"]["lowercase"] = json!(false);
    write(folder.path(), "tokenizer.json", &words);
    write(
        folder.path(),
        "sentence_bert_config.json",
        &json!({"do_lower_case": true}),
    );
    assert!(alike(
        &embedded(folder.path(), &["THE Cat SAT"])[0],
        &EXPECTED[1]
    ));
}

#[test]
fn each_missing_part_of_a_model_has_its_own_error() {
    let folder = small();
    let path = folder.path();
    let weights = fs::read(path.join(WEIGHTS)).unwrap();
    fs::write(path.join(WEIGHTS), &weights[..weights.len() - 1]).unwrap();
    assert!(refused(path).contains("model.safetensors"));
    fs::write(path.join(WEIGHTS), b"").unwrap();
    assert!(refused(path).contains("model.safetensors"));
    fs::remove_file(path.join(WEIGHTS)).unwrap();
    assert!(refused(path).contains("it has no `model.safetensors`"));
    fs::write(path.join("pytorch_model.bin"), b"").unwrap();
    assert!(refused(path).contains("`pytorch_model.bin` only"));
    fs::write(path.join(WEIGHTS), &weights).unwrap();

    let changed = |key: &str, value: Value| {
        let mut changed = config();
        changed[key] = value;
        write(path, "config.json", &changed);
        refused(path)
    };
    assert!(changed("intermediate_size", json!(16)).contains("shape"));
    assert!(changed("num_hidden_layers", json!(3)).contains("encoder.layer.2"));
    assert!(changed("vocab_size", json!(8)).contains("other tokens"));
    assert!(changed("model_type", json!("roberta")).contains("`roberta`"));
    assert!(changed("hidden_act", json!("swish")).contains("`swish`"));
    assert!(changed("position_embedding_type", json!("relative_key")).contains("`relative_key`"));
    for (key, value) in [
        ("num_attention_heads", 3),
        ("num_attention_heads", 0),
        ("hidden_size", 0),
        ("num_hidden_layers", 1 << 30),
    ] {
        assert!(
            changed(key, json!(value)).contains("impossible"),
            "{key} {value}"
        );
    }
    assert!(changed("hidden_size", json!("x")).contains("`config.json`"));

    write(path, "config.json", &config());
    fs::write(path.join("tokenizer.json"), b"{}").unwrap();
    assert!(refused(path).contains("`tokenizer.json`"));
    fs::remove_file(path.join("tokenizer.json")).unwrap();
    assert!(refused(path).contains("it has no `tokenizer.json`"));
    fs::remove_file(path.join("config.json")).unwrap();
    assert!(refused(path).contains("it has no `config.json`"));
}

#[test]
fn batches_hold_every_text_once_and_no_more_tokens_than_fit_unless_it_is_one() {
    let rows: Vec<Vec<u32>> = (0..300).rev().map(|length| vec![7; length * 2]).collect();
    let texts: Vec<&[u32]> = rows.iter().map(|row| &**row).collect();
    let batches = batches(&texts, 1_536);
    assert_eq!(batches.concat(), texts);
    for (at, batch) in batches.iter().enumerate() {
        let tokens: usize = batch.iter().map(|text| text.len()).sum();
        assert!(batch.len() == 1 || tokens * 1_536 <= 1 << 19, "{tokens}");
        let next = batches.get(at + 1).map_or(600, |next| next[0].len());
        assert!((tokens + next) * 1_536 > 1 << 19, "{tokens} {next}");
    }
}

#[test]
fn texts_without_tokens_have_no_direction_and_tokens_that_the_model_lacks_are_an_error() {
    let folder = small();
    let mut words = words();
    words["post_processor"] = Value::Null;
    write(folder.path(), "tokenizer.json", &words);
    let [empty, cat, alone] = &embedded(folder.path(), &["", "cat", " "])[..] else {
        panic!()
    };
    assert!(
        empty.iter().chain(alone).all(|number| *number == 0.0)
            && cat.iter().any(|number| *number != 0.0)
    );
    assert_eq!(embedded(folder.path(), &[""])[0], *empty);

    let mut words = super::tests::words();
    words["post_processor"]["special_tokens"]["[SEP]"]["ids"] = json!([4_000_000_000_u32]);
    write(folder.path(), "tokenizer.json", &words);
    let embedder = BertEmbedder::open(folder.path()).unwrap();
    let error = embedder.embed(&["cat".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("4000000000"), "{error}");
    words["post_processor"]["special_tokens"]["[SEP]"] =
        json!({"id": "[SEP]", "ids": vec![3; 30], "tokens": vec!["[SEP]"; 30]});
    write(folder.path(), "tokenizer.json", &words);
    assert!(refused(folder.path()).contains("adds more tokens"));
}
