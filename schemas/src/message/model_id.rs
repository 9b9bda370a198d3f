//! Model ids: `provider:name` (§6.3).

/// Returns the provider of a canonical model id: the text before the first colon. The name may
/// contain more colons.
pub fn provider(model: &str) -> Option<&str> {
    model.split_once(':').map(|(provider, _)| provider)
}

/// Returns the name for the wire: the text after the first colon, or the whole id without one.
pub fn wire_name(model: &str) -> &str {
    model.split_once(':').map_or(model, |(_, name)| name)
}

/// Returns the canonical id of the model `name` of `provider`.
pub fn canonical(provider: &str, name: &str) -> String {
    format!("{provider}:{name}")
}

/// Returns the canonical id of a requested model in the API of `provider`: known ids, pseudo models
/// (`scheme://…`) and ids with a colon are returned unchanged, any other name is one of the
/// provider's.
pub fn normalise(requested: &str, provider: &str, known: impl Fn(&str) -> bool) -> String {
    if known(requested) || requested.contains(':') {
        requested.to_owned()
    } else {
        canonical(provider, requested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_split_at_the_first_colon() {
        assert_eq!(wire_name("openrouter:meta/llama:free"), "meta/llama:free");
        assert_eq!(provider("openrouter:meta/llama:free"), Some("openrouter"));
        assert_eq!((wire_name("gpt-5"), provider("gpt-5")), ("gpt-5", None));
        assert_eq!(normalise("gpt-5", "openai", |_| false), "openai:gpt-5");
        assert_eq!(
            normalise("sonnet", "openai", |alias| alias == "sonnet"),
            "sonnet"
        );
        assert_eq!(
            normalise("metis://auto", "openai", |_| false),
            "metis://auto"
        );
    }
}
