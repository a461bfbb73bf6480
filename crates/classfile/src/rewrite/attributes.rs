//! The attributes of `Code` that contain pcs, moved to the new layout; all others are copied.

use super::SkipReason;
use super::layout::Layout;
use super::leaving::{Tail, TailFrame};
use crate::attribute::{Attribute, find};
use crate::code::Code;
use crate::cursor::{Cursor, u2_at};
use crate::error::ReadError;
use crate::frames::{Frame, FrameKind, Frames, TypeList};

/// Deepest nesting of annotation values that is followed; real ones stay below five.
const MAX_ANNOTATION_DEPTH: usize = 64;

/// Writes the attribute table of `code`, with its count.
pub(crate) fn write_attributes(
    out: &mut Vec<u8>,
    code: &Code<'_>,
    tail: Option<&Tail>,
    layout: &Layout,
) -> Result<(), SkipReason> {
    let frame = tail.and_then(|tail| tail.frame);
    let framed = find(code.attributes(), "StackMapTable").is_some();
    let new_table = frame.filter(|_| !framed);
    let count = code.attributes().len() + usize::from(new_table.is_some());
    let what = "attribute table";
    let count = u16::try_from(count).map_err(|_| SkipReason::TableFull { what })?;
    out.extend(count.to_be_bytes());
    for attribute in code.attributes() {
        out.extend(attribute.name_index.to_be_bytes());
        let length_at = out.len();
        out.extend([0; 4]);
        write_content(out, attribute, frame, layout)?;
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
    if let Some(frame) = new_table {
        out.extend(frame.table_name.to_be_bytes());
        let length = 2 + TailFrame::LENGTH as u32;
        out.extend(length.to_be_bytes());
        out.extend(1u16.to_be_bytes());
        frame.write(out, layout.end());
    }
    Ok(())
}

fn write_content(
    out: &mut Vec<u8>,
    attribute: &Attribute<'_>,
    frame: Option<TailFrame>,
    layout: &Layout,
) -> Result<(), SkipReason> {
    if attribute.name.as_bytes() == b"StackMapTable" {
        return write_frames(out, attribute, frame, layout);
    }
    let start = out.len();
    out.extend_from_slice(attribute.content);
    let content = &mut out[start..];
    match attribute.name.as_bytes() {
        b"LineNumberTable" => {
            for row in rows(content, 4) {
                patch(row, 0, |pc| layout.lenient(pc));
            }
        }
        b"LocalVariableTable" | b"LocalVariableTypeTable" => {
            for row in rows(content, 10) {
                move_range(row, layout);
            }
        }
        b"RuntimeVisibleTypeAnnotations" | b"RuntimeInvisibleTypeAnnotations" => {
            move_type_annotations(content, attribute, layout)?;
        }
        _ => {}
    }
    Ok(())
}

/// The rows of a counted table, as many as are really there.
fn rows(content: &mut [u8], width: usize) -> impl Iterator<Item = &mut [u8]> {
    let count = usize::from(u2_at(content, 0).unwrap_or_default());
    content
        .get_mut(2..)
        .unwrap_or_default()
        .chunks_exact_mut(width)
        .take(count)
}

fn patch(row: &mut [u8], at: usize, new: impl FnOnce(u16) -> u16) {
    if let Some(old) = u2_at(row, at) {
        row[at..at + 2].copy_from_slice(&new(old).to_be_bytes());
    }
}

/// A row that begins with a start pc and a length.
fn move_range(row: &mut [u8], layout: &Layout) {
    let (Some(start), Some(length)) = (u2_at(row, 0), u2_at(row, 2)) else {
        return;
    };
    let new_start = layout.lenient(start);
    let new_end = layout.lenient(start.saturating_add(length));
    patch(row, 0, |_| new_start);
    patch(row, 2, |_| new_end.saturating_sub(new_start));
}

fn write_frames(
    out: &mut Vec<u8>,
    attribute: &Attribute<'_>,
    tail: Option<TailFrame>,
    layout: &Layout,
) -> Result<(), SkipReason> {
    let mut frames = Frames::read(attribute)?;
    let what = "stack map table";
    let count = u2_at(attribute.content, 0)
        .unwrap_or_default()
        .checked_add(u16::from(tail.is_some()))
        .ok_or(SkipReason::TableFull { what })?;
    out.extend(count.to_be_bytes());
    let mut previous = None;
    for frame in &mut frames {
        let frame = frame?;
        let pc = layout.block(frame.pc, "a stack map frame")?;
        write_frame(out, &frame, delta(pc, previous)?, layout)?;
        previous = Some(pc);
    }
    if let Some(tail) = tail {
        tail.write(out, delta(layout.end(), previous)?);
    }
    Ok(frames.check_end()?)
}

/// The first frame's delta is its pc; later ones count from the pc after the one before.
fn delta(pc: u16, previous: Option<u16>) -> Result<u16, ReadError> {
    let next = previous.map_or(0, |previous| u32::from(previous) + 1);
    let delta = u32::from(pc).checked_sub(next);
    // A frame at the code's end, where no instruction is, would leave the tail's none.
    delta.map(|delta| delta as u16).ok_or(ReadError::Pc {
        what: "a stack map frame",
        pc: i64::from(pc),
    })
}

fn write_frame(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    delta: u16,
    layout: &Layout,
) -> Result<(), ReadError> {
    match (frame.kind, frame.tag) {
        // The short forms hold deltas up to 63; a form that was long already stays long.
        (FrameKind::Same, 0..=63) if delta <= 63 => out.push(delta as u8),
        (FrameKind::Same, _) => extended(out, 251, delta),
        (FrameKind::SameLocalsOneStack, 64..=127) if delta <= 63 => out.push(64 + delta as u8),
        (FrameKind::SameLocalsOneStack, _) => extended(out, 247, delta),
        _ => extended(out, frame.tag, delta),
    }
    if frame.kind == FrameKind::Full {
        out.extend(frame.locals.count.to_be_bytes());
        write_types(out, &frame.locals, layout)?;
        out.extend(frame.stack.count.to_be_bytes());
        write_types(out, &frame.stack, layout)
    } else {
        write_types(out, &frame.locals, layout)?;
        write_types(out, &frame.stack, layout)
    }
}

fn extended(out: &mut Vec<u8>, tag: u8, delta: u16) {
    out.push(tag);
    out.extend(delta.to_be_bytes());
}

/// Copies types; an uninitialised object is named by its `new` instruction's own position.
fn write_types(out: &mut Vec<u8>, types: &TypeList<'_>, layout: &Layout) -> Result<(), ReadError> {
    let start = out.len();
    out.extend_from_slice(types.raw);
    let mut at = start;
    while let Some(&tag) = out.get(at) {
        if tag == 8 {
            let old = u2_at(out, at + 1).unwrap_or_default();
            let new = layout.own(old, "an uninitialised type")?;
            out[at + 1..at + 3].copy_from_slice(&new.to_be_bytes());
        }
        at += if tag >= 7 { 3 } else { 1 };
    }
    Ok(())
}

/// Patches pcs in place: no form of target changes its size.
fn move_type_annotations(
    content: &mut [u8],
    attribute: &Attribute<'_>,
    layout: &Layout,
) -> Result<(), ReadError> {
    let mut cursor = attribute.cursor();
    let what = "type annotation";
    let here = |cursor: &Cursor<'_>| cursor.offset() - attribute.offset;
    for _ in 0..cursor.u2(what)? {
        match cursor.u1(what)? {
            0x00 | 0x01 | 0x16 => drop(cursor.u1(what)?),
            0x10 | 0x11 | 0x12 | 0x17 | 0x42 => drop(cursor.u2(what)?),
            0x13..=0x15 => {}
            0x40 | 0x41 => {
                for _ in 0..cursor.u2(what)? {
                    let at = here(&cursor);
                    cursor.take(6, what)?;
                    move_range(&mut content[at..at + 6], layout);
                }
            }
            target @ 0x43..=0x4B => {
                patch(content, here(&cursor), |pc| layout.lenient_own(pc));
                cursor.take(if target >= 0x47 { 3 } else { 2 }, what)?;
            }
            _ => {
                let (at, reason) = (cursor.offset(), "unknown target type");
                return Err(ReadError::Attribute {
                    attribute: "type annotations",
                    at,
                    reason,
                });
            }
        }
        let path = usize::from(cursor.u1(what)?);
        cursor.take(2 * path, what)?;
        skip_annotation(&mut cursor, 0)?;
    }
    Ok(())
}

fn skip_annotation(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), ReadError> {
    cursor.u2("annotation type")?;
    for _ in 0..cursor.u2("annotation element count")? {
        cursor.u2("annotation element name")?;
        skip_value(cursor, depth + 1)?;
    }
    Ok(())
}

fn skip_value(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), ReadError> {
    let what = "annotation value";
    let refuse = |at, reason| {
        Err(ReadError::Attribute {
            attribute: "annotation",
            at,
            reason,
        })
    };
    if depth > MAX_ANNOTATION_DEPTH {
        return refuse(cursor.offset(), "nested too deeply");
    }
    match cursor.u1(what)? {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' | b's' | b'c' => {
            cursor.u2(what)?;
        }
        b'e' => drop(cursor.u4(what)?),
        b'@' => skip_annotation(cursor, depth)?,
        b'[' => {
            for _ in 0..cursor.u2(what)? {
                skip_value(cursor, depth + 1)?;
            }
        }
        _ => return refuse(cursor.offset(), "unknown element value"),
    }
    Ok(())
}
