//! Detects the provider of an exchange: by the name in its line, by its URL, or by members that
//! only one provider's bodies have.
//!
//! Many providers use OpenAI's dialect, so the adapter that reads an exchange doesn't always
//! identify the provider. This module has the tables of names, hosts, paths and members that do.

use gristmill_schemas::json::Json;

use super::json_access::items;
use super::registry;

/// Placeholder names that recorders use for an unknown provider.
const GENERIC: [&str; 8] = [
    "",
    "unknown",
    "unknown-compat",
    "openai-compat",
    "openai-compatible",
    "openai_compatible",
    "compat",
    "custom",
];

/// Alternative names of providers, and the keys that adapters and prices use.
const ALIASES: [(&str, &str); 30] = [
    ("google", "gemini"),
    ("google-ai-studio", "gemini"),
    ("googleai", "gemini"),
    ("google-vertex", "vertex"),
    ("vertex-ai", "vertex"),
    ("vertexai", "vertex"),
    ("aws", "bedrock"),
    ("aws-bedrock", "bedrock"),
    ("amazon-bedrock", "bedrock"),
    ("azure-openai", "azure"),
    ("azure_openai", "azure"),
    ("mistralai", "mistral"),
    ("x-ai", "xai"),
    ("grok", "xai"),
    ("together-ai", "together"),
    ("togetherai", "together"),
    ("fireworks-ai", "fireworks"),
    ("copilot", "github-copilot"),
    ("githubcopilot", "github-copilot"),
    ("github_copilot", "github-copilot"),
    ("github-models", "github"),
    ("moonshotai", "moonshot"),
    ("dashscope", "alibaba"),
    ("zhipuai", "zai"),
    ("z-ai", "zai"),
    ("hugging-face", "huggingface"),
    ("lmstudio", "lm-studio"),
    ("llamacpp", "llama-cpp"),
    ("llama.cpp", "llama-cpp"),
    ("vercel", "vercel-gateway"),
];

/// Parts of hosts and their providers. A part that starts with a colon is a port, which must be the
/// end of the host. The first match wins.
const HOSTS: [(&str, &str); 66] = [
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("api.openai.com", "openai"),
    ("chatgpt.com", "openai"),
    ("openrouter.ai", "openrouter"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex"),
    ("bedrock-runtime.", "bedrock"),
    ("bedrock-mantle.", "bedrock"),
    ("api.mistral.ai", "mistral"),
    ("codestral.mistral.ai", "mistral"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.x.ai", "xai"),
    ("api.together", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("api.cerebras.ai", "cerebras"),
    ("api.perplexity.ai", "perplexity"),
    ("integrate.api.nvidia.com", "nvidia"),
    ("api.moonshot", "moonshot"),
    ("api.kimi.com", "moonshot"),
    ("dashscope", "alibaba"),
    ("api.z.ai", "zai"),
    ("bigmodel.cn", "zai"),
    ("api.cohere", "cohere"),
    ("router.huggingface.co", "huggingface"),
    ("api-inference.huggingface.co", "huggingface"),
    ("models.github.ai", "github"),
    ("models.inference.ai.azure.com", "github"),
    ("githubcopilot.com", "github-copilot"),
    ("copilot-proxy.githubusercontent.com", "github-copilot"),
    ("ai-gateway.vercel.sh", "vercel-gateway"),
    ("api.writer.com", "writer"),
    ("api.sambanova.ai", "sambanova"),
    ("api.siliconflow", "siliconflow"),
    ("snowflakecomputing.com", "snowflake"),
    ("api.avian.io", "avian"),
    ("crusoecloud.com", "crusoe"),
    ("api.venice.ai", "venice"),
    ("api.deepinfra.com", "deepinfra"),
    ("api.minimax", "minimax"),
    ("api.novita.ai", "novita"),
    ("nebius.com", "nebius"),
    ("api.hyperbolic.xyz", "hyperbolic"),
    ("api.ai21.com", "ai21"),
    ("api.upstage.ai", "upstage"),
    ("api.reka.ai", "reka"),
    ("api.stepfun", "stepfun"),
    ("api.lambda.ai", "lambda"),
    ("inference.baseten.co", "baseten"),
    ("api.friendli.ai", "friendli"),
    ("api.featherless.ai", "featherless"),
    ("api.inference.net", "inference-net"),
    ("llm.chutes.ai", "chutes"),
    ("ark.cn-", "volcengine"),
    ("qianfan.baidubce.com", "baidu"),
    ("hunyuan.cloud.tencent.com", "tencent"),
    ("azuredatabricks.net", "databricks"),
    ("cloud.databricks.com", "databricks"),
    ("ml.cloud.ibm.com", "watsonx"),
    ("api.cloudflare.com", "cloudflare"),
    ("api.portkey.ai", "portkey"),
    (":11434", "ollama"),
    (":1234", "lm-studio"),
];

/// Parts of paths that only the server of one provider has, on any host.
const SERVERS: [(&str, &str); 3] = [
    ("/v1-openai/", "gpustack"),
    ("/api/v2/cortex/", "snowflake"),
    ("/serving-endpoints/", "databricks"),
];

/// Ends of paths and the endpoints that they denote.
const PATHS: [(&str, &str); 11] = [
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/v1/messages", "messages"),
    (":generateContent", "generatecontent"),
    (":streamGenerateContent", "generatecontent"),
    (":rawPredict", "rawpredict"),
    (":streamRawPredict", "rawpredict"),
    ("/converse", "converse"),
    ("/converse-stream", "converse"),
    ("/invoke", "invoke"),
    ("/invoke-with-response-stream", "invoke"),
];

/// Members that only one provider's bodies have: location, name, provider.
const MEMBERS: [(MemberLocation, &str, &str); 10] = [
    (MemberLocation::Request, "venice_parameters", "venice"),
    (MemberLocation::Response, "venice_parameters", "venice"),
    (MemberLocation::Response, "x_groq", "groq"),
    (MemberLocation::Response, "prompt_filter_results", "azure"),
    (
        MemberLocation::Response,
        "copilot_references",
        "github-copilot",
    ),
    (MemberLocation::Response, "copilot_usage", "github-copilot"),
    (MemberLocation::Usage, "cost_in_usd_ticks", "xai"),
    (MemberLocation::Usage, "num_sources_used", "xai"),
    (
        MemberLocation::Usage,
        "prompt_cache_miss_tokens",
        "deepseek",
    ),
    (MemberLocation::Choice, "content_filter_results", "azure"),
];

/// The object that contains a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberLocation {
    /// The request.
    Request,
    /// The response.
    Response,
    /// `usage` of a response.
    Usage,
    /// The first choice of a response.
    Choice,
}

/// Returns the provider's key for one of its names, in any case. Unknown names are unchanged.
pub(crate) fn canonical_provider(name: &str) -> &str {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    if let Some((_, provider)) = ALIASES.iter().find(|(alias, _)| is_it(alias)) {
        return provider;
    }
    if !name.contains(|one: char| one.is_ascii_uppercase()) {
        return name;
    }
    let of_hosts = HOSTS.iter().map(|(_, provider)| *provider);
    let of_adapters = registry::adapters().map(|adapter| adapter.provider());
    let mut keys = of_hosts.chain(of_adapters);
    keys.find(|key| is_it(key)).unwrap_or(name)
}

/// Returns the provider that a recorder's `name` denotes, or `None` for a placeholder or a host.
pub(crate) fn provider_from_name(name: &str) -> Option<&str> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let is_generic = GENERIC.iter().any(|generic| is_it(generic));
    let is_name = !is_generic && !name.contains(['.', ':', '/', ' ']);
    let known = || ALIASES.iter().any(|(alias, _)| is_it(alias));
    (is_name || known()).then(|| canonical_provider(name))
}

/// Returns the provider of a URL by its host (with the port if it has one) and its path.
pub(crate) fn provider_from_address(host: &str, path: &str) -> Option<&'static str> {
    // `contains` would find a port within a longer one.
    let is_host = |known: &str| {
        if known.starts_with(':') {
            host.ends_with(known)
        } else {
            host.contains(known)
        }
    };
    let by_host = HOSTS.iter().find(|(known, _)| is_host(known));
    let by_path = || SERVERS.iter().find(|(part, _)| path.contains(part));
    by_host.or_else(by_path).map(|(_, provider)| *provider)
}

/// Returns the provider of bodies with a member that only one provider has.
pub(crate) fn provider_from_bodies(
    request: Option<&Json>,
    response: Option<&Json>,
) -> Option<&'static str> {
    let has = |body: Option<&Json>, key: &str| body.and_then(|body| body.get(key)).is_some();
    let usage = response.and_then(|response| response.get("usage"));
    let choice = response.and_then(|response| items(response, "choices").first());
    let member = MEMBERS.iter().find(|(location, key, _)| match location {
        MemberLocation::Request => has(request, key),
        MemberLocation::Response => has(response, key),
        MemberLocation::Usage => has(usage, key),
        MemberLocation::Choice => has(choice, key),
    });
    let by_fingerprint = || {
        let fingerprint = response?.get("system_fingerprint")?.as_str()?;
        (fingerprint == "fp_ollama").then_some("ollama")
    };
    member
        .map(|(_, _, provider)| *provider)
        .or_else(by_fingerprint)
}

/// Returns the path of a URL, without host, query and fragment.
pub fn path_of(url: &str) -> &str {
    let rest = url
        .split_once("://")
        .map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    rest.split(['?', '#']).next().unwrap_or_default()
}

/// Returns the host of a URL, with its port; empty if it has none.
pub(crate) fn host_of(url: &str) -> &str {
    url.split_once("://").map_or("", |(_, rest)| {
        rest.split(['/', '?', '#']).next().unwrap_or_default()
    })
}

/// Returns provider and endpoint of a URL; `base` is the host of URLs without one.
pub(crate) fn endpoint_from_url(base: &str, url: &str) -> (String, String) {
    let host = Some(host_of(url))
        .filter(|host| !host.is_empty())
        .unwrap_or(base);
    let path = path_of(url);
    let provider = provider_from_address(host, path);
    let endpoint = endpoint_of_path(provider, path);
    let provider = match (provider, endpoint) {
        (Some(provider), _) => provider,
        (None, "chat" | "responses") => "unknown-compat",
        (None, "messages") => "anthropic",
        (None, _) => host,
    };
    (provider.to_owned(), endpoint.to_owned())
}

/// Returns the endpoint at `path` of a provider; the path itself if the endpoint is unknown.
fn endpoint_of_path<'p>(provider: Option<&str>, path: &'p str) -> &'p str {
    known_endpoint(provider, path).unwrap_or_else(|| path.trim_start_matches('/'))
}

/// Returns the endpoint of a provider, given by one of its names, at a path or URL; `None` if the
/// endpoint is unknown.
pub(crate) fn endpoint_at(provider: &str, address: &str) -> Option<&'static str> {
    let path = path_of(address).trim_end_matches('/');
    known_endpoint(Some(canonical_provider(provider)), path)
}

fn known_endpoint(provider: Option<&str>, path: &str) -> Option<&'static str> {
    // A recorder may leave out the first slash.
    let is_end = |end: &str| path.ends_with(end) || end.strip_prefix('/') == Some(path);
    let known = PATHS.iter().find(|(end, _)| is_end(end));
    match (provider, known.map(|(_, endpoint)| *endpoint)) {
        (Some("ollama"), Some("chat")) => Some("openai-chat"),
        (Some("ollama"), None) if path.ends_with("/api/chat") => Some("chat"),
        (_, endpoint) => endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_and_endpoint_are_detected_from_urls() {
        for (url, expected) in [
            (
                "https://router.huggingface.co/v1/chat/completions",
                ("huggingface", "chat"),
            ),
            (
                "https://models.github.ai/inference/chat/completions",
                ("github", "chat"),
            ),
            (
                "https://ai-gateway.vercel.sh/v1/chat/completions",
                ("vercel-gateway", "chat"),
            ),
            (
                "https://x.cognitiveservices.azure.com/openai/deployments/g/chat/completions?a=1",
                ("azure", "chat"),
            ),
            (
                "https://api.siliconflow.cn/v1/chat/completions",
                ("siliconflow", "chat"),
            ),
            (
                "http://localhost:1234/v1/chat/completions",
                ("lm-studio", "chat"),
            ),
            (
                "http://localhost:12345/v1/chat/completions",
                ("unknown-compat", "chat"),
            ),
            (
                "http://localhost:11434/v1/chat/completions",
                ("ollama", "openai-chat"),
            ),
            (
                "https://api.openai.com/v1/embeddings",
                ("openai", "v1/embeddings"),
            ),
            (
                "https://api.deepseek.com/v1/responses",
                ("deepseek", "responses"),
            ),
            (
                "https://api.individual.githubcopilot.com/chat/completions",
                ("github-copilot", "chat"),
            ),
            (
                "https://api.venice.ai/api/v1/chat/completions",
                ("venice", "chat"),
            ),
            (
                "http://10.0.0.5/v1-openai/chat/completions",
                ("gpustack", "chat"),
            ),
            (
                "https://x.example/api/v2/cortex/v1/chat/completions",
                ("snowflake", "chat"),
            ),
            (
                "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions",
                ("bedrock", "chat"),
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
                ("gemini", "chat"),
            ),
            (
                "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
                ("vertex", "chat"),
            ),
        ] {
            let (provider, endpoint) = endpoint_from_url("", url);
            assert_eq!((provider.as_str(), endpoint.as_str()), expected, "{url}");
        }
    }

    #[test]
    fn placeholder_names_and_hosts_are_not_providers() {
        let names = [
            "venice",
            "google",
            "llama.cpp",
            "unknown-compat",
            "openai-compat",
            "",
            "x.example",
            "localhost:80",
            "OpenAI",
            "Venice",
            "Azure-OpenAI",
            "Unknown",
            "MyProxy",
        ];
        let expected = [
            Some("venice"),
            Some("gemini"),
            Some("llama-cpp"),
            None,
            None,
            None,
            None,
            None,
            Some("openai"),
            Some("venice"),
            Some("azure"),
            None,
            Some("MyProxy"),
        ];
        assert_eq!(names.map(provider_from_name), expected);
    }

    #[test]
    fn distinctive_members_identify_the_provider_of_a_body() {
        for (request, response, expected) in [
            ("{}", r#"{"usage":{"cost_in_usd_ticks":5}}"#, Some("xai")),
            (r#"{"venice_parameters":{}}"#, "{}", Some("venice")),
            (
                "{}",
                r#"{"system_fingerprint":"fp_ollama"}"#,
                Some("ollama"),
            ),
            (
                "{}",
                r#"{"system_fingerprint":"fp_1","choices":[{"message":{}}]}"#,
                None,
            ),
            (
                "{}",
                r#"{"choices":[{"content_filter_results":{}}]}"#,
                Some("azure"),
            ),
        ] {
            let json = |text: &'static str| Json::parse(text.as_bytes()).unwrap();
            assert_eq!(
                provider_from_bodies(Some(&json(request)), Some(&json(response))),
                expected,
                "{response}"
            );
        }
    }

    #[test]
    fn providers_of_adapters_are_canonical_names() {
        let adapters: Vec<&str> = registry::adapters()
            .map(|adapter| adapter.provider())
            .collect();
        for (alias, provider) in ALIASES {
            assert!(
                !adapters.contains(&alias) || alias == provider,
                "{alias} is the key of an adapter"
            );
        }
        for known in [
            "anthropic",
            "gemini",
            "vertex",
            "bedrock",
            "azure",
            "mistral",
            "xai",
            "together",
            "zai",
            "moonshot",
        ] {
            assert!(
                adapters.contains(&known) && HOSTS.iter().any(|(_, provider)| *provider == known),
                "{known}"
            );
        }
    }
}
