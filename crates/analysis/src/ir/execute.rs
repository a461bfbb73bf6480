//! What each instruction does to the symbolic frame.

use temblor_classfile::{Constant, Instruction, InvokeKind, method_types, opcode};

use super::build::MethodBuilder;
use super::frame::{Frame, Malformed};
use super::{Call, Closure, List, Op, OpKind, Sym, Target, Val, Value};

type Step = Result<(), Malformed>;

impl MethodBuilder<'_, '_> {
    /// Runs one instruction; a write to a local is reported by its slot.
    pub fn execute(
        &mut self,
        frame: &mut Frame,
        instruction: &Instruction<'_>,
    ) -> Result<Option<u16>, Malformed> {
        let code = instruction.opcode;
        // Types come in the order int, long, float, double, reference.
        let is_wide = |index: u8| index == 1 || index == 3;
        match code {
            0 => {}
            1..=20 => self.constant(frame, instruction)?,
            21..=45 => {
                let index = if code <= 25 {
                    code - 21
                } else {
                    (code - 26) / 4
                };
                let slot = instruction.local().ok_or(Malformed)?;
                let val = frame.local(slot)?;
                frame.push(val, is_wide(index));
            }
            46..=53 => {
                let index = frame.pop(false)?;
                let array = frame.pop(false)?;
                self.push(frame, Value::Element { array, index }, is_wide(code - 46));
            }
            54..=78 => {
                let index = if code <= 58 {
                    code - 54
                } else {
                    (code - 59) / 4
                };
                return self.store(frame, instruction, is_wide(index)).map(Some);
            }
            79..=86 => {
                let value = frame.pop(is_wide(code - 79))?;
                frame.pop(false)?;
                let array = frame.pop(false)?;
                self.op(instruction.pc, OpKind::ArrayStore { array, value });
            }
            87 | 88 => {
                frame.pop(code == 88)?;
            }
            89..=91 => frame.dup(1, usize::from(code - 89))?,
            92..=94 => frame.dup(2, usize::from(code - 92))?,
            95 => frame.swap()?,
            96..=152 => return self.arithmetic(frame, instruction),
            196 => return self.wide(frame, instruction),
            178..=181 => self.field(frame, instruction)?,
            182..=186 => self.invoke(frame, instruction)?,
            187..=189 | 197 => self.create(frame, instruction)?,
            190 => {
                let a = frame.pop(false)?;
                self.push(frame, Value::Unary { opcode: code, a }, false);
            }
            192 | 193 => {
                let a = frame.pop(false)?;
                let class = self.class_operand(instruction)?;
                let value = match code {
                    opcode::CHECKCAST => Value::Cast { a, class },
                    _ => Value::InstanceOf { a, class },
                };
                self.push(frame, value, false);
            }
            _ => self.control(frame, instruction)?,
        }
        Ok(None)
    }

    fn push(&mut self, frame: &mut Frame, value: Value, wide: bool) {
        let val = self.values.add(value);
        frame.push(val, wide);
    }

    fn op(&mut self, pc: u16, kind: OpKind) {
        self.ops.push(Op { pc, kind });
    }

    fn constant(&mut self, frame: &mut Frame, instruction: &Instruction<'_>) -> Step {
        let (value, wide) = match instruction.opcode {
            1 => (Value::Null, false),
            code @ 2..=8 => (Value::Int(i64::from(code) - 3), false),
            code @ (9 | 10) => (Value::Int(i64::from(code) - 9), true),
            11..=13 => (Value::Const, false),
            14 | 15 => (Value::Const, true),
            16 | 17 => {
                let int = instruction.int_operand().ok_or(Malformed)?;
                (Value::Int(i64::from(int)), false)
            }
            code => {
                let pool = self.class.pool();
                let constant = instruction.ldc(pool).ok().flatten().ok_or(Malformed)?;
                let value = match constant {
                    Constant::Integer(int) => Value::Int(i64::from(int)),
                    Constant::Long(long) => Value::Int(long),
                    Constant::String(text) => Value::Text(self.intern(&text.to_str())),
                    Constant::Class(name) => Value::ClassConst(self.intern(&name.to_str())),
                    _ => Value::Const,
                };
                (value, code == 20)
            }
        };
        self.push(frame, value, wide);
        Ok(())
    }

    fn store(
        &mut self,
        frame: &mut Frame,
        instruction: &Instruction<'_>,
        wide: bool,
    ) -> Result<u16, Malformed> {
        let slot = instruction.local().ok_or(Malformed)?;
        let val = frame.pop(wide)?;
        frame.set_local(slot, val, wide)?;
        self.name_local(val, slot, instruction.next_pc() as u16);
        Ok(slot)
    }

    fn arithmetic(
        &mut self,
        frame: &mut Frame,
        instruction: &Instruction<'_>,
    ) -> Result<Option<u16>, Malformed> {
        let code = instruction.opcode;
        let odd = code % 2 == 1;
        match code {
            // add, sub, mul, div, rem of int, long, float, double; and, or, xor of int, long.
            96..=115 | 126..=131 => {
                self.binary(frame, code, (odd, odd, odd))?;
                if matches!(code, opcode::LADD | opcode::LSUB) {
                    // A long lies below its second half.
                    let below = frame.stack.len().checked_sub(2).ok_or(Malformed)?;
                    self.op(instruction.pc, OpKind::Sum(frame.stack[below]));
                }
            }
            116..=119 => self.unary(frame, code, odd, odd)?,
            // The distance of a shift is an int.
            120..=125 => self.binary(frame, code, (odd, false, odd))?,
            132 => {
                let slot = instruction.local().ok_or(Malformed)?;
                let a = frame.local(slot)?;
                let by = instruction
                    .bytes()
                    .get(2)
                    .map_or(0, |b| i64::from(*b as i8));
                return self.increment(frame, slot, a, by).map(Some);
            }
            133..=147 => {
                let from = matches!(code, 136..=138 | 142..=144);
                let to = matches!(code, 133 | 135 | 138 | 140 | 141 | 143);
                self.unary(frame, code, from, to)?;
            }
            _ => {
                let wide = matches!(code, 148 | 151 | 152);
                self.binary(frame, code, (wide, wide, false))?;
                let compared = *frame.stack.last().ok_or(Malformed)?;
                self.op(instruction.pc, OpKind::Compare(compared));
            }
        }
        Ok(None)
    }

    fn increment(
        &mut self,
        frame: &mut Frame,
        slot: u16,
        a: Val,
        by: i64,
    ) -> Result<u16, Malformed> {
        let b = self.values.add(Value::Int(by));
        let opcode = opcode::IADD;
        let sum = self.values.add(Value::Binary { opcode, a, b });
        frame.set_local(slot, sum, false)?;
        Ok(slot)
    }

    /// `wide`: of the first operand, the second, the result.
    fn binary(&mut self, frame: &mut Frame, opcode: u8, wide: (bool, bool, bool)) -> Step {
        let b = frame.pop(wide.1)?;
        let a = frame.pop(wide.0)?;
        self.push(frame, Value::Binary { opcode, a, b }, wide.2);
        Ok(())
    }

    fn unary(&mut self, frame: &mut Frame, opcode: u8, from: bool, to: bool) -> Step {
        let a = frame.pop(from)?;
        self.push(frame, Value::Unary { opcode, a }, to);
        Ok(())
    }

    fn wide(
        &mut self,
        frame: &mut Frame,
        instruction: &Instruction<'_>,
    ) -> Result<Option<u16>, Malformed> {
        let bytes = instruction.bytes();
        let inner = *bytes.get(1).ok_or(Malformed)?;
        let slot = instruction.local().ok_or(Malformed)?;
        let wide = |first: u8| matches!(inner - first, 1 | 3);
        match inner {
            21..=25 => {
                let val = frame.local(slot)?;
                frame.push(val, wide(21));
                Ok(None)
            }
            54..=58 => self.store(frame, instruction, wide(54)).map(Some),
            opcode::IINC => {
                let a = frame.local(slot)?;
                let by = bytes.get(4..6).ok_or(Malformed)?;
                let by = i64::from(i16::from_be_bytes([by[0], by[1]]));
                self.increment(frame, slot, a, by).map(Some)
            }
            opcode::RET => Ok(None),
            _ => Err(Malformed),
        }
    }

    fn field(&mut self, frame: &mut Frame, instruction: &Instruction<'_>) -> Step {
        let access = instruction.field(self.class.pool()).ok().flatten();
        let access = access.ok_or(Malformed)?;
        let class = self.intern(&access.field.class.to_str());
        let name = self.intern(&access.field.name.to_str());
        let wide = matches!(access.field.descriptor.as_bytes(), b"J" | b"D");
        if access.is_write {
            let value = frame.pop(wide)?;
            let object = match access.is_static {
                true => Val::NONE,
                false => frame.pop(false)?,
            };
            let put = OpKind::Put {
                object,
                class,
                name,
                value,
            };
            self.op(instruction.pc, put);
            return Ok(());
        }
        let value = match access.is_static {
            true => Value::Static { class, name },
            false => Value::Field {
                object: frame.pop(false)?,
                class,
                name,
            },
        };
        let val = self.values.add(value);
        self.op(instruction.pc, OpKind::Get(val));
        frame.push(val, wide);
        Ok(())
    }

    fn invoke(&mut self, frame: &mut Frame, instruction: &Instruction<'_>) -> Step {
        let invoke = instruction.invoke(self.class.pool()).ok().flatten();
        let invoke = invoke.ok_or(Malformed)?;
        let text = invoke.descriptor.to_str();
        let (parameters, result) = method_types(&text).ok_or(Malformed)?;
        let mut args = Vec::with_capacity(parameters.len() + 1);
        for parameter in parameters.iter().rev() {
            args.push(frame.pop(matches!(*parameter, "J" | "D"))?);
        }
        if !matches!(invoke.kind, InvokeKind::Static | InvokeKind::Dynamic) {
            args.push(frame.pop(false)?);
        }
        args.reverse();
        let list = self.list(&args);
        let desc = self.intern(&text);
        let name = self.intern(&invoke.name.to_str());
        let returned = result.strip_prefix('L').and_then(|r| r.strip_suffix(';'));
        if let Some(target) = invoke.bootstrap.and_then(|b| self.closure_target(b)) {
            let interface = self.intern(returned.ok_or(Malformed)?);
            self.closures.push(Closure {
                interface,
                method: name,
                target,
                captured: list,
            });
            let index = self.closures.len() as u32 - 1;
            let val = self.values.add(Value::Closure(index));
            self.op(instruction.pc, OpKind::Closure(index));
            frame.push(val, false);
            return Ok(());
        }
        let index = self.calls.len() as u32;
        let val = match result {
            "V" => Val::NONE,
            _ => self.values.add(Value::Call(index)),
        };
        self.calls.push(Call {
            kind: invoke.kind,
            class: self.intern(&invoke.class.to_str()),
            name,
            desc,
            args: list,
            result: val,
        });
        self.op(instruction.pc, OpKind::Call(index));
        if !val.is_none() {
            frame.push(val, matches!(result, "J" | "D"));
        }
        Ok(())
    }

    /// The method behind a call site that `LambdaMetafactory` makes; others are opaque calls.
    fn closure_target(&self, bootstrap: u16) -> Option<Target> {
        let pool = self.class.pool();
        let method = self.bootstraps.get(usize::from(bootstrap))?;
        let reference = |index: u16| match pool.get(index).ok()? {
            Constant::MethodHandle { kind, reference } => {
                Some((kind, pool.member(reference).ok()?))
            }
            _ => None,
        };
        let (_, factory) = reference(method.handle)?;
        if factory.class != "java/lang/invoke/LambdaMetafactory" {
            return None;
        }
        let (kind, target) = reference(method.arguments().nth(1)?)?;
        Some(Target {
            class: self.intern(&target.class.to_str()),
            name: self.intern(&target.name.to_str()),
            desc: self.intern(&target.descriptor.to_str()),
            kind,
        })
    }

    fn list(&mut self, vals: &[Val]) -> List {
        let start = self.lists.len() as u32;
        self.lists.extend_from_slice(vals);
        List {
            start,
            len: vals.len() as u32,
        }
    }

    fn create(&mut self, frame: &mut Frame, instruction: &Instruction<'_>) -> Step {
        let value = match instruction.opcode {
            opcode::NEW => Value::New(self.class_operand(instruction)?),
            opcode::MULTIANEWARRAY => {
                for _ in 0..*instruction.bytes().get(3).ok_or(Malformed)? {
                    frame.pop(false)?;
                }
                Value::NewArray
            }
            _ => {
                frame.pop(false)?;
                Value::NewArray
            }
        };
        self.push(frame, value, false);
        Ok(())
    }

    fn class_operand(&self, instruction: &Instruction<'_>) -> Result<Sym, Malformed> {
        let class = instruction.class_operand(self.class.pool()).ok().flatten();
        Ok(self.intern(&class.ok_or(Malformed)?.to_str()))
    }

    /// Jumps, returns, throws and monitors.
    fn control(&mut self, frame: &mut Frame, instruction: &Instruction<'_>) -> Step {
        let code = instruction.opcode;
        let kind = match code {
            153..=158 | 198 | 199 => OpKind::Branch {
                opcode: code,
                a: frame.pop(false)?,
                b: Val::NONE,
            },
            159..=166 => {
                let b = frame.pop(false)?;
                let a = frame.pop(false)?;
                OpKind::Branch { opcode: code, a, b }
            }
            167 | 169 | 200 => return Ok(()),
            // What a subroutine returns to: nobody asks.
            168 | 201 => {
                self.push(frame, Value::Const, false);
                return Ok(());
            }
            170 | 171 => OpKind::Switch(frame.pop(false)?),
            172..=176 => OpKind::Return(frame.pop(matches!(code, 173 | 175))?),
            177 => OpKind::Return(Val::NONE),
            191 => OpKind::Throw(frame.pop(false)?),
            194 => OpKind::Enter(frame.pop(false)?),
            195 => OpKind::Exit(frame.pop(false)?),
            _ => return Err(Malformed),
        };
        self.op(instruction.pc, kind);
        Ok(())
    }
}
