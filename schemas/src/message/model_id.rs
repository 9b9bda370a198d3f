//! Model ids: `provider:name` (§6.3).

/// The provider of a canonical model id, if it names one. The id is split at the first colon; the
/// name may hold more.
pub fn provider(model: &str) -> Option<&str> {
    model.split_once(':').map(|(provider, _)| provider)
}

/// The name that goes on the wire: what follows the first colon, or the whole id without one.
pub fn wire_name(model: &str) -> &str {
    model.split_once(':').map_or(model, |(_, name)| name)
}

/// The canonical id of the model that `provider` calls `name`.
pub fn canonical(provider: &str, name: &str) -> String {
    format!("{provider}:{name}")
}

/// What a requested model means where requests of `provider`'s shape arrive: known ids, pseudo
/// models (`scheme://…`) and ids with a colon as they are, any other name as one of the provider's.
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
    fn the_first_colon_splits() {
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
