//! A headless Chromium, told what to do over a pair of pipes: JSON messages, each ended by a NUL.

use crate::run::has;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// No step of a test may take longer. Generous: tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page; dropping it ends it.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    id: u64,
    /// What the page wrote to the console as errors.
    pub errors: Vec<String>,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Starts it; `None` if it is not installed.
    pub fn start() -> Option<Self> {
        if !has("chromium") {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("nacre-browser-").tempdir().expect("temporary directory");
        let pipes = [dir.path().join("to"), dir.path().join("from")];
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo runs").success());
        }
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
                      --remote-debugging-pipe --user-data-dir=\"$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(&pipes).arg(dir.path().join("profile"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("starts");
        let to = File::options().write(true).open(&pipes[0]).expect("the browser reads");
        let mut answers = BufReader::new(File::open(&pipes[1]).expect("the browser writes"));
        let (tx, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|length| length > 1) {
                message.pop();
                let sent = serde_json::from_slice(&message).is_ok_and(|message| tx.send(message).is_ok());
                message.clear();
                if !sent {
                    break;
                }
            }
        });
        let mut browser = Self { child, to, from, session: None, id: 0, errors: Vec::new(), _dir: dir };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Gives a command of the DevTools protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let mut message = json!({ "id": self.id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser runs");
        loop {
            let answer = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] == self.id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            let params = &answer["params"];
            match answer["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => self.errors.push(params["exceptionDetails"].to_string()),
                "Log.entryAdded" if params["entry"]["level"] == "error" => {
                    self.errors.push(format!("{} {}", params["entry"]["text"], params["entry"]["url"]));
                }
                _ => {}
            }
        }
    }

    /// The value of an expression of JavaScript in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let is_true = self.becomes_true(expression, PATIENCE);
        assert!(is_true, "never {expression}: {}", self.eval("document.body.innerText"));
    }

    /// Waits for so long at most until an expression is true, and returns whether it is.
    pub fn becomes_true(&mut self, expression: &str, within: Duration) -> bool {
        let began = Instant::now();
        while self.eval(&format!("!!({expression})")) != true {
            if began.elapsed() >= within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Sets the size of the page in pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
