//! Values as a reader would write them: `this.state == 2`, `snapThread.isAlive()`.

use temblor_classfile::{method_types, opcode};

use super::{Body, Call, OpKind, Sym, Val, Value};
use crate::program::Program;

/// How deep an expression is written out before `…` stands for the rest.
const MAX_DEPTH: u32 = 5;
/// A call longer than this is written without its arguments.
const MAX_CALL_CHARS: usize = 80;
/// A text longer than this is cut.
const MAX_TEXT_CHARS: usize = 24;
/// A condition longer than this is cut.
const MAX_CONDITION_CHARS: usize = 240;

/// Writes the values of one body.
pub struct Text<'t> {
    pub program: &'t Program,
    pub body: &'t Body,
    pub is_static: bool,
    /// Of the method.
    pub desc: Sym,
}

/// How tightly what is written holds together; parentheses go around what is looser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    Xor,
    And,
    Compare,
    Shift,
    Sum,
    Product,
    /// Nothing can tear it apart.
    Whole,
}

impl Text<'_> {
    pub fn of(&self, val: Val) -> String {
        self.write(val, 0)
    }

    /// As an operand of something that binds this tightly.
    fn operand(&self, val: Val, within: Binding, depth: u32) -> String {
        let text = self.write(val, depth);
        match self.binding(val) < within {
            true => format!("({text})"),
            false => text,
        }
    }

    fn binding(&self, val: Val) -> Binding {
        match self.body.value(val) {
            Value::Cast { a, .. } if !self.is_better_named(val, a) => self.binding(a),
            _ if self.named(val).is_some() => Binding::Whole,
            Value::Unary {
                opcode: 116..=119 | 190,
                ..
            } => Binding::Whole,
            Value::Unary { a, .. } => self.binding(a),
            Value::InstanceOf { .. } => Binding::Compare,
            Value::Binary { opcode, .. } => operator(opcode).1,
            _ => Binding::Whole,
        }
    }

    fn write(&self, val: Val, depth: u32) -> String {
        if val.is_none() {
            return String::new();
        }
        if depth > MAX_DEPTH {
            return "…".into();
        }
        let whole = |v: Val| self.operand(v, Binding::Whole, depth + 1);
        match self.body.value(val) {
            Value::Param(0) if !self.is_static => "this".into(),
            Value::Int(int) => int.to_string(),
            Value::Text(text) => format!("{:?}", shorten(self.program.str(text), MAX_TEXT_CHARS)),
            Value::ClassConst(class) => format!("{}.class", self.simple(class)),
            Value::Null => "null".into(),
            Value::Static { class, name } => self.of_static(class, name),
            Value::Field {
                object,
                class,
                name,
            } => self.field(&whole(object), class, name),
            Value::Cast { a, .. } if !self.is_better_named(val, a) => self.write(a, depth),
            _ if self.named(val).is_some() => self.named(val).unwrap_or_default(),
            Value::Call(call) => self.call(&self.body.calls[call as usize], depth),
            Value::Param(n) => format!("arg{n}"),
            Value::Element { array, index } => {
                format!("{}[{}]", whole(array), self.write(index, depth + 1))
            }
            Value::Binary { opcode, a, b } => {
                let (sign, binding) = operator(opcode);
                let a = self.operand(a, binding, depth + 1);
                // `a - (b - c)` is not `a - b - c`.
                let tighter = match binding {
                    Binding::Sum => Binding::Product,
                    Binding::Product => Binding::Whole,
                    other => other,
                };
                format!("{a} {sign} {}", self.operand(b, tighter, depth + 1))
            }
            Value::Unary { opcode: 190, a } => format!("{}.length", whole(a)),
            Value::Unary {
                opcode: 116..=119,
                a,
            } => format!("-{}", whole(a)),
            Value::Unary { a, .. } => self.write(a, depth),
            Value::InstanceOf { a, class } => {
                let a = self.operand(a, Binding::Compare, depth + 1);
                format!("{a} instanceof {}", self.simple(class))
            }
            Value::New(class) => format!("new {}(…)", self.simple(class)),
            Value::Closure(_) => "() -> …".into(),
            Value::Caught(_) => "exception".into(),
            _ => "…".into(),
        }
    }

    /// A field of an object; what compilers add for the class around one reads as in the source.
    fn field(&self, object: &str, class: Sym, name: Sym) -> String {
        let field = self.program.str(name);
        if let Some(captured) = field.strip_prefix("val$") {
            return captured.to_string();
        }
        if field.starts_with("this$") || field == "$outer" {
            let found = self.program.field(class, name);
            let desc = found.map(|(_, f)| self.program.str(f.desc));
            if let Some(outer) = desc.and_then(crate::load::class_of) {
                return format!("{}.this", innermost(outer));
            }
        }
        format!("{object}.{field}")
    }

    fn of_static(&self, class: Sym, name: Sym) -> String {
        let name = self.program.str(name);
        // The one instance of a Scala object.
        match name {
            "MODULE$" => innermost(self.program.str(class).trim_end_matches('$')).to_string(),
            _ => format!("{}.{name}", self.simple(class)),
        }
    }

    fn call(&self, call: &Call, depth: u32) -> String {
        let name = self.program.str(call.name);
        let args = self.body.args(call);
        if let Some(field) = self.accessor(call) {
            let object = self.operand(args[0], Binding::Whole, depth + 1);
            return self.field(&object, field.0, field.1);
        }
        let (receiver, args) = match self.body.receiver(call) {
            Some(receiver) => (
                self.operand(receiver, Binding::Whole, depth + 1),
                &args[1..],
            ),
            None => (self.simple(call.class), args),
        };
        let args: Vec<String> = args.iter().map(|a| self.write(*a, depth + 1)).collect();
        let head = match receiver.as_str() {
            "this" | "" => name.to_string(),
            _ => format!("{receiver}.{name}"),
        };
        let args = args.join(", ");
        match head.chars().count() + args.chars().count() > MAX_CALL_CHARS {
            true => format!("{head}(…)"),
            false => format!("{head}({args})"),
        }
    }

    /// The field behind `access$000`, by which inner classes read private fields before Java 11.
    fn accessor(&self, call: &Call) -> Option<(Sym, Sym)> {
        if !self.program.str(call.name).starts_with("access$") {
            return None;
        }
        let class = self.program.class_named(call.class)?;
        let declared = self.program.resolve(class, call.name, call.desc)?;
        let body = self.program.declared(declared).body.as_ref()?;
        match (&*body.ops, &*body.blocks) {
            ([get, ret], [_]) => match (get.kind, ret.kind) {
                (OpKind::Get(got), OpKind::Return(given)) if got == given => {
                    match body.value(got) {
                        Value::Field {
                            object,
                            class,
                            name,
                        } if body.value(object) == Value::Param(0) => Some((class, name)),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn named(&self, val: Val) -> Option<String> {
        let at = self
            .body
            .names
            .binary_search_by_key(&val, |(v, _)| *v)
            .ok()?;
        Some(self.program.str(self.body.names[at].1).to_string())
    }

    /// A cast that a variable was made of; but fields say more than copies of them.
    fn is_better_named(&self, cast: Val, a: Val) -> bool {
        let is_field = matches!(
            self.body.value(a),
            Value::Field { .. } | Value::Static { .. } | Value::Param(_)
        );
        !is_field && self.named(cast).is_some()
    }

    fn simple(&self, class: Sym) -> String {
        let name = self.program.str(class);
        name.rsplit('/').next().unwrap_or(name).to_string()
    }

    /// Cuts a condition that is too long to read.
    pub fn cut(&self, condition: String) -> String {
        shorten(&condition, MAX_CONDITION_CHARS)
    }

    /// The condition under which a branch or switch takes this edge.
    pub fn condition(&self, block: usize, edge: usize) -> String {
        let block = &self.body.blocks[block];
        match self.body.ops_of(block).last().map(|op| op.kind) {
            Some(OpKind::Branch { opcode, a, b }) => self.comparison(opcode, a, b, edge == 0),
            Some(OpKind::Switch(val)) => self.case(val, block.cases.get(edge).copied()),
            _ => String::new(),
        }
    }

    /// A case of a switch; none is the default.
    fn case(&self, val: Val, case: Option<i32>) -> String {
        // A switch over types asks an invokedynamic for the number of the case.
        if let Value::Call(call) = self.body.value(val)
            && let call = &self.body.calls[call as usize]
            && matches!(self.program.str(call.name), "typeSwitch" | "enumSwitch")
            && let (Some(subject), Some(case)) = (self.body.args(call).first(), case)
        {
            let subject = self.operand(*subject, Binding::Whole, 0);
            return format!("{subject} is case {case}");
        }
        let (subject, label) = self
            .enum_case(val, case)
            .or_else(|| self.text_case(val, case))
            .unwrap_or((val, case.map(|c| c.to_string())));
        let subject = self.operand(subject, Binding::Compare, 0);
        match label {
            Some(label) => format!("{subject} == {label}"),
            None => format!("{subject} is no other case"),
        }
    }

    /// A switch on an enum goes through a table of numbers that a class beside it fills.
    fn enum_case(&self, val: Val, case: Option<i32>) -> Option<(Val, Option<String>)> {
        let Value::Element { array, index } = self.body.value(val) else {
            return None;
        };
        let (Value::Static { class, name: table }, Value::Call(call)) =
            (self.body.value(array), self.body.value(index))
        else {
            return None;
        };
        let call = &self.body.calls[call as usize];
        let subject = self.body.receiver(call)?;
        if self.program.str(call.name) != "ordinal" {
            return None;
        }
        let Some(case) = case else {
            return Some((subject, None));
        };
        let class = self.program.class(self.program.class_named(class)?);
        let filled = |m: &&super::Method| self.program.str(m.name) == "<clinit>";
        let body = class.methods.iter().find(filled)?.body.as_ref()?;
        let mut constant = None;
        for op in &body.ops {
            match op.kind {
                OpKind::Get(got) => match body.value(got) {
                    Value::Static { name, .. } if name != table => constant = Some(name),
                    _ => {}
                },
                OpKind::ArrayStore { array, value } => {
                    let here =
                        matches!(body.value(array), Value::Static { name, .. } if name == table);
                    if here && body.value(value) == Value::Int(case.into()) {
                        return Some((subject, constant.map(|c| self.program.str(c).to_string())));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// A switch on a text first finds the number of the text that is equal.
    fn text_case(&self, val: Val, case: Option<i32>) -> Option<(Val, Option<String>)> {
        let constants = self.body.constants_of(val);
        let compared = |from: u32| {
            let leads = |b: &&super::Block| b.next.contains(&from);
            let mut before = self.body.blocks.iter().filter(leads);
            before.find_map(|b| match self.body.ops_of(b).last()?.kind {
                OpKind::Branch { a, .. } => {
                    let Value::Call(call) = self.body.value(a) else {
                        return None;
                    };
                    let call = &self.body.calls[call as usize];
                    let [subject, text] = *self.body.args(call) else {
                        return None;
                    };
                    match self.body.value(text) {
                        Value::Text(text) => Some((subject, text)),
                        _ => None,
                    }
                }
                _ => None,
            })
        };
        let Some(case) = case else {
            let any = constants.iter().find_map(|(_, from, _)| compared(*from))?;
            return Some((any.0, None));
        };
        let is_case = |c: &&(Val, u32, Val)| self.body.value(c.2) == Value::Int(case.into());
        let (_, from, _) = constants.iter().find(is_case)?;
        let (subject, text) = compared(*from)?;
        let text = shorten(self.program.str(text), MAX_TEXT_CHARS);
        Some((subject, Some(format!("{text:?}"))))
    }

    fn comparison(&self, code: u8, a: Val, b: Val, taken: bool) -> String {
        // The tests come in pairs of a test and its opposite.
        let code = match taken {
            true => code,
            false if code >= opcode::IFNULL => code ^ 1,
            false => ((code - opcode::IFEQ) ^ 1) + opcode::IFEQ,
        };
        let (a, b) = match (self.body.value(a), b.some()) {
            // lcmp and its kin give -1, 0 or 1, which is compared with 0.
            (
                Value::Binary {
                    opcode: 148..=152,
                    a,
                    b,
                },
                None,
            ) => (a, Some(b)),
            (_, b) => (a, b),
        };
        // Zero means false, null, or a number.
        if b.is_none() && matches!(code, 153 | 154) && self.is_truth(a, 0) {
            return match code {
                153 => format!("!{}", self.operand(a, Binding::Whole, 0)),
                _ => self.write(a, 0),
            };
        }
        let sign = match code {
            153 | 159 | 165 | opcode::IFNULL => "==",
            154 | 160 | 166 | opcode::IFNONNULL => "!=",
            155 | 161 => "<",
            156 | 162 => ">=",
            157 | 163 => ">",
            _ => "<=",
        };
        let right = match b {
            Some(b) => self.operand(b, Binding::Shift, 0),
            None if code >= opcode::IFNULL => "null".into(),
            None => "0".into(),
        };
        format!("{} {sign} {right}", self.operand(a, Binding::Shift, 0))
    }

    /// Compared with 0 because it is a boolean, as far as its source tells.
    fn is_truth(&self, val: Val, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        match self.body.value(val) {
            Value::Call(call) => {
                let desc = self.program.str(self.body.calls[call as usize].desc);
                desc.ends_with(")Z")
            }
            Value::InstanceOf { .. } => true,
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let field = self.program.field(class, name);
                field.is_some_and(|(_, f)| self.program.str(f.desc) == "Z")
            }
            Value::Param(position) => {
                let at = usize::from(position).checked_sub(usize::from(!self.is_static));
                let types = method_types(self.program.str(self.desc));
                let types = types.map(|(parameters, _)| parameters).unwrap_or_default();
                at.and_then(|at| types.get(at)) == Some(&"Z")
            }
            // `&`, `|` and `^` of booleans.
            Value::Binary {
                opcode: 126 | 128 | 130,
                a,
                b,
            } => self.is_truth(a, depth + 1) && self.is_truth(b, depth + 1),
            Value::Phi(list) => self.body.list(list).iter().all(|v| {
                matches!(self.body.value(*v), Value::Int(0 | 1)) || self.is_truth(*v, depth + 1)
            }),
            _ => false,
        }
    }
}

/// `pkg/Outer$Inner` to `Inner`.
fn innermost(class: &str) -> &str {
    class.rsplit(['/', '$']).next().unwrap_or(class)
}

fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

fn operator(code: u8) -> (&'static str, Binding) {
    match code {
        96..=99 => ("+", Binding::Sum),
        100..=103 => ("-", Binding::Sum),
        104..=107 => ("*", Binding::Product),
        108..=111 => ("/", Binding::Product),
        112..=115 => ("%", Binding::Product),
        120 | 121 => ("<<", Binding::Shift),
        122 | 123 => (">>", Binding::Shift),
        124 | 125 => (">>>", Binding::Shift),
        126 | 127 => ("&", Binding::And),
        128 | 129 => ("|", Binding::Or),
        130 | 131 => ("^", Binding::Xor),
        _ => ("<=>", Binding::Compare),
    }
}
