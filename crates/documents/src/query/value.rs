//! Whether an attribute can have a value that a query names.

use crate::shape::{Shape, Types};

/// What is wrong with a value for an attribute of a shape: nothing where the attribute can have it, or anything.
pub(super) fn mistake(
    types: &Types,
    shape: &Shape,
    steps: &[String],
    text: &str,
) -> Option<String> {
    match (types.plain(shape), steps) {
        (Shape::List(of, ..), _) => mistake(types, of, steps, text),
        (Shape::Either(shapes), _) => {
            let mut with_it = shapes.iter().filter(|one| types.has(one, steps));
            let first = mistake(types, with_it.next()?, steps, text)?;
            with_it.all(|one| mistake(types, one, steps, text).is_some()).then_some(first)
        }
        (shape, []) => wrong(shape, text),
        (shape, [first, rest @ ..]) => {
            let field = types.fields(shape)?.iter().find(|field| field.name == *first)?;
            mistake(types, &field.shape, rest, text)
        }
    }
}

fn wrong(shape: &Shape, text: &str) -> Option<String> {
    let number = || text.parse::<f64>().ok();
    let is_right = match shape {
        Shape::Choice(known) => known.iter().any(|one| one == text),
        Shape::Code(known) => text.parse().is_ok_and(|code| known.contains(&code)),
        Shape::Integer(..) => number().is_some_and(|number| number.fract() == 0.0),
        Shape::Number => number().is_some(),
        Shape::Boolean => text.to_ascii_lowercase().parse::<bool>().is_ok(),
        _ => true,
    };
    (!is_right).then(|| match shape {
        Shape::Choice(known) => format!("must be one of {}", known.join(", ")),
        Shape::Code(known) => format!("must be one of {known:?}"),
        Shape::Integer(..) => "must be a whole number".to_owned(),
        Shape::Number => "must be a number".to_owned(),
        _ => "must be true or false".to_owned(),
    })
}
