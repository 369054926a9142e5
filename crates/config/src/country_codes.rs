//! Codes of countries.

/// Codes of countries and their parts that ISO 3166-1 has given out, two letters each, in their order.
const OFFICIAL: &str = "\
    ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCV\
    CWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIM\
    INIOIQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMW\
    MXMYMZNANCNENFNGNINLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSS\
    STSVSXSYSZTCTDTFTGTHTJTKTLTMTNTOTRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSYEYTZAZMZW";

/// What to say of two capital letters that are no country's: which are meant, where that is known. `None` where they
/// are one's, or of those that everybody may use for what they like (ISO 3166-1 §8.1.3), as databases use `XK`.
pub(super) fn instead_of(code: &str) -> Option<&'static str> {
    let [first, second] = code.as_bytes() else { return Some("") };
    let is_official = OFFICIAL.as_bytes().chunks_exact(2).any(|one| one == code.as_bytes());
    let is_private = match (first, second) {
        (b'A', b'A') | (b'Z', b'Z') | (b'X', _) => true,
        (b'Q', second) => *second >= b'M',
        _ => false,
    };
    match code {
        _ if is_official || is_private => None,
        "UK" => Some(": the United Kingdom is `country:GB`"),
        "EU" => Some(": Europe is `continent:EU`"),
        _ => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_are_there_once_in_their_order() {
        let codes: Vec<_> = OFFICIAL.as_bytes().chunks(2).collect();
        assert_eq!(codes.len(), 249);
        assert!(codes.is_sorted_by(|one, next| one < next));
        for code in ["DE", "GB", "TW", "XK", "AA", "QM", "QZ", "ZZ"] {
            assert_eq!(instead_of(code), None, "{code}");
        }
        for code in ["UK", "EU", "QL", "ZY", "SU", "AB"] {
            assert!(instead_of(code).is_some(), "{code}");
        }
    }
}
