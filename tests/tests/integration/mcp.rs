//! `gristmill mcp`: a session of JSON-RPC lines, and one with the client of the Python package
//! `mcp`, which is skipped with a message where Python lacks it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gristmill_tests::binary;
use gristmill_tests::lake::TestLake;
use serde_json::{Value, json};

/// Beliefs and an event of two namespaces.
const GRAINS: [&str; 4] = [
    r#"{"type":"belief","subject":"ada","relation":"mg:prefers","object":"green tea","confidence":0.9,"namespace":"home","user_id":"u-1","created_at":1767225600000}"#,
    r#"{"type":"belief","subject":"bob","relation":"mg:prefers","object":"coffee","confidence":0.8,"namespace":"home","user_id":"u-2","created_at":1767225601000}"#,
    r#"{"type":"event","role":"user","content":"The tea is out again.","session_id":"s-1","namespace":"home","user_id":"u-1","created_at":1767225602000}"#,
    r#"{"type":"belief","subject":"ada","relation":"mg:prefers","object":"secret tea","confidence":0.9,"namespace":"work","created_at":1767225603000}"#,
];

const ADD: &str =
    r#"ADD belief SET subject = "a" SET relation = "mg:knows" SET object = "b" REASON "r""#;

/// A running `gristmill mcp` whose session is open.
struct McpClient {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl McpClient {
    fn start(lake: &TestLake, options: &[&str]) -> McpClient {
        let mut process = binary::program()
            .arg("--lake")
            .arg(lake.folder().join("lake"))
            .arg("mcp")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = McpClient {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            requests: 0,
        };
        let opened = client.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        assert_eq!(opened["result"]["serverInfo"]["name"], "gristmill");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_ref().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{line}");
        answer
    }

    /// Calls a tool; returns whether it failed, and its text.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let answer = self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (result["isError"] == true, text)
    }

    /// Calls a tool that must succeed; returns its text as JSON.
    fn ask(&mut self, tool: &str, arguments: Value) -> Value {
        let (failed, text) = self.call(tool, arguments);
        assert!(!failed, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Closes standard input; the process must then end with success.
    fn close(mut self) {
        self.input = None;
        assert!(self.process.wait().unwrap().success());
    }
}

fn objects(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().into_iter().flatten();
    results
        .map(|grain| grain["object"].as_str().unwrap_or_default())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_answer_from_the_lake() {
    let lake = TestLake::of(&GRAINS).await;
    let mut client = McpClient::start(&lake, &[]);
    assert_eq!(
        client.tools(),
        ["search", "recall", "assemble", "describe"],
        "a session is read-only by default"
    );
    let found = client.ask("search", json!({ "query": "tea" }));
    assert_eq!(found["total"], 3, "{found}");
    assert!(
        found["results"][0]["score"].as_f64().unwrap() < 1.0,
        "{found}"
    );
    let recalled = client.ask(
        "recall",
        json!({ "type": "belief", "subject": "bob", "where": { "confidence": 0.8 } }),
    );
    assert_eq!(objects(&recalled), ["coffee"]);
    let address = recalled["results"][0]["address"].as_str().unwrap();
    let same = client.ask(
        "recall",
        json!({ "cal": format!("RECALL WHERE hash = {address}") }),
    );
    assert_eq!(objects(&same), ["coffee"]);
    let (failed, text) = client.call(
        "assemble",
        json!({ "topic": "tea", "subjects": ["ada"], "budget": 200, "format": "text" }),
    );
    assert!(!failed && text.contains("green tea"), "{text}");
    let contents = client.ask("describe", json!({}));
    assert_eq!(contents["entries"]["beliefs_count"], 3, "{contents}");
    let fields = client.ask("describe", json!({ "topic": "fields", "type": "event" }));
    assert!(
        fields["value"].as_array().unwrap().len() > 10,
        "the fields of an event: {fields}"
    );
    client.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_namespace_learns_nothing_of_others() {
    let lake = TestLake::of(&GRAINS).await;
    let mut client = McpClient::start(&lake, &["--namespace", "home", "--user", "u-1"]);
    let contents = client.ask("describe", json!({}));
    assert_eq!(contents["entries"]["beliefs_count"], 2, "{contents}");
    for (tool, arguments) in [
        ("search", json!({ "query": "tea secret" })),
        ("recall", json!({ "subject": "ada" })),
        ("recall", json!({ "where": { "namespace": "work" } })),
        ("recall", json!({ "cal": "RECALL IN \"work\"" })),
        (
            "assemble",
            json!({ "topic": "secret", "subjects": ["ada"] }),
        ),
    ] {
        let (_, text) = client.call(tool, arguments.clone());
        assert!(!text.contains("secret tea"), "{tool} {arguments}: {text}");
    }
    let mine = client.ask("recall", json!({ "mine": true, "type": "belief" }));
    assert_eq!(objects(&mine), ["green tea"]);
    client.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_a_code_and_a_remedy_and_the_session_goes_on() {
    let lake = TestLake::of(&GRAINS).await;
    let mut client = McpClient::start(&lake, &[]);
    for (tool, arguments, code) in [
        ("recall", json!({ "type": "beliefs" }), "CAL-E003"),
        ("recall", json!({ "cal": "RECALL belief" }), "CAL-E003"),
        ("recall", json!({ "limit": 5000 }), "CAL-E010"),
        ("recall", json!({ "cal": ADD }), "CAL-E044"),
        (
            "assemble",
            json!({ "topic": "x", "format": "pdf" }),
            "CAL-E002",
        ),
    ] {
        let (failed, text) = client.call(tool, arguments.clone());
        let error: Value = serde_json::from_str(&text).unwrap();
        assert!(failed && error["code"] == code, "{arguments}: {text}");
        assert!(error["suggestion"].is_string(), "{arguments}: {text}");
    }
    for parameters in [
        json!({ "name": "remember", "arguments": {} }),
        json!({ "name": "search", "arguments": { "quiry": "tea" } }),
    ] {
        let answer = client.request("tools/call", parameters);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(
        client.ask("search", json!({ "query": "coffee" }))["total"],
        1
    );
    client.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_answers_are_truncated_with_a_note() {
    let grains: Vec<String> = (0..60)
        .map(|number| {
            format!(
                r#"{{"type":"event","role":"user","content":"{} {number}","created_at":{}}}"#,
                "tea ".repeat(300),
                1_767_225_600_000_u64 + number
            )
        })
        .collect();
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    let lake = TestLake::of(&grains).await;
    let mut client = McpClient::start(&lake, &["--max-tokens", "1000"]);
    let (_, text) = client.call("search", json!({ "query": "tea", "limit": 60 }));
    let answer: Value = serde_json::from_str(&text).unwrap();
    let shown = answer["results"].as_array().unwrap().len() as u64;
    assert_eq!(answer["left_out"].as_u64().unwrap() + shown, 60, "{text}");
    assert!(text.len() < 5_000, "{} bytes", text.len());
    client.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_is_read_back() {
    let lake = TestLake::of(&GRAINS).await;
    let mut client = McpClient::start(
        &lake,
        &["--allow-writes", "--namespace", "home", "--user", "u-1"],
    );
    assert!(client.tools().contains(&"remember".to_owned()));
    let fields = json!({ "subject": "ada", "relation": "mg:knows", "object": "Grace" });
    client.ask(
        "remember",
        json!({ "fields": fields, "reason": "she said so" }),
    );
    let known = client.ask("recall", json!({ "relation": "mg:knows" }));
    assert_eq!(objects(&known), ["Grace"]);
    let address = known["results"][0]["address"].clone();
    client.ask(
        "remember",
        json!({ "supersedes": address, "fields": { "object": "Edsger" }, "reason": "a mistake" }),
    );
    let known = client.ask("recall", json!({ "relation": "mg:knows" }));
    assert_eq!(objects(&known), ["Edsger"]);
    client.close();
}

/// Calls each tool with the client of the package `mcp`.
const SCRIPT: &str = r#"
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["--lake", sys.argv[2], "mcp"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        found = await session.call_tool("search", {"query": "tea"})
        print(json.loads(found.content[0].text)["total"])
        context = await session.call_tool("assemble", {"topic": "coffee", "format": "text"})
        print("coffee" in context.content[0].text)
        print(json.loads((await session.call_tool("describe", {})).content[0].text)["entries"]["events_count"])
        wrong = await session.call_tool("recall", {"type": "beleif"})
        print(json.loads(wrong.content[0].text)["code"])

asyncio.run(main())
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_the_python_package_uses_the_tools() {
    let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_package = Command::new(&python).args(["-c", "import mcp"]).output();
    if !has_package.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: `{python}` lacks the package mcp (GRISTMILL_PYTHON names another)");
        return;
    }
    let lake = TestLake::of(&GRAINS).await;
    let mut client = Command::new(python);
    binary::without_settings(&mut client);
    let output = client
        .args(["-c", SCRIPT])
        .arg(binary::path())
        .arg(lake.folder().join("lake"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "['search', 'recall', 'assemble', 'describe']\n3\nTrue\n1\nCAL-E003\n"
    );
}
