//! The dashboard's certificate.

use crate::monitors::Monitors;
use serde_json::json;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What to do about a certificate that can't be used.
const ADVICE: &str = "give PEM files that belong together to `ceph dashboard set-ssl-certificate -i FILE` \
                      and `set-ssl-certificate-key -i FILE`";

/// Reads certificate and key from the monitors.
pub(crate) fn acceptor(monitors: &dyn Monitors) -> Result<TlsAcceptor, String> {
    let get = |key: &str| {
        let command = json!({ "prefix": "config-key get", "key": key });
        monitors.command(&command).map_err(|refused| refused.to_string())
    };
    of_pem(&get("mgr/dashboard/crt")?, &get("mgr/dashboard/key")?)
}

fn of_pem(chain: &[u8], key: &[u8]) -> Result<TlsAcceptor, String> {
    let unusable = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}; {ADVICE}");
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable("the certificate can't be read", &error))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("the key can't be read", &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable("the certificate can't be used", &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused_with_what_to_do() {
        for (chain, key) in
            [("", ""), ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x")]
        {
            let why = of_pem(chain.as_bytes(), key.as_bytes()).err().expect("refused");
            assert!(why.contains("set-ssl-certificate"), "{why}");
            assert!(!why.contains("AAAA"), "{why}");
        }
    }
}
