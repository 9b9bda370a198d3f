#![allow(missing_docs)]
use gristmill_connectors::wire::dialect;
use gristmill_connectors::wire::error::read_error;
use gristmill_connectors::wire::exchange::{Exchange, ResponseBody};
use gristmill_connectors::wire::read::{Conversation, ReadContext};
use gristmill_connectors::wire::transfer::*;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
#[test]
fn dump() {
    for part in ["exchanges"] {
        let mut files: Vec<_> =
            std::fs::read_dir(format!("/work/shared/transcripts/{part}")).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for f in files {
            for line in std::fs::read(&f).unwrap().split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
                let json = Json::parse(line).unwrap();
                let Some(x) = Exchange::from_json(&json) else { continue };
                let Some(a) = dialect::find(&x.provider, &x.endpoint) else { continue };
                let mut c = Conversation::new("");
                let ctx = ReadContext::at(Timestamp::from_micros(0));
                if let Some(b) = x.request.filter(|b| a.is_request(b)) {
                    let r = read_request(a, b, &mut c, &ctx).unwrap().request;
                    if let Some(raw) = &r.provider_raw {
                        println!(
                            "{}\t{}\tREQ-ENV\t{}\t{}",
                            a.key(),
                            x.id,
                            b.to_string().len(),
                            raw.get(a.key()).unwrap()
                        );
                    }
                    for m in &r.messages {
                        if let Some(raw) = &m.metadata.provider_raw {
                            println!(
                                "{}\t{}\tREQ-{}\t{}\t{}",
                                a.key(),
                                x.id,
                                m.role,
                                b.to_string().len(),
                                raw.get(a.key()).unwrap()
                            );
                        }
                    }
                }
                let folded;
                let b = match &x.response {
                    ResponseBody::None => continue,
                    ResponseBody::Json(b) => *b,
                    ResponseBody::Stream(s) => {
                        folded = a.fold(s.frames().frames).body.into_owned();
                        &folded
                    }
                };
                if !a.is_response(b) {
                    match read_error(a, b) {
                        Some(e) => {
                            if let Some(raw) = &e.provider_raw {
                                println!(
                                    "{}\t{}\tERR\t{}\t{}",
                                    a.key(),
                                    x.id,
                                    b.to_string().len(),
                                    raw.get(a.key()).unwrap()
                                )
                            }
                        }
                        None => println!(
                            "{}\t{}\tOPAQUE\t{}\t{}",
                            a.key(),
                            x.id,
                            b.to_string().len(),
                            b.to_string().chars().take(200).collect::<String>()
                        ),
                    }
                    continue;
                }
                let r = read_response(a, b, &mut c, &ctx).unwrap().response;
                if let Some(raw) = &r.provider_raw {
                    println!("{}\t{}\tRES-ENV\t{}\t{}", a.key(), x.id, b.to_string().len(), raw.get(a.key()).unwrap());
                }
                for ch in &r.choices {
                    if let Some(raw) = &ch.message.metadata.provider_raw {
                        println!(
                            "{}\t{}\tRES-MSG\t{}\t{}",
                            a.key(),
                            x.id,
                            b.to_string().len(),
                            raw.get(a.key()).unwrap()
                        );
                    }
                }
            }
        }
    }
}
