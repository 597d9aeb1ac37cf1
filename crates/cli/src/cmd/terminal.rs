//! What several commands share on the command line and the terminal: sizes, forms of output, progress bars.

use clap::ValueEnum;

/// The form in which results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people to read.
    #[default]
    #[value(alias = "table")]
    Plain,
    /// For programs to read.
    Json,
}

/// A size with a suffix: `512M`, `16G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    decl::options::parse_size(text)
        .ok_or_else(|| format!("`{text}` is no size: give bytes, or a number with K, M, G or T"))
}

/// A progress bar on standard error; `what` is its template.
pub(crate) fn progress(what: &str) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::with_draw_target(None, indicatif::ProgressDrawTarget::stderr());
    let template = format!("{{bar:40}} {{percent}}% {what}, {{eta}} left");
    match indicatif::ProgressStyle::with_template(&template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
