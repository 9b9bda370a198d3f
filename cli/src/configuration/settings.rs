//! The values of the configuration files, checked against the options of the command line.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use gristmill_queries::cal::suggest::near;
use toml::{Table, Value};

use super::options::{ConfigOption, command_at, config_options, is_excluded, joined, own_options};
use crate::args::Arguments;
use crate::exit::Failure;

/// Name of the file in the current folder, and in the folder of the user's configuration.
pub const FILE: &str = "gristmill.toml";

/// Key of the table of profiles.
const PROFILE: &str = "profile";

/// Maximum number of suggested names.
const SUGGESTIONS: usize = 3;

/// The value of an option in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The values, as on the command line; several only for options that take several.
    pub values: Vec<String>,
    /// The file, and the profile in it.
    pub origin: String,
}

/// The values of all files and of the profile, by command and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<(String, String), Setting>,
}

/// A configuration file.
struct ConfigFile {
    table: Table,
    /// Its path in messages.
    shown: String,
    /// True for the file of the current folder, which may have come with other people's files.
    is_of_project: bool,
}

impl Settings {
    /// Reads the user's file and that of the current folder, with `profile` if one is named.
    ///
    /// # Errors
    /// [`Failure`] if a file can't be read or parsed, sets an option that doesn't exist, or if no
    /// file has the profile.
    pub fn read(profile: Option<&str>) -> Result<Settings, Failure> {
        let command = Arguments::command();
        let user = configuration_folder().map(|folder| folder.join(FILE));
        let files = [
            user.map(|path| ConfigFile::read(&path, false))
                .transpose()?,
            Some(ConfigFile::read(Path::new(FILE), true)?),
        ];
        let files: Vec<ConfigFile> = files.into_iter().flatten().flatten().collect();
        Settings::merge(&files, profile, &command)
    }

    fn merge(
        files: &[ConfigFile],
        profile: Option<&str>,
        command: &Command,
    ) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for file in files {
            settings.add(file, &file.table, None, command)?;
        }
        let mut profiles = Settings::default();
        let mut is_known = false;
        for file in files {
            for (name, table) in file.profiles()? {
                let Value::Table(table) = table else {
                    return Err(file.failure(&format!("`profile.{name}` must be a table")));
                };
                // All profiles are checked, and one is used.
                let mut own = Settings::default();
                own.add(file, table, Some(name), command)?;
                if profile == Some(name.as_str()) {
                    is_known = true;
                    profiles.values.extend(own.values);
                }
            }
        }
        match profile {
            Some(name) if !is_known => Err(unknown_profile(name, files)),
            _ => {
                settings.values.extend(profiles.values);
                Ok(settings)
            }
        }
    }

    fn add(
        &mut self,
        file: &ConfigFile,
        table: &Table,
        profile: Option<&str>,
        command: &Command,
    ) -> Result<(), Failure> {
        let origin = match profile {
            Some(name) => format!("[profile.{name}] in {}", file.shown),
            None => file.shown.clone(),
        };
        let place = SettingsPlace {
            file,
            origin,
            root: command,
        };
        self.add_table(&place, table, command, "")
    }

    /// Adds the values of a table, which are those of `command` at `path`.
    fn add_table(
        &mut self,
        place: &SettingsPlace<'_>,
        table: &Table,
        command: &Command,
        path: &str,
    ) -> Result<(), Failure> {
        for (key, value) in table {
            let is_profiles = path.is_empty() && key == PROFILE && place.is_whole_file();
            match (value, command.find_subcommand(key)) {
                _ if is_profiles => {}
                (Value::Table(inner), Some(command)) => {
                    self.add_table(place, inner, command, &joined(path, key))?;
                }
                _ => {
                    let option = own_options(command, path).find(|option| option.key == key);
                    let option = option.ok_or_else(|| place.unknown_key(command, path, key))?;
                    self.add_setting(place, &option, value)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the value of `option`, which stands at `place`.
    fn add_setting(
        &mut self,
        place: &SettingsPlace<'_>,
        option: &ConfigOption<'_>,
        value: &Value,
    ) -> Result<(), Failure> {
        let setting = place.setting(option, value)?;
        let key = (option.command.clone(), option.key.to_owned());
        self.values.insert(key, setting);
        Ok(())
    }

    /// Returns true if the files set nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of the option `key` of the command at `path`.
    pub fn get(&self, path: &str, key: &str) -> Option<&Setting> {
        self.values.get(&(path.to_owned(), key.to_owned()))
    }

    /// Returns all values with their commands and keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Setting)> {
        self.values
            .iter()
            .map(|((path, key), setting)| (path.as_str(), key.as_str(), setting))
    }

    /// Returns the commands that have values, each once.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        let paths: HashSet<&str> = self.values.keys().map(|(path, _)| path.as_str()).collect();
        paths.into_iter()
    }

    /// Returns the file that sets an option of the name `key`.
    pub fn origin_of_key(&self, key: &str) -> Option<&str> {
        let mut settings = self.iter();
        settings
            .find(|(_, own, _)| *own == key)
            .map(|(.., setting)| setting.origin.as_str())
    }

    /// Removes the values that arguments of the command line override: those of the same name of
    /// the command at `path` or of all commands, and those that exclude one another.
    pub fn without_overridden(mut self, given: &HashSet<String>, path: &str) -> Settings {
        let root = Arguments::command();
        self.values.retain(|(own, key), _| {
            let Some(command) = command_at(&root, own) else {
                return true;
            };
            let options = own_options(command, own);
            let Some(option) = options.into_iter().find(|option| option.key == key) else {
                return true;
            };
            let is_active = path == own || path.starts_with(&format!("{own} ")) || own.is_empty();
            let is_given = given.contains(option.arg.get_id().as_str());
            !(is_active && (is_given || is_excluded(command, option.arg, &|id| given.contains(id))))
        });
        self
    }
}

/// Where the values of a table come from, for messages.
struct SettingsPlace<'f> {
    file: &'f ConfigFile,
    origin: String,
    root: &'f Command,
}

/// Returns why the file of a folder, which may have come with someone else's data, can't set an
/// option to `values`: they would have this process run a program, or trust another machine.
fn danger_in(key: &str, values: &[String]) -> Option<&'static str> {
    match key {
        "embedder" if values.iter().any(|value| value.starts_with("command:")) => {
            Some("can't name a program")
        }
        "cluster-key" => Some("can't be set"),
        _ => None,
    }
}

impl SettingsPlace<'_> {
    /// Returns true if the table is the file, not a profile.
    fn is_whole_file(&self) -> bool {
        self.origin == self.file.shown
    }

    fn setting(&self, option: &ConfigOption<'_>, value: &Value) -> Result<Setting, Failure> {
        let values = match value {
            Value::Array(items) if option.is_list() => {
                items.iter().map(text_of).collect::<Option<Vec<_>>>()
            }
            Value::Boolean(_) if option.is_flag() => text_of(value).map(|text| vec![text]),
            _ if option.is_flag() => None,
            value => text_of(value).map(|text| vec![text]),
        };
        let Some(values) = values else {
            let wanted = match (option.is_flag(), option.is_list()) {
                (true, _) => "must be true or false",
                (false, true) => "must be a value or a list of values",
                (false, false) => "must be a single value",
            };
            return Err(self.failure(&format!("`{}` {wanted}", option.key)));
        };
        if self.file.is_of_project
            && let Some(danger) = danger_in(option.key, &values)
        {
            return Err(self.failure(&format!(
                "`{}` {danger} here, because a folder's file may be someone else's; set it in the \
                 user's file, in a variable or on the command line",
                option.key
            )));
        }
        Ok(Setting {
            values,
            origin: self.origin.clone(),
        })
    }

    fn unknown_key(&self, command: &Command, path: &str, key: &str) -> Failure {
        let place = match path {
            "" => "for all commands".to_owned(),
            path => format!("of `{path}`"),
        };
        let all = config_options(self.root);
        let elsewhere: Vec<&str> = all
            .iter()
            .filter(|option| option.key == key)
            .map(|option| option.command.as_str())
            .take(SUGGESTIONS)
            .collect();
        let hint = match elsewhere.is_empty() {
            false => format!("; it belongs into {}", tables(&elsewhere)),
            true => {
                let options = own_options(command, path).map(|option| option.key);
                let names = options.chain(command.get_subcommands().map(Command::get_name));
                did_you_mean(key, names.collect())
            }
        };
        self.failure(&format!("there is no option `{key}` {place}{hint}"))
    }

    fn failure(&self, message: &str) -> Failure {
        Failure::usage(format!(
            "{}: {message}; `gristmill config example` lists all options",
            self.origin
        ))
    }
}

/// Returns the tables of commands, as in the file.
fn tables(paths: &[&str]) -> String {
    let tables = paths.iter().map(|path| match *path {
        "" => "the beginning of the file, before all tables".to_owned(),
        path => format!("[{}]", path.replace(' ', ".")),
    });
    tables.collect::<Vec<_>>().join(" or ")
}

fn did_you_mean(word: &str, names: Vec<&str>) -> String {
    match near(word, names, SUGGESTIONS).as_slice() {
        [] => String::new(),
        found => format!(" (did you mean `{}`?)", found.join("` or `")),
    }
}

fn unknown_profile(name: &str, files: &[ConfigFile]) -> Failure {
    let known: Vec<&str> = files
        .iter()
        .filter_map(|file| file.table.get(PROFILE)?.as_table())
        .flat_map(Table::keys)
        .map(String::as_str)
        .collect();
    let hint = match known.is_empty() {
        true => format!("; no {FILE} has profiles"),
        false => match did_you_mean(name, known.clone()) {
            hint if hint.is_empty() => format!("; there are {}", known.join(", ")),
            hint => hint,
        },
    };
    Failure::usage(format!("there is no profile `{name}`{hint}"))
}

/// Returns a single value as it would be on the command line.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            Some(value.to_string())
        }
        Value::Array(_) | Value::Table(_) => None,
    }
}

impl ConfigFile {
    /// Reads a file; `None` if it doesn't exist.
    fn read(path: &Path, is_of_project: bool) -> Result<Option<ConfigFile>, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::reading(path, &error)),
        };
        ConfigFile::parse(&text, &path.display().to_string(), is_of_project).map(Some)
    }

    fn parse(text: &str, shown: &str, is_of_project: bool) -> Result<ConfigFile, Failure> {
        let table =
            toml::from_str(text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
        Ok(ConfigFile {
            table,
            shown: shown.to_owned(),
            is_of_project,
        })
    }

    fn profiles(&self) -> Result<Vec<(&String, &Value)>, Failure> {
        match self.table.get(PROFILE) {
            None => Ok(Vec::new()),
            Some(Value::Table(profiles)) => Ok(profiles.iter().collect()),
            Some(_) => Err(self.failure(
                "`profile` is the table of profiles, as in [profile.nightly]; --profile or \
                 GRISTMILL_PROFILE selects one",
            )),
        }
    }

    fn failure(&self, message: &str) -> Failure {
        Failure::usage(format!("{}: {message}", self.shown))
    }
}

/// Returns the folder of the user's configuration, `gristmill` in `$XDG_CONFIG_HOME`, by default in
/// `~/.config`; `None` if neither variable is set.
pub fn configuration_folder() -> Option<PathBuf> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let configuration = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    Some(configuration?.join("gristmill"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(files: &[(&str, bool)], profile: Option<&str>) -> Result<Settings, String> {
        let files: Result<Vec<ConfigFile>, Failure> = files
            .iter()
            .map(|(text, is_of_project)| ConfigFile::parse(text, FILE, *is_of_project))
            .collect();
        files
            .and_then(|files| Settings::merge(&files, profile, &Arguments::command()))
            .map_err(|failure| failure.to_string())
    }

    fn value(settings: &Settings, path: &str, key: &str) -> Vec<String> {
        settings
            .get(path, key)
            .map(|setting| setting.values.clone())
            .unwrap_or_default()
    }

    #[test]
    fn the_profile_overrides_the_project_and_that_overrides_the_user() {
        let user =
            "threads = 1\nmemory = \"1G\"\n[search]\nlimit = 3\n[profile.night]\nthreads = 9";
        let project = "threads = 2\nprices = [\"a.yaml\", \"b.yaml\"]\n[keys.rotate]\nexclusive = \
                       true\n[profile.night.search]\nlimit = 50";
        let files = [(user, false), (project, true)];
        let plain = merged(&files, None).unwrap();
        assert_eq!(value(&plain, "", "threads"), ["2"]);
        assert_eq!(value(&plain, "", "memory"), ["1G"]);
        assert_eq!(value(&plain, "", "prices"), ["a.yaml", "b.yaml"]);
        assert_eq!(value(&plain, "search", "limit"), ["3"]);
        assert_eq!(value(&plain, "keys rotate", "exclusive"), ["true"]);
        let night = merged(&files, Some("night")).unwrap();
        assert_eq!(value(&night, "", "threads"), ["9"]);
        assert_eq!(value(&night, "search", "limit"), ["50"]);
    }

    #[test]
    fn mistakes_are_refused_with_what_was_probably_meant() {
        for (text, parts) in [
            (
                "memroy = \"1G\"",
                &["no option `memroy` for all", "`memory`"][..],
            ),
            ("limit = 3", &["belongs into [search]"]),
            ("[search]\nlimt = 3", &["of `search`", "`limit`"]),
            ("[serch]\nlimit = 3", &["`search`"]),
            ("quiet = \"yes\"", &["`quiet` must be true or false"]),
            ("memory = [1, 2]", &["`memory` must be a single value"]),
            ("profile = \"x\"", &["--profile"]),
            ("[erase]\nexecute = true", &["no option `execute`"]),
            ("[profile.a]\nmemroy = 1", &["[profile.a]", "`memory`"]),
            ("embedder = \"command:sh\"", &["can't name a program here"]),
            #[cfg(feature = "cluster")]
            (
                "[scan]\ncluster-key = \"k\"",
                &["`cluster-key` can't be set here"],
            ),
        ] {
            let message = merged(&[(text, true)], None).unwrap_err();
            assert!(
                parts.iter().all(|part| message.contains(part)),
                "{text}: {message}"
            );
        }
        for text in [
            "embedder = \"command:sh\"",
            #[cfg(feature = "cluster")]
            "[scan]\ncluster-key = \"k\"",
        ] {
            assert!(merged(&[(text, false)], None).is_ok(), "{text}");
        }
        let message = merged(&[("[profile.night]\nthreads = 1", true)], Some("nigth")).unwrap_err();
        assert!(message.contains("did you mean `night`"), "{message}");
    }
}
