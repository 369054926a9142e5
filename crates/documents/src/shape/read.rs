//! Reads shapes as the tables write them.

use super::Shape;

/// Reads a shape:
///
/// | written | is |
/// |---|---|
/// | `string`, `uri`, `time`, `integer`, `number`, `boolean`, `object`, `any` | that |
/// | `integer 0..255`, `integer 0..` | a whole number in a range |
/// | `enum A B`, `enum 1 2` | one of these strings or numbers |
/// | `[shape]`, `[shape] 1..`, `[shape] 1..4` | a list |
/// | `Name` | a type |
/// | `A or B` | either |
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('[') {
        let end = matching(rest).ok_or_else(|| format!("`{text}` lacks its `]`"))?;
        let of = shape(&rest[..end])?;
        let (min, max) = range(rest[end + 1..].trim(), 0, usize::MAX)?;
        return Ok(Shape::List(Box::new(of), min, max));
    }
    if text.contains(" or ") {
        return text.split(" or ").map(shape).collect::<Result<_, _>>().map(Shape::Either);
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    if word != "enum" && word != "integer" && !rest.is_empty() {
        return Err(format!("`{rest}` after `{word}`"));
    }
    Ok(match word {
        "any" => Shape::Any,
        "object" => Shape::Object,
        "string" => Shape::Text,
        "uri" => Shape::Uri,
        "time" => Shape::Time,
        "number" => Shape::Number,
        "boolean" => Shape::Boolean,
        "integer" => {
            let (min, max) = range(rest.trim(), i64::MIN, i64::MAX)?;
            Shape::Integer(min, max)
        }
        "enum" => choice(rest)?,
        name if name.starts_with(|first: char| first.is_ascii_uppercase()) => {
            Shape::Named(name.to_owned())
        }
        other => return Err(format!("`{other}` is no shape")),
    })
}

fn choice(text: &str) -> Result<Shape, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err("`enum` without values".to_owned());
    }
    let codes: Result<Vec<i64>, _> = words.iter().map(|word| word.parse()).collect();
    Ok(match codes {
        Ok(codes) => Shape::Code(codes),
        Err(_) => Shape::Choice(words.into_iter().map(str::to_owned).collect()),
    })
}

/// Where the list that `rest` is in ends.
fn matching(rest: &str) -> Option<usize> {
    let mut depth = 1;
    rest.char_indices().find_map(|(index, sign)| {
        match sign {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(index)
    })
}

/// `min..max`, where either may be left out.
fn range<T: std::str::FromStr + Copy>(text: &str, min: T, max: T) -> Result<(T, T), String> {
    if text.is_empty() {
        return Ok((min, max));
    }
    let wrong = || format!("`{text}` is no range");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, or: T| {
        if text.is_empty() { Ok(or) } else { text.parse().map_err(|_| wrong()) }
    };
    Ok((number(first, min)?, number(last, max)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_written() {
        let named = |name: &str| Shape::Named(name.to_owned());
        assert_eq!(shape("integer 0..255"), Ok(Shape::Integer(0, 255)));
        assert_eq!(shape("enum 1 2"), Ok(Shape::Code(vec![1, 2])));
        assert_eq!(shape("enum A 2"), Ok(Shape::Choice(vec!["A".into(), "2".into()])));
        let inner = Shape::List(Box::new(named("A")), 1, usize::MAX);
        assert_eq!(shape("[[A] 1..] 0..2"), Ok(Shape::List(Box::new(inner), 0, 2)));
        assert_eq!(shape("A or B"), Ok(Shape::Either(vec![named("A"), named("B")])));
        for wrong in ["", "[A", "strin", "string 1", "enum", "integer 1-2", "A B"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }
}
