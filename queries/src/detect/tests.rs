//! Positive and negative examples of all detectors.

use proptest::prelude::*;

use super::*;

fn found(text: &str) -> Vec<(&'static str, &str)> {
    let mut all = Vec::new();
    scan(text, |find| all.push((find.kind.name(), &text[find.range])));
    all
}

#[track_caller]
fn finds(text: &str, kind: PersonalDataKind, what: &str) {
    assert_eq!(found(text), [(kind.name(), what)], "in {text:?}");
}

#[track_caller]
fn leaves(text: &str) {
    assert_eq!(found(text), [], "in {text:?}");
}

#[test]
fn e_mail_addresses_in_many_places() {
    finds(
        "write to ada.lovelace+work@mail.example.org, please",
        PersonalDataKind::Email,
        "ada.lovelace+work@mail.example.org",
    );
    finds(
        "<mailto:ada@example.com>",
        PersonalDataKind::Email,
        "ada@example.com",
    );
    finds(
        "{\"to\":\"ada@example.com\"}",
        PersonalDataKind::Email,
        "ada@example.com",
    );
    finds(
        "Ada at ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ!",
        PersonalDataKind::Email,
        "ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ",
    );
    finds(
        "jürgen@müller.de.",
        PersonalDataKind::Email,
        "jürgen@müller.de",
    );
    finds(
        "ada\u{200b}@example.com",
        PersonalDataKind::Email,
        "ada\u{200b}@example.com",
    );
}

#[test]
fn what_only_looks_like_an_e_mail_address() {
    for text in [
        "thanks @ada and @grace",
        "logo@2x.png",
        "left-pad@1.3.0",
        "git@github.com:org/repo.git",
        "https://ada:secret@example.com/x",
        "ada@localhost",
        "a @ b.com",
        "@@@@@@",
        "x@.com",
    ] {
        leaves(text);
    }
}

#[test]
fn phone_numbers_as_people_write_them() {
    for text in [
        "+49 30 901820",
        "+1 (415) 555-2671",
        "+442079460958",
        "(415) 555-2671",
        "415-555-2671",
        "1-415-555-2671",
        "020 7946 0958",
        "06 12 34 56 78",
        "0049 30 901820",
    ] {
        finds(&format!("ring {text} today"), PersonalDataKind::Phone, text);
    }
    for (before, after) in [
        ("\u{202a}", "\u{202c}"),
        ("\u{2066}", "\u{2069}"),
        ("\u{200e}", "\u{200e}"),
        ("„", "“"),
        ("☎\u{fe0f}", "…"),
        ("📞", "。"),
    ] {
        for number in ["+49 30 901820", "415-555-2671"] {
            let masked = mask(&format!("{before}{number}{after}")).into_owned();
            assert!(!masked.contains(char::is_numeric), "{before:?}: {masked}");
        }
    }
    finds("Tel. 030 901820", PersonalDataKind::Phone, "030 901820");
    finds("phone: 9018200", PersonalDataKind::Phone, "9018200");
    finds("+٤٩ ٣٠ ٩٠١٨٢٠", PersonalDataKind::Phone, "+٤٩ ٣٠ ٩٠١٨٢٠");
    finds(
        "415\u{2011}555\u{2011}2671",
        PersonalDataKind::Phone,
        "415\u{2011}555\u{2011}2671",
    );
}

#[test]
fn numbers_between_letters_that_need_no_spaces() {
    for (text, masked) in [
        ("身份证号11010519491231002X。", "身份证号[cn_resident_id]。"),
        ("カード4111111111111111を使う", "カード[payment_card]を使う"),
        ("카드 4111111111111111입니다", "카드 [payment_card]입니다"),
        ("โทร+66 2 123 4567นะ", "โทร[phone]นะ"),
        ("账户DE89370400440532013000已开", "账户[iban]已开"),
        ("密钥AKIAIOSFODNN7EXAMPLE泄露", "密钥[credential]泄露"),
        ("第4111111111111112号", "第4111111111111112号"),
    ] {
        assert_eq!(mask(text), masked);
    }
    // Letters of other scripts belong to the word.
    leaves("ж4111111111111111");
}

#[test]
fn a_long_dash_ends_what_is_before_it() {
    for (text, masked) in [
        ("ask ada@example.com—she knows", "ask [email]—she knows"),
        ("card 4111 1111 1111 1111—gone", "card [payment_card]—gone"),
        ("his card—4111 1111 1111 1111", "his card—[payment_card]"),
    ] {
        assert_eq!(mask(text), masked);
    }
}

#[test]
fn what_only_looks_like_a_phone_number() {
    for text in [
        "from 2024-11-22 to 2025-01-03",
        "12/31/1999",
        "3.141592653589793",
        "550e8400-e29b-41d4-a716-446655440000",
        "1735689600000",
        "lines 1000 2000 3000",
        "x+1234567 bytes",
        "1,234,567,890",
        "ISBN 978-3-16-148410-0",
        "order 12-415-555-2671",
        "sha256:0123456789012345678901234567890123456789012345678901234567890123",
        "+11111111111",
        "2025-11-22T02:00:34.123456Z",
    ] {
        leaves(text);
    }
}

#[test]
fn payment_cards_need_an_issuer_and_a_check_digit() {
    for text in [
        "4111 1111 1111 1111",
        "4111111111111111",
        "5555-5555-5555-4444",
        "378282246310005",
        "3782 822463 10005",
    ] {
        finds(
            &format!("card {text}."),
            PersonalDataKind::PaymentCard,
            text,
        );
    }
    for text in [
        "4111 1111 1111 1112",
        "4111 1111-1111 1111",
        "9111111111111111",
        "4111111111111111a",
        "0000 0000 0000 0000",
    ] {
        leaves(text);
    }
}

#[test]
fn an_iban_needs_its_countrys_length_and_check_digits() {
    for text in [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "GB82WEST12345698765432",
        "NO9386011117947",
    ] {
        finds(
            &format!("to {text} by Friday"),
            PersonalDataKind::Iban,
            text,
        );
    }
    for text in [
        "DE89370400440532013001",
        "DE8937040044053201300",
        "ZZ89370400440532013000",
        "XDE89370400440532013000",
    ] {
        leaves(text);
    }
}

#[test]
fn national_identifiers_of_many_states() {
    finds("SSN 536-90-4399", PersonalDataKind::UsSsn, "536-90-4399");
    finds("ssn: 536904399", PersonalDataKind::UsSsn, "536904399");
    finds(
        "NI number AB 12 34 56 C",
        PersonalDataKind::UkNino,
        "AB 12 34 56 C",
    );
    finds("AB123456C", PersonalDataKind::UkNino, "AB123456C");
    finds(
        "Steuer-ID 86 095 742 719",
        PersonalDataKind::DeTaxId,
        "86 095 742 719",
    );
    finds("IdNr 86095742719", PersonalDataKind::DeTaxId, "86095742719");
    finds(
        "NIR 2 55 08 14 168 025 38",
        PersonalDataKind::FrNir,
        "2 55 08 14 168 025 38",
    );
    finds("DNI 12345678Z", PersonalDataKind::EsDni, "12345678Z");
    finds("NIE X1234567L", PersonalDataKind::EsDni, "X1234567L");
    finds(
        "CF RSSMRA85T10A562S",
        PersonalDataKind::ItCodiceFiscale,
        "RSSMRA85T10A562S",
    );
    finds("BSN 111222333", PersonalDataKind::NlBsn, "111222333");
    finds(
        "PESEL 44051401359",
        PersonalDataKind::PlPesel,
        "44051401359",
    );
    finds(
        "811218-9876",
        PersonalDataKind::SePersonnummer,
        "811218-9876",
    );
    finds(
        "CPF 529.982.247-25",
        PersonalDataKind::BrCpf,
        "529.982.247-25",
    );
    finds(
        "Aadhaar 2341 2341 2346",
        PersonalDataKind::InAadhaar,
        "2341 2341 2346",
    );
    finds(
        "11010519491231002X",
        PersonalDataKind::CnResidentId,
        "11010519491231002X",
    );
    finds(
        "social insurance number 046 454 286",
        PersonalDataKind::CaSin,
        "046 454 286",
    );
}

#[test]
fn names_of_fields_name_a_number() {
    let text = "social_security_number=536904399 socialSecurityNumber 536904399 taxId 86095742719";
    let masked = "social_security_number=[us_ssn] socialSecurityNumber [us_ssn] taxId [de_tax_id]";
    assert_eq!(mask(text), masked);
    let phone = r#"{"phoneNumber":"4155552671"}"#;
    assert_eq!(mask(phone), r#"{"phoneNumber":"[phone]"}"#);
}

#[test]
fn wrong_check_digits_and_missing_names_are_left_alone() {
    for text in [
        "000-12-3456",
        "666-12-3456",
        "078-05-1120",
        "536904399",
        "QQ123456C",
        "AB123456E",
        "86 095 742 718",
        "86095742719",
        "DNI 12345678A",
        "12345678Z",
        "X1234567A",
        "RSSMRA85T10A562T",
        "111222333",
        "44051401359",
        "811218-9875",
        "529.982.247-26",
        "2341 2341 2345",
        "110105194912310021",
    ] {
        leaves(text);
    }
}

#[test]
fn public_addresses_of_machines_and_no_versions() {
    finds(
        "from 81.2.69.142:443",
        PersonalDataKind::IpAddress,
        "81.2.69.142",
    );
    finds(
        "2a00:1450:4001:81b::200e",
        PersonalDataKind::IpAddress,
        "2a00:1450:4001:81b::200e",
    );
    for text in [
        "10.0.0.1",
        "192.168.1.1",
        "127.0.0.1",
        "version 10.15.7.12",
        "1.2.3.4",
        "256.1.1.1",
        "8.8.8.8.8",
        "at 12:30:45",
        "std::cmp::min",
        "2001:db8::1",
        "fe80::1",
        "2024:12",
    ] {
        leaves(text);
    }
}

#[test]
fn dates_of_birth_need_the_word() {
    finds(
        "born on 1985-12-10 in Rome",
        PersonalDataKind::DateOfBirth,
        "1985-12-10",
    );
    finds(
        "DOB: 12/10/1985",
        PersonalDataKind::DateOfBirth,
        "12/10/1985",
    );
    leaves("released on 1985-12-10");
    leaves("born 1985-13-45");
}

#[test]
fn credentials_by_their_beginnings() {
    finds(
        "key sk-proj-abc123def456ghi789jkl0",
        PersonalDataKind::Credential,
        "sk-proj-abc123def456ghi789jkl0",
    );
    finds(
        "AKIAIOSFODNN7EXAMPLE",
        PersonalDataKind::Credential,
        "AKIAIOSFODNN7EXAMPLE",
    );
    finds(
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        PersonalDataKind::Credential,
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    );
    finds(
        "-----BEGIN RSA PRIVATE KEY-----\nMII",
        PersonalDataKind::Credential,
        "-----BEGIN RSA PRIVATE KEY-----\nMII",
    );
    finds(
        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLWl0",
        PersonalDataKind::Credential,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLWl0",
    );
    finds(
        "log in with eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLWl0.",
        PersonalDataKind::Credential,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLWl0",
    );
    for token in [
        "ghr_16C7e42F292c6912E7710c838347Ae178B4a",
        "xapp-1-A0123456789-0123456789-abcdef",
    ] {
        finds(token, PersonalDataKind::Credential, token);
    }
    for text in [
        "task-oriented",
        "risk-free-and-quite-long-words-only",
        "AKIA is a prefix",
        "-----BEGIN PUBLIC KEY-----",
    ] {
        leaves(text);
    }
}

#[test]
fn a_private_key_is_masked_to_its_last_line() {
    for (text, masked) in [
        (
            "key:\n-----BEGIN PRIVATE KEY-----\nMIIE+v/Q==\n-----END PRIVATE KEY-----\nThanks",
            "key:\n[credential]\nThanks",
        ),
        (
            r#"{"k":"-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\n"}"#,
            r#"{"k":"[credential]\n"}"#,
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n\n\
             ab3c\n-----END RSA PRIVATE KEY----- -----BEGIN PRIVATE KEY-----\nMII",
            "[credential] [credential]",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE\nab3c ... ada@example.com",
            "[credential] ... [email]",
        ),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v1.4.11 (GNU/Linux)\n\n\
             lQO+\n=njUN\n-----END PGP PRIVATE KEY BLOCK-----\nThanks",
            "[credential]\nThanks",
        ),
        (
            "-----BEGIN PRIVATE KEY-----, -----BEGIN PUBLIC KEY-----",
            "[credential], -----BEGIN PUBLIC KEY-----",
        ),
    ] {
        assert_eq!(mask(text), masked, "{text:?}");
    }
}

#[test]
fn several_finds_come_in_their_order_and_are_masked() {
    let text = "ada@example.com, +49 30 901820, DE89370400440532013000";
    assert_eq!(
        found(text)
            .iter()
            .map(|(kind, _)| *kind)
            .collect::<Vec<_>>(),
        ["email", "phone", "iban"]
    );
    assert_eq!(mask(text), "[email], [phone], [iban]");
    assert!(matches!(mask("nothing here"), Cow::Borrowed(_)));
}

#[test]
fn hostile_text_takes_linear_time() {
    for unit in [
        "@",
        "1 ",
        "1-",
        ":",
        "a@",
        "+1",
        "2001:",
        "sk-",
        "eyJ.",
        "AKIA",
        "(1)",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----a-----END ",
    ] {
        let began = std::time::Instant::now();
        kinds(&unit.repeat(200_000 / unit.len()));
        assert!(
            began.elapsed().as_secs() < 60,
            "{unit:?} took {:?}",
            began.elapsed()
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_scanned_without_a_panic_and_finds_lie_on_characters(text in "(\\PC|[0-9@:+. \
        ()-]){0,200}") {
        let mut last = 0;
        scan(&text, |find| {
            assert!(find.range.start >= last && find.range.end > find.range.start);
            assert!(text.get(find.range.clone()).is_some());
            last = find.range.end;
        });
        let masked = mask(&text);
        prop_assert!(masked.len() <= text.len() * 20 + 20);
    }

    #[test]
    fn every_card_with_a_right_luhn_digit_is_found_and_one_with_a_wrong_digit_is_not(body in "4[0-9]{14}") {
        prop_assume!(body.bytes().any(|byte| byte != b'4'));
        for digit in 0..10_u8 {
            let card = format!("{body}{digit}");
            let values: Vec<u8> = card.bytes().map(|byte| byte - b'0').collect();
            prop_assert_eq!(kinds(&card).contains(PersonalDataKind::PaymentCard), checksum::luhn(&values));
        }
    }
}
