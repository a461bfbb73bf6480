//! Names people recognise: `pkg.Class.method(Params)` from internal names and descriptors.

/// `org/x/A$B` to `org.x.A$B`.
pub fn dotted(internal: &str) -> String {
    internal.replace('/', ".")
}

/// The parameter types of a descriptor by their simple names, comma-separated.
pub fn parameters(desc: &str) -> String {
    let inside = desc
        .strip_prefix('(')
        .and_then(|d| d.split_once(')'))
        .map_or("", |(p, _)| p);
    let mut out = Vec::new();
    let mut rest = inside;
    while let Some((name, tail)) = one_type(rest) {
        out.push(name);
        rest = tail;
    }
    out.join(",")
}

fn one_type(desc: &str) -> Option<(String, &str)> {
    let element = desc.trim_start_matches('[');
    let dimensions = desc.len() - element.len();
    let (name, rest) = match element.as_bytes().first()? {
        b'L' => {
            let (class, rest) = element[1..].split_once(';')?;
            (class.rsplit('/').next().unwrap_or(class).to_string(), rest)
        }
        primitive => {
            let name = match primitive {
                b'B' => "byte",
                b'C' => "char",
                b'D' => "double",
                b'F' => "float",
                b'I' => "int",
                b'J' => "long",
                b'S' => "short",
                b'Z' => "boolean",
                _ => return None,
            };
            (name.to_string(), &element[1..])
        }
    };
    Some((name + &"[]".repeat(dimensions), rest))
}

/// `pkg.Class.method` of a stack frame, as the agent writes it (`pkg.Class.method:12`) or as the
/// JVM prints it (`pkg.Class.method(Source.java:12)`).
pub fn method_of_frame(frame: &str) -> &str {
    frame.split(['(', ':']).next().unwrap_or(frame).trim()
}

/// The line of a stack frame in either form, where it tells one.
pub fn line_of_frame(frame: &str) -> Option<u32> {
    frame.rsplit(':').next()?.trim_end_matches(')').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_tell_their_method_and_mostly_their_line() {
        for (frame, line) in [
            ("x.Log.put:12", Some(12)),
            ("x.Log.put(Log.java:12)", Some(12)),
            ("x.Log.put", None),
            ("x.Log.put(Native Method)", None),
        ] {
            assert_eq!(method_of_frame(frame), "x.Log.put");
            assert_eq!(line_of_frame(frame), line, "{frame}");
        }
    }

    #[test]
    fn descriptors_read_as_people_write_them() {
        for (desc, expected) in [
            ("()V", ""),
            ("(I)V", "int"),
            ("([BII)I", "byte[],int,int"),
            ("(Ljava/lang/String;[[JLa/B$C;)V", "String,long[][],B$C"),
            ("(broken", ""),
        ] {
            assert_eq!(parameters(desc), expected, "{desc}");
        }
    }
}
