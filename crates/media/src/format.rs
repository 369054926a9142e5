//! Which responses are manifests.

/// The format of a manifest.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// A playlist of HLS (RFC 8216).
    Hls,
    /// A media presentation description of DASH (ISO/IEC 23009-1).
    Mpd,
}

impl Format {
    /// The format that a response says it has: by its `Content-Type`, else by the end of its
    /// target's path. `None` where it is no manifest, or a type says so that is neither text nor
    /// binary data of no kind.
    pub fn of(content_type: Option<&[u8]>, target: &str) -> Option<Self> {
        let content_type = content_type.filter(|value| !value.trim_ascii().is_empty());
        let by_type = content_type.map(|value| {
            let value = value.split(|byte| *byte == b';').next().unwrap_or_default();
            let value = value.trim_ascii().to_ascii_lowercase();
            match &*value {
                b"application/vnd.apple.mpegurl"
                | b"application/x-mpegurl"
                | b"application/mpegurl"
                | b"audio/mpegurl"
                | b"audio/x-mpegurl" => Some(Some(Self::Hls)),
                b"application/dash+xml" | b"video/vnd.mpeg.dash.mpd" => Some(Some(Self::Mpd)),
                b"text/plain"
                | b"text/xml"
                | b"application/xml"
                | b"application/octet-stream"
                | b"binary/octet-stream" => Some(None),
                _ => None,
            }
        });
        match by_type {
            Some(Some(Some(format))) => Some(format),
            Some(None) => None,
            Some(Some(None)) | None => Self::of_path(target),
        }
    }

    fn of_path(target: &str) -> Option<Self> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let (_, extension) = path.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "m3u8" | "m3u" => Some(Self::Hls),
            "mpd" => Some(Self::Mpd),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_counts_and_then_the_path() {
        for (kind, target, format) in [
            (Some("application/vnd.apple.mpegurl"), "/x", Some(Format::Hls)),
            (Some("Audio/mpegurl; charset=utf-8"), "/x.mpd", Some(Format::Hls)),
            (Some("application/dash+xml"), "/x", Some(Format::Mpd)),
            (Some("application/mpegurl"), "/x", Some(Format::Hls)),
            (Some("video/vnd.mpeg.dash.mpd"), "/x", Some(Format::Mpd)),
            (Some("text/plain"), "/a/x.M3U8?token=.mpd", Some(Format::Hls)),
            (None, "/live.mpd", Some(Format::Mpd)),
            (Some(" "), "/live.mpd", Some(Format::Mpd)),
            (Some("video/mp4"), "/x.m3u8", None),
            (Some("text/html"), "/x.m3u8", None),
            (Some("text/plain"), "/notes.txt", None),
            (None, "/", None),
        ] {
            assert_eq!(Format::of(kind.map(str::as_bytes), target), format, "{kind:?} {target}");
        }
    }
}
