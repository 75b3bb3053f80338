//! Links in letters that prove who was written to.

use highwater::CommandId;
use highwater_axum::SigningKeys;

/// What the signature in a link is good for.
const CANCEL: &str = "cancel a booking";

/// Makes links and recognises them.
#[derive(Debug, Clone)]
pub struct Links {
    keys: SigningKeys,
    site: String,
}

impl Links {
    /// Links to a site, `https://tables.example.org`, signed with these keys.
    pub fn new(keys: SigningKeys, site: impl Into<String>) -> Self {
        let mut site = site.into();
        site.truncate(site.trim_end_matches('/').len());
        Self { keys, site }
    }

    /// The keys that sign them.
    pub fn keys(&self) -> &SigningKeys {
        &self.keys
    }

    /// Where the holder of this reservation can cancel it, without logging in.
    pub fn cancel(&self, reservation: CommandId) -> String {
        format!("{}{}", self.site, self.cancel_path(reservation))
    }

    /// The same, without the site.
    pub fn cancel_path(&self, reservation: CommandId) -> String {
        let signature = self.keys.sign(CANCEL, reservation.0.as_bytes());
        format!("/booking/cancel/{reservation}/{signature}")
    }

    /// Whether a link about this reservation was made here.
    pub fn proves(&self, reservation: CommandId, signature: &str) -> bool {
        self.keys.verifies(CANCEL, reservation.0.as_bytes(), signature)
    }
}
