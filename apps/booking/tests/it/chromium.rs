//! A real browser, driven through WebDriver: headless Chromium and its chromedriver.

use crate::processes::{PATIENCE, POLL, lines};
use axum::http::Method;
use fantoccini::actions::{InputSource, KeyAction, KeyActions, MouseActions, PointerAction};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use url::{ParseError, Url};

/// What keeps Chromium without a screen, without a network of its own, and without questions. The pipe ends it when
/// its driver is gone.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    // A browser may or may not keep a page that was left alive. What works without that works everywhere.
    "--disable-features=BackForwardCache",
];

/// A browser window on one site. Whatever the test does, the driver ends with it, and Chromium with the driver.
pub(crate) struct Browser {
    client: Client,
    _driver: Driver,
    /// Where the site is, `http://127.0.0.1:43919`.
    site: String,
    /// Chromium's own files.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens a browser that will look at the site at this address.
    pub(crate) async fn open(address: &str) -> Self {
        Self::with_preferences(address, json!({})).await
    }

    /// The same, with scripts switched off.
    pub(crate) async fn without_scripts(address: &str) -> Self {
        Self::with_preferences(address, json!({ "profile.default_content_setting_values.javascript": 2 }))
            .await
    }

    async fn with_preferences(address: &str, preferences: Value) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let binary = on_the_path("chromium");
        let (driver, webdriver) = start_driver();
        let mut arguments: Vec<String> = FLAGS.map(String::from).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let options = json!({ "binary": binary, "args": arguments, "prefs": preferences });
        let mut wanted = serde_json::Map::new();
        wanted.insert("browserName".into(), "chrome".into());
        wanted.insert("goog:chromeOptions".into(), options);
        let client = ClientBuilder::new(HttpConnector::new()).capabilities(wanted).connect(&webdriver).await;
        let client = client.unwrap_or_else(|error| panic!("chromedriver cannot start {binary:?}: {error}"));
        Self { client, _driver: driver, site: format!("http://{address}"), _profile: profile }
    }

    /// Ends the session, so that Chromium has let go of its files when they are removed.
    pub(crate) async fn close(self) {
        self.client.clone().close().await.unwrap();
    }

    pub(crate) async fn goto(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.site)).await.unwrap();
    }

    /// Goes back until the page shows this text: a page that loaded itself again may have left two places behind.
    pub(crate) async fn back_to(&self, text: &str) {
        let began = Instant::now();
        while !self.text().await.contains(text) {
            assert!(began.elapsed() < PATIENCE, "`{text}` was never seen, going back");
            self.client.back().await.unwrap();
        }
    }

    /// The path and query of the page that is shown.
    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
    }

    /// Runs a script in the page. The page may be on its way out; then there is no answer.
    async fn try_script(&self, script: &str, arguments: Vec<Value>) -> Option<Value> {
        self.client.execute(script, arguments).await.ok()
    }

    pub(crate) async fn script(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{error}: {script}"))
    }

    /// Waits until the page shows this text to its reader.
    pub(crate) async fn see(&self, text: &str) {
        let script = "return document.body.innerText.includes(arguments[0])";
        let began = Instant::now();
        while self.try_script(script, vec![text.into()]).await != Some(Value::Bool(true)) {
            if began.elapsed() > PATIENCE {
                panic!("`{text}` was never seen, but: {}", self.text().await);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What the page shows to its reader.
    pub(crate) async fn text(&self) -> String {
        self.script("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// The first element that fits, once there is one that can be seen.
    pub(crate) async fn find(&self, css: &str) -> Element {
        let began = Instant::now();
        loop {
            if let Ok(element) = self.client.find(Locator::Css(css)).await
                && element.is_displayed().await.unwrap_or(false)
            {
                return element;
            }
            if began.elapsed() > PATIENCE {
                panic!("`{css}` was never seen, but: {}", self.text().await);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap();
    }

    pub(crate) async fn double_click(&self, css: &str) {
        let element = self.find(css).await;
        let down = PointerAction::Down { button: fantoccini::actions::MOUSE_BUTTON_LEFT };
        let up = PointerAction::Up { button: fantoccini::actions::MOUSE_BUTTON_LEFT };
        let over = PointerAction::MoveToElement { element, duration: None, x: 0.0, y: 0.0 };
        let mouse = MouseActions::new("mouse".into()).then(over);
        let mouse = mouse.then(down.clone()).then(up.clone()).then(down).then(up);
        self.client.perform_actions(mouse).await.unwrap();
    }

    /// Presses one key, wherever the focus is.
    pub(crate) async fn press(&self, key: char) {
        let keys = KeyActions::new("keyboard".into());
        let keys = keys.then(KeyAction::Down { value: key }).then(KeyAction::Up { value: key });
        self.client.perform_actions(keys).await.unwrap();
    }

    pub(crate) async fn type_keys(&self, text: &str) {
        for key in text.chars() {
            self.press(key).await;
        }
    }

    /// Replaces what stands in a field.
    pub(crate) async fn fill(&self, field: &str, text: &str) {
        let element = self.find(&format!("#{field}")).await;
        element.clear().await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    pub(crate) async fn value(&self, field: &str) -> String {
        self.find(&format!("#{field}")).await.prop("value").await.unwrap().unwrap_or_default()
    }

    async fn dev_tools(&self, command: &'static str, parameters: Value) {
        self.client.issue_cmd(DevTools { command, parameters }).await.unwrap();
    }

    /// Makes the window this large, in CSS pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let parameters =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.dev_tools("Emulation.setDeviceMetricsOverride", parameters).await;
    }

    /// Chooses what the reader prefers: `light` or `dark`.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.dev_tools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Keeps a picture of the whole page among the build's files, for people to look at.
    pub(crate) async fn picture(&self, name: &str, width: u32) {
        self.resize(width, 800).await;
        let height = self.script("return document.documentElement.scrollHeight").await.as_u64().unwrap();
        self.resize(width, u32::try_from(height).unwrap().clamp(400, 4_000)).await;
        let folder: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "..", "screenshots"].iter().collect();
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.client.screenshot().await.unwrap();
        std::fs::write(folder.join(format!("{name}-{width}.png")), picture).unwrap();
    }
}

/// A chromedriver; killed when it is not needed any more.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn on_the_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "the browser tests need `{program}` on the PATH. On Debian: apt-get install chromium chromium-driver, or \
             let `cargo xtask test --only tools` install what all tests need"
        )
    })
}

/// Starts a driver on a free port; returns its address too.
fn start_driver() -> (Driver, String) {
    let program = on_the_path("chromedriver");
    let mut command = Command::new(&program);
    command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = Driver(command.spawn().unwrap());
    let said = lines(driver.0.stdout.take().unwrap());
    loop {
        let line = said.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("{program:?} did not say where it listens: {error}"));
        if let Some(port) = line.strip_prefix("ChromeDriver was started successfully on port ") {
            return (driver, format!("http://127.0.0.1:{}", port.trim_end_matches('.')));
        }
    }
}

/// A command of Chromium's own protocol (<https://chromedevtools.github.io/devtools-protocol/>), for what WebDriver
/// has no words for.
#[derive(Debug)]
struct DevTools {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({ "cmd": self.command, "params": self.parameters });
        (Method::POST, Some(body.to_string()))
    }
}
