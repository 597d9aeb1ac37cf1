//! The options of a running daemon, in layers: what an administrator told this process (`ceph tell NAME
//! config set`) over the configuration file over what the monitors store over the defaults.

use crate::options::{self, OptionDecl};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Errno;

/// A layer of options by name.
pub type Layer = BTreeMap<String, String>;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    name: String,
    file: Layer,
    central: Layer,
    told: Layer,
}

/// What a command on options gives: JSON, or an error with one sentence.
pub type Outcome = Result<Value, (Errno, String)>;

/// The commands that [`Settings::command`] knows, in the notation of [`crate::sig`], with help.
pub const COMMANDS: &[(&str, &str)] = &[
    ("config diff", "Shows the options that differ from their defaults, by layer"),
    ("config diff get var:str", "Shows one option by layer"),
    ("config get var:str", "Prints an option that this process runs with"),
    ("config help var:str?", "Explains an option, or all"),
    ("config set var:str val:str*", "Sets an option of this process until it ends"),
    ("config show", "Prints all options that this process runs with"),
    ("config unset var:str", "Takes back `config set`"),
];

impl Settings {
    /// The options of the daemon `name` (`osd.0`), with those of its configuration file and command line.
    pub fn new(name: impl Into<String>, file: Layer) -> Self {
        Self { name: name.into(), file, ..Self::default() }
    }

    /// The layers, the strongest first, with the names under which `config diff` shows them.
    fn layers(&self) -> [(&'static str, &Layer); 3] {
        [("override", &self.told), ("file", &self.file), ("mon", &self.central)]
    }

    /// The configured value of an option, and the layer that it comes from. Values that do not fit the
    /// option's type are ignored.
    pub fn set_value(&self, name: &str) -> Option<(&str, &'static str)> {
        let fits = |value: &str| options::find(name).is_none_or(|o| o.check(value).is_ok());
        let found = self.layers().into_iter().filter_map(|(layer, values)| Some((values.get(name)?, layer)));
        found.map(|(value, layer)| (value.as_str(), layer)).find(|(value, _)| fits(value))
    }

    /// The configured value of a size or number.
    pub fn size(&self, name: &str) -> Option<u64> {
        options::parse_size(self.set_value(name)?.0)
    }

    /// The same, as a count.
    pub fn count(&self, name: &str) -> Option<usize> {
        usize::try_from(self.size(name)?).ok()
    }

    /// The configured value of a duration.
    pub fn secs(&self, name: &str) -> Option<Duration> {
        options::parse_secs(self.set_value(name)?.0)
    }

    /// The value of an option: what is set, or its default; empty for one that is not known.
    pub fn get(&self, name: &str) -> &str {
        self.set_value(name).map_or_else(|| options::find(name).map_or("", |o| o.default), |(value, _)| value)
    }

    /// Takes what the monitors store for this daemon; whether that is new.
    pub fn set_central(&mut self, values: Layer) -> bool {
        let changed = self.central != values;
        self.central = values;
        changed
    }

    /// The options set in this process alone: by its file, and by `config set`, which takes precedence.
    pub fn local(&self) -> Layer {
        let mut out = self.file.clone();
        out.extend(self.told.clone());
        out
    }

    /// All options with their values.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let mut out: BTreeMap<&str, &str> = options::ALL.iter().map(|o| (o.name, self.get(o.name))).collect();
        let set = self.layers().into_iter().flat_map(|(_, values)| values.keys());
        out.extend(set.map(|name| (name.as_str(), self.get(name))));
        out
    }

    /// Runs a command of the admin socket or `ceph tell`; `None` if it is no command on options. Afterwards
    /// [`Self::get`] may return other values.
    pub fn command(&mut self, command: &Value) -> Option<Outcome> {
        let prefix = command["prefix"].as_str()?;
        let var = options::normalize(command["var"].as_str().unwrap_or_default());
        Some(match prefix {
            "config show" => Ok(self.show()),
            "config get" => self.known(&var).map(|()| json!({ (var.as_str()): self.get(&var) })),
            "config set" => self.tell(&var, command),
            "config unset" => self.known(&var).map(|()| {
                self.told.remove(&var);
                json!({ "success": "" })
            }),
            "config diff" => Ok(json!({ "diff": self.diff(|_| true) })),
            "config diff get" => self.known(&var).map(|()| json!({ "diff": self.diff(|name| name == var) })),
            "config help" if var.is_empty() => Ok(options::ALL.iter().map(OptionDecl::describe).collect()),
            "config help" => match options::find(&var) {
                Some(option) => Ok(option.describe()),
                None => Err((Errno::ENOENT, format!("there is no option '{var}'"))),
            },
            _ => return None,
        })
    }

    fn known(&self, name: &str) -> Result<(), (Errno, String)> {
        match options::find(name).is_some() || options::is_clients(name) || self.set_value(name).is_some() {
            true => Ok(()),
            false => Err((Errno::ENOENT, format!("error getting '{name}': there is no such option"))),
        }
    }

    fn tell(&mut self, name: &str, command: &Value) -> Outcome {
        self.known(name)?;
        let value = match &command["val"] {
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            Value::String(text) => text.clone(),
            Value::Null => return Err((Errno::EINVAL, "config set needs a value".into())),
            other => other.to_string(),
        };
        if let Some(option) = options::find(name) {
            option.check(&value).map_err(|why| (Errno::EINVAL, why))?;
        }
        let note = match options::find(name).is_some_and(|o| !o.runtime) {
            true => " (not observed, change may require restart)",
            false => "",
        };
        let text = format!("{name} = '{value}'{note} ");
        self.told.insert(name.to_owned(), value);
        Ok(json!({ "success": text }))
    }

    fn show(&self) -> Value {
        let mut out = Map::new();
        out.insert("name".into(), self.name.clone().into());
        out.insert("cluster".into(), "ceph".into());
        out.extend(self.all().into_iter().map(|(k, v)| (k.to_owned(), v.into())));
        Value::Object(out)
    }

    fn diff(&self, wanted: impl Fn(&str) -> bool) -> Value {
        let mut out = Map::new();
        for name in self.all().into_keys().filter(|name| wanted(name)) {
            let mut one = Map::new();
            let set =
                self.layers().into_iter().filter_map(|(layer, values)| Some((layer, values.get(name)?)));
            one.extend(set.map(|(layer, value)| (layer.to_owned(), value.clone().into())));
            if one.is_empty() {
                continue;
            }
            one.insert("default".into(), options::find(name).map_or("", |o| o.default).into());
            one.insert("final".into(), self.get(name).into());
            out.insert(name.to_owned(), Value::Object(one));
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(pairs: &[(&str, &str)]) -> Layer {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_stronger_layer_wins_and_a_value_of_the_wrong_type_does_not_count() {
        let mut s = Settings::new("osd.0", layer(&[("osd_max_backfills", "4")]));
        assert_eq!(
            s.get("osd_recovery_max_active"),
            options::find("osd_recovery_max_active").expect("declared").default
        );
        let central = layer(&[
            ("osd_max_backfills", "2"),
            ("osd_recovery_max_active", "7"),
            ("osd_heartbeat_grace", "x"),
        ]);
        assert!(s.set_central(central.clone()) && !s.set_central(central));
        assert_eq!(s.set_value("osd_max_backfills"), Some(("4", "file")));
        assert_eq!(s.set_value("osd_recovery_max_active"), Some(("7", "mon")));
        assert_eq!(s.set_value("osd_heartbeat_grace"), None);
        let set = json!({ "prefix": "config set", "var": "osd_max_backfills", "val": ["9"] });
        assert!(s.command(&set).expect("known").is_ok());
        assert_eq!(s.get("osd_max_backfills"), "9");
        let unset = json!({ "prefix": "config unset", "var": "osd_max_backfills" });
        assert!(s.command(&unset).expect("known").is_ok());
        assert_eq!(s.get("osd_max_backfills"), "4");
    }

    #[test]
    fn commands_answer_as_daemons_do() {
        let mut s = Settings::new("osd.0", layer(&[("osd_max_backfills", "4")]));
        let get = |s: &mut Settings, var: &str| {
            s.command(&json!({ "prefix": "config get", "var": var })).expect("known")
        };
        assert_eq!(get(&mut s, "osd_max_backfills"), Ok(json!({ "osd_max_backfills": "4" })));
        assert_eq!(get(&mut s, "nosuch").expect_err("unknown").0, Errno::ENOENT);
        let bad = json!({ "prefix": "config set", "var": "osd_max_backfills", "val": "x" });
        assert_eq!(s.command(&bad).expect("known").expect_err("no number").0, Errno::EINVAL);
        let diff = s.command(&json!({ "prefix": "config diff" })).expect("known").expect("works");
        assert_eq!(
            diff,
            json!({ "diff": { "osd_max_backfills": { "default": "1", "file": "4", "final": "4" } } })
        );
        let show = s.command(&json!({ "prefix": "config show" })).expect("known").expect("works");
        assert_eq!((&show["name"], &show["osd_max_backfills"]), (&json!("osd.0"), &json!("4")));
        assert_eq!(s.command(&json!({ "prefix": "status" })), None);
    }
}
