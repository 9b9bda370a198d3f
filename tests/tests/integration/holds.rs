//! Litigation holds at the command line: placing, lifting, listing, and what they bind.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_tests::sandbox::Sandbox;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Flags of every order.
const ORDER: [&str; 4] = ["--authority", "District Court", "--reason", "preservation"];

/// A sandbox with a keyring and a lake of these grains. Returns their addresses.
fn lake_of(grains: &[Value]) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let operations = grains
        .iter()
        .map(|grain| json!({"op": "put", "grain": grain}));
    let answers = sandbox.apply(0, &operations.collect::<Vec<_>>());
    let address = |answer: &Value| answer["content_address"].as_str().unwrap().to_owned();
    let addresses = answers.iter().map(address).collect();
    (sandbox, addresses)
}

fn belief(user: &str, object: &str, more: &Value) -> Value {
    let mut grain = json!({
        "type": "belief", "subject": user, "user_id": user, "relation": "likes", "object": object,
        "confidence": 1.0, "namespace": "shop", "created_at": 1_767_225_600_000_i64,
    });
    let more = more.as_object().cloned().unwrap_or_default();
    grain.as_object_mut().unwrap().extend(more);
    grain
}

/// Runs `hold` with `arguments` and the flags of an order.
fn hold(sandbox: &Sandbox, code: i32, arguments: &[&str]) -> Value {
    let arguments = [&["hold"], arguments, &ORDER].concat();
    sandbox.run("lake", code, &arguments)
}

fn list(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["hold", "list"], arguments].concat();
    let listed = sandbox.run("lake", 0, &arguments);
    listed.as_array().cloned().unwrap_or_default()
}

/// Returns how many grains an erasure of `user` would remove, and how many a hold keeps.
fn erasable(sandbox: &Sandbox, user: &str) -> (u64, u64) {
    let plan = sandbox.run("lake", 0, &["erase", "--user", user]);
    let held = plan["excluded"]["hold"].as_u64().unwrap_or(0);
    (plan["selected"]["grains"].as_u64().unwrap(), held)
}

#[test]
fn a_placed_hold_binds_erasure_and_supersession_until_it_is_lifted() {
    let ada = [
        belief("ada", "tea", &json!({})),
        belief("ada", "chess", &json!({})),
    ];
    let (sandbox, addresses) = lake_of(&[&ada[..], &[belief("ben", "rye", &json!({}))]].concat());
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let placed = hold(&sandbox, 0, &["place", "case-12", "--user", "ada"]);
    assert_eq!(
        (&placed["changed"], &placed["already"]),
        (&json!(2), &json!(0))
    );
    let again = hold(&sandbox, 0, &["place", "case-12", "--user", "ada"]);
    assert_eq!(
        (&again["changed"], &again["already"]),
        (&json!(0), &json!(2))
    );

    assert_eq!(erasable(&sandbox, "ada"), (0, 2));
    sandbox.run("lake", 3, &["erase", "--user", "ada", "--execute"]);
    let supersede = json!({
        "op": "supersede", "address": addresses[0], "grain": belief("ada", "coffee", &json!({})),
    });
    let retract = json!({"op": "retract", "address": addresses[1]});
    for answer in sandbox.apply(3, &[supersede.clone(), retract]) {
        assert_eq!(answer["error"], "ERR_INVALIDATION_DENIED");
        assert!(answer["message"].as_str().unwrap().contains("hold list"));
    }

    let listed = list(&sandbox, &[]);
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0]["hold"], &listed[0]["grains"]),
        (&json!("case-12"), &json!(2))
    );
    assert_eq!(listed[0]["authority"], "District Court");
    let rows = sandbox.sql("lake", "SELECT hold, authority, until FROM holds");
    let row = json!({"hold": "case-12", "authority": "District Court"});
    assert_eq!(rows, json!([row, row]));

    let lifted = hold(
        &sandbox,
        0,
        &["lift", "case-12", "--address", &addresses[0]],
    );
    assert_eq!(lifted["changed"], 1);
    assert_eq!(erasable(&sandbox, "ada"), (1, 1));
    sandbox.apply(0, &[supersede]);
    let lifted = hold(&sandbox, 0, &["lift", "case-12"]);
    assert_eq!(
        (&lifted["changed"], &lifted["already"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(erasable(&sandbox, "ada"), (3, 0));
    assert_eq!(list(&sandbox, &[]), Vec::<Value>::new());
    assert_eq!(list(&sandbox, &["--ended"])[0]["lifted"], 2);
    sandbox.run(
        "lake",
        0,
        &["erase", "--user", "ada", "--execute", "--exclusive"],
    );
    assert_eq!(list(&sandbox, &["--ended"]), Vec::<Value>::new());
    sandbox.run("lake", 0, &["audit", "verify"]);
    let audited = "SELECT details FROM audit WHERE action = 'hold lift'";
    let audited = sandbox.sql("lake", audited)[0]["details"].to_string();
    assert!(
        audited.contains("case-12") && !audited.contains("Court"),
        "{audited}"
    );
}

#[test]
fn a_hold_that_a_grain_states_is_lifted_by_those_whom_its_policy_authorizes() {
    let sandbox = Sandbox::new();
    let key = sandbox.run("lake", 0, &["keys", "generate", "counsel"]);
    let stated = json!({"invalidation_policy": {"mode": "hold", "authorized": [key["did"]]}});
    let tagged = json!({"structural_tags": ["legal:litigation_hold"]});
    let referring = json!({"context": {"legal:hold_ref": "matter-9"}});
    let grains = [
        ("tea", &stated),
        ("chess", &tagged),
        ("rye", &referring),
        ("x", &json!({})),
    ];
    let puts =
        grains.map(|(object, more)| json!({"op": "put", "grain": belief("ada", object, more)}));
    let addresses = sandbox.apply(0, &puts);
    let addresses: Vec<&str> = addresses
        .iter()
        .map(|it| it["content_address"].as_str().unwrap())
        .collect();
    let origins: BTreeMap<String, u64> = list(&sandbox, &[])
        .iter()
        .map(|hold| {
            (
                hold["origin"].as_str().unwrap().to_owned(),
                hold["grains"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [("policy", 1), ("reference", 1), ("tag", 1)];
    assert_eq!(
        origins,
        expected
            .map(|(name, count)| (name.to_owned(), count))
            .into()
    );
    assert_eq!(erasable(&sandbox, "ada"), (1, 3));

    for address in &addresses[1..3] {
        hold(&sandbox, 0, &["lift", "stated", "--address", address]);
    }
    let refused = hold(&sandbox, 3, &["lift", "stated", "--address", addresses[0]]);
    assert_eq!(refused["denied"], 1);
    // It states none.
    hold(&sandbox, 2, &["lift", "stated", "--address", addresses[3]]);
    assert_eq!(erasable(&sandbox, "ada"), (3, 1));
    let release = json!({
        "op": "release", "address": addresses[0], "hold": "stated", "actor": "counsel",
        "reason": "settled",
    });
    std::fs::write(sandbox.path("release.json"), release.to_string()).unwrap();
    let authorize = ["grain", "authorize", "--key", "counsel", "release.json"];
    let signed = sandbox.output("lake", &authorize).stdout;
    let signed: Value = serde_json::from_slice(&signed).unwrap();
    let mut signed_release = release.clone();
    signed_release["authorization_hex"] = json!([signed["authorization_hex"]]);
    sandbox.apply(3, &[release]);
    sandbox.apply(0, &[signed_release]);
    assert_eq!(erasable(&sandbox, "ada"), (4, 0));
    assert_eq!(list(&sandbox, &[]), Vec::<Value>::new());
}

#[test]
fn a_request_that_selects_nothing_or_the_absent_changes_nothing() {
    let (sandbox, addresses) = lake_of(&[belief("ada", "tea", &json!({}))]);
    let absent = "ab".repeat(32);
    for (code, arguments) in [
        (1, vec!["place", "case"]),
        (1, vec!["place", "a case", "--user", "ada"]),
        (1, vec!["place", "stated", "--user", "nobody"]),
        (1, vec!["place", "case", "--user", "nobody"]),
        (
            1,
            vec![
                "place",
                "case",
                "--address",
                &addresses[0],
                "--address",
                &absent,
            ],
        ),
        (1, vec!["place", "case", "--address", "xyz"]),
        (1, vec!["place", "case", "--user", "ada", "--until", "soon"]),
        (
            2,
            vec!["place", "case", "--user", "ada", "--until", "2020-01-01"],
        ),
        (2, vec!["place", "stated", "--user", "ada"]),
        (1, vec!["lift", "case"]),
        (1, vec!["lift", "stated"]),
        (1, vec!["lift", "case", "--address", &absent]),
    ] {
        hold(&sandbox, code, &arguments);
        assert_eq!(
            sandbox.sql("lake", "SELECT * FROM state"),
            json!([]),
            "{arguments:?}"
        );
    }
    let dry = hold(
        &sandbox,
        0,
        &["place", "case", "--user", "ada", "--dry-run"],
    );
    assert_eq!(
        (&dry["changed"], &dry["dry_run"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(sandbox.sql("lake", "SELECT * FROM state"), json!([]));
}

#[test]
fn a_file_without_addresses_lifts_no_hold() {
    let (sandbox, _) = lake_of(&[belief("ada", "tea", &json!({}))]);
    hold(&sandbox, 0, &["place", "case", "--user", "ada"]);
    std::fs::write(sandbox.path("none.txt"), "\n").unwrap();
    hold(&sandbox, 1, &["lift", "case", "--addresses", "none.txt"]);
    hold(&sandbox, 1, &["lift", "case", "--address", ""]);
    assert_eq!(erasable(&sandbox, "ada"), (0, 1));
    hold(&sandbox, 0, &["lift", "case"]);
    assert_eq!(erasable(&sandbox, "ada"), (1, 0));
}

#[test]
fn the_name_of_a_hold_must_not_name_its_people() {
    let user = "ada-4711-k9";
    let (sandbox, _) = lake_of(&[belief(user, "tea", &json!({}))]);
    hold(&sandbox, 1, &["place", "case:ada-4711-k9", "--user", user]);
    assert_eq!(sandbox.sql("lake", "SELECT * FROM state"), json!([]));
    hold(&sandbox, 0, &["place", "case-12", "--user", user]);
}

#[test]
fn a_hold_on_a_namespace_covers_its_grains_and_ends_by_itself() {
    let namespace = |name: &str| json!({"namespace": name});
    let grains = [
        belief("ada", "tea", &namespace("legal:acme")),
        belief("ada", "chess", &namespace("legal:other")),
        belief("ada", "rye", &namespace("legal")),
    ];
    // On a busy machine a hold may end before the next command.
    let held = |milliseconds| {
        let (sandbox, _) = lake_of(&grains);
        let until = chrono::Utc::now() + chrono::Duration::milliseconds(milliseconds);
        let end = until.to_rfc3339();
        let flags = ["place", "case", "--namespace", "legal:*", "--until", &end];
        let changed = hold(&sandbox, 0, &flags)["changed"].as_u64();
        let found = erasable(&sandbox, "ada");
        (chrono::Utc::now() < until).then_some((sandbox, until, changed, found))
    };
    let held = [2_500, 20_000, 160_000].into_iter().find_map(held);
    let (sandbox, until, changed, found) = held.expect("commands that take less time");
    assert_eq!((changed, found), (Some(2), (1, 2)));
    let left = (until - chrono::Utc::now()).to_std().unwrap_or_default();
    std::thread::sleep(left + std::time::Duration::from_millis(100));
    assert_eq!(erasable(&sandbox, "ada"), (3, 0));
    assert_eq!(sandbox.sql("lake", "SELECT * FROM holds"), json!([]));
    assert_eq!(list(&sandbox, &[]), Vec::<Value>::new());
    assert_eq!(
        list(&sandbox, &["case", "--ended", "--grains"])[1]["status"],
        "ended"
    );
}

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Place(u8, u8),
    Lift(u8, u8),
    Erase(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8, 0..4_u8).prop_map(|(hold, user)| Step::Place(hold, user)),
        (0..3_u8, 0..4_u8).prop_map(|(hold, user)| Step::Lift(hold, user)),
        (0..4_u8).prop_map(Step::Erase),
    ]
}

/// The grains of four users (a pair each), and which holds are on them.
struct Model {
    grains: BTreeMap<String, (String, BTreeSet<u8>)>,
}

impl Model {
    /// Carries out `step` on the model. Returns the exit code that the command must have.
    fn carry_out(&mut self, step: &Step) -> i32 {
        match step {
            Step::Place(hold, user) => {
                let own = self.own(*user);
                own.iter().for_each(|address| {
                    self.grains.get_mut(address).unwrap().1.insert(*hold);
                });
                i32::from(own.is_empty())
            }
            Step::Lift(hold, user) => {
                let own = self.own(*user);
                let is_held = |address: &String| self.grains[address].1.contains(hold);
                let held: Vec<_> = own.iter().filter(|it| is_held(it)).cloned().collect();
                held.iter().for_each(|address| {
                    self.grains.get_mut(address).unwrap().1.remove(hold);
                });
                i32::from(held.is_empty())
            }
            Step::Erase(user) => {
                let own = self.own(*user);
                let free: Vec<_> = own
                    .iter()
                    .filter(|it| self.grains[*it].1.is_empty())
                    .collect();
                free.iter().for_each(|address| {
                    self.grains.remove(*address);
                });
                if free.is_empty() && !own.is_empty() {
                    3
                } else {
                    0
                }
            }
        }
    }

    fn own(&self, user: u8) -> Vec<String> {
        let name = format!("user-{user}");
        let own = self.grains.iter().filter(|(_, (owner, _))| *owner == name);
        own.map(|(address, _)| address.clone()).collect()
    }
}

/// Each case runs some thirty commands.
fn few_cases() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 8,
        failure_persistence: None,
        ..ProptestConfig::with_cases(3)
    }
}

proptest! {
    #![proptest_config(few_cases())]

    /// Random holds, lifts and erasures leave exactly the grains that a naive model leaves.
    #[test]
    fn random_holds_and_erasures_leave_what_a_naive_model_leaves(
        steps in proptest::collection::vec(step(), 6..14),
    ) {
        let users: Vec<String> = (0..8).map(|number| format!("user-{}", number / 2)).collect();
        let grains: Vec<Value> = users
            .iter()
            .enumerate()
            .map(|(number, user)| belief(user, &format!("thing {number}"), &json!({})))
            .collect();
        let (sandbox, addresses) = lake_of(&grains);
        sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
        let grains = addresses.into_iter().zip(users);
        let mut model = Model {
            grains: grains.map(|(address, user)| (address, (user, BTreeSet::new()))).collect(),
        };
        for step in &steps {
            let held = |hold: &u8, own: &[String]| -> Vec<String> {
                let is_held = |it: &&String| model.grains[*it].1.contains(hold);
                own.iter().filter(is_held).cloned().collect()
            };
            match step {
                Step::Place(hold, user) => {
                    let (name, user) = (format!("case-{hold}"), format!("user-{user}"));
                    let code = model.carry_out(step);
                    self::hold(&sandbox, code, &["place", &name, "--user", &user]);
                }
                Step::Lift(hold, user) => {
                    let held = held(hold, &model.own(*user));
                    model.carry_out(step);
                    for address in held {
                        let name = format!("case-{hold}");
                        self::hold(&sandbox, 0, &["lift", &name, "--address", &address]);
                    }
                }
                Step::Erase(user) => {
                    let user = format!("user-{user}");
                    let flags = ["erase", "--user", &user, "--execute", "--exclusive"];
                    let code = model.carry_out(step);
                    sandbox.run("lake", code, &flags);
                }
            }
            let left: BTreeSet<String> = model.grains.keys().cloned().collect();
            prop_assert_eq!(sandbox.addresses("lake", "true"), left, "{:?}", step);
            let held = model.grains.values().map(|(_, holds)| holds.len() as u64).sum::<u64>();
            let listed = list(&sandbox, &["--grains"]).len() as u64;
            prop_assert_eq!(listed, held, "{:?}", step);
        }
    }
}

#[test]
fn texts_of_legal_acts_that_name_an_erased_person_stay_and_are_in_the_certificate() {
    let grains = ["moy-4711-k9", "ben"].map(|user| belief(user, "tea", &json!({})));
    let (sandbox, _) = lake_of(&grains);
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    hold(&sandbox, 0, &["place", "case-moy-4711-k9", "--user", "ben"]);
    let reason = "moy-4711-k9 agreed";
    let exported = sandbox.output("lake", &["export", "out.mg", "--override-reason", reason]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let erase = ["erase", "--user", "moy-4711-k9", "--execute", "--exclusive"];
    let erased = sandbox.run("lake", 0, &erase);
    assert_eq!(erased["proven"], true, "{erased:#}");
    let retained = erased["proofs"]["byte_search"]["retained_texts"].as_array();
    let retained = retained.unwrap();
    let entries: Vec<_> = retained
        .iter()
        .flat_map(|texts| texts["entries"].as_array().cloned().unwrap_or_default())
        .collect();
    let audited = "SELECT sequence FROM audit WHERE details LIKE '%moy-4711-k9%' ORDER BY sequence";
    let audited = sandbox.sql("lake", audited);
    let audited = audited.as_array().unwrap().iter();
    let audited: BTreeSet<_> = audited.map(|row| row["sequence"].as_i64()).collect();
    let entries: BTreeSet<_> = entries.iter().map(Value::as_i64).collect();
    assert_eq!((entries.len(), entries), (2, audited));
    let in_state = |texts: &&Value| texts["file"].as_str().unwrap().starts_with("state/");
    assert_eq!(retained.iter().filter(in_state).count(), 1, "{retained:#?}");

    let certificate = erased["certificate"].as_str().unwrap();
    let certificate = format!("lake/{certificate}");
    let shown = sandbox.run("lake", 0, &["certificate", "verify", &certificate]);
    let exceptions = &shown["certificate"]["exceptions"];
    assert_eq!(exceptions["legal_act"], 3, "{shown:#}");
    sandbox.run("lake", 0, &["verify"]);
}
