//! What happens at an armed point. At a site: count, record, decide, inject.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::{FaultKind, PointId};
use temblor_model::board::table;
use temblor_model::board::{ARM_COUNT, ARM_RECORD, ARM_SET, NO_STEP};

use crate::agent::Agent;
use crate::ask::{Question, ask};
use crate::clock;
use crate::decide::{Around, Decision, Hit, concerns, decide};
use crate::jvm::Jni;
use crate::stack::Stack;
use crate::states;
use crate::throw::throw;

/// Nobody is held longer: a lab that has not frozen the process by then will not.
const HOLD_LIMIT_NS: u64 = 120_000_000_000;
/// A held thread looks again after this, should nobody wake it: a fork's board says go at once.
const HOLD_TURN: Duration = Duration::from_millis(50);
/// A delayed thread looks whether all is healed after this, in virtual time.
const DELAY_TURN: Duration = Duration::from_millis(100);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running agent code: what the agent itself calls is never hooked.
pub struct Guard;

impl Guard {
    /// `None` when the thread is inside already.
    pub fn enter() -> Option<Guard> {
        INSIDE.with(|inside| (!inside.replace(true)).then_some(Guard))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
    }
}

/// The native side of `FaultHook.hit`.
pub fn hit(agent: &Agent, jni: Jni, point: i32) {
    let Ok(point) = u32::try_from(point) else {
        return;
    };
    let Some(_guard) = Guard::enter() else { return };
    hold(agent);
    match agent.place.board.header().points().point(point) {
        Some(PointId::Site(site)) => at_site(agent, jni, site),
        Some(PointId::State(state)) => states::enter(agent, state),
        Some(PointId::Task(task)) => states::leave(task),
        Some(PointId::Access(access)) => agent.told.accessed(access),
        Some(PointId::Timeout(_)) | None => {}
    }
}

fn at_site(agent: &Agent, jni: Jni, site: u32) {
    let board = &agent.place.board;
    let arm = board.arms()[site as usize].load(Ordering::Relaxed);
    let counter = &agent.counters[site as usize];
    let count = counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let hit = Hit {
        site,
        arm,
        count,
        state: states::current(),
    };
    let mut visit = Visit {
        agent,
        jni,
        hit,
        stack: None,
        nth: 0,
        access: None,
    };
    if hit.arm & ARM_RECORD != 0 {
        visit.record();
    }
    visit.count();
    let decision = decide(board, agent.place.node, hit, &mut visit);
    match decision {
        Decision::Pass => {}
        Decision::Fire { step, fault } => visit.inject(step, fault),
        Decision::Ask { step } => visit.ask(step),
    }
}

/// Waits while the board says so. The lab freezes the process here; in every fork of it the board
/// is another one, and the hit goes on as if it had just begun.
fn hold(agent: &Agent) {
    let word = &agent.place.board.header().hold;
    if word.load(Ordering::Acquire) == 0 {
        return;
    }
    let held = &agent.place.slot_header().held;
    held.fetch_add(1, Ordering::AcqRel);
    let deadline = clock::now_ns() + HOLD_LIMIT_NS;
    while word.load(Ordering::Acquire) != 0 && clock::now_ns() < deadline {
        clock::wait(word, 1, HOLD_TURN);
    }
    held.fetch_sub(1, Ordering::AcqRel);
}

/// One hit being dealt with; its stack is walked at most once.
struct Visit<'a> {
    agent: &'a Agent,
    jni: Jni,
    hit: Hit,
    stack: Option<Stack>,
    /// Which hit of this site, state and stack it is; 0 where these are not counted.
    nth: u32,
    access: Option<u32>,
}

impl Around for Visit<'_> {
    fn stack(&mut self) -> u64 {
        self.walked().hash
    }

    fn accesses(&mut self, within_ns: u64) -> Vec<u32> {
        self.agent.told.accesses(within_ns)
    }

    fn follows(&mut self, access: u32) {
        self.access = Some(access);
    }
}

impl Visit<'_> {
    fn walked(&mut self) -> &Stack {
        let (agent, jni) = (self.agent, self.jni);
        self.stack
            .get_or_insert_with(|| agent.walker.walk(agent.jvmti, jni))
    }

    /// The stack's hash while the site has stacks to spend, else 0.
    fn stack_while_cheap(&mut self) -> u64 {
        if self.hit.count > self.agent.place.board.header().stacks_per_site {
            return 0;
        }
        let agent = self.agent;
        let stack = self.walked();
        agent.journal.context(stack);
        stack.hash
    }

    /// Counts what the trial comes by, from when steps may fire.
    fn count(&mut self) {
        let board = &self.agent.place.board;
        let header = board.header();
        let wanted = ARM_RECORD | ARM_SET | ARM_COUNT;
        let counted = self.hit.arm & wanted != 0 && header.counts != 0;
        if !counted || header.current_step.load(Ordering::Relaxed) == NO_STEP {
            return;
        }
        let stack = if self.hit.arm & ARM_SET == 0 {
            self.stack_while_cheap()
        } else if concerns(board, self.agent.place.node, self.hit) {
            // Where a step may fire, the hit must be found again by its stack.
            self.walked().hash
        } else {
            0
        };
        let what = (self.hit.site, self.hit.state, stack);
        let visits = board.visits(self.agent.place.slot);
        self.nth = table::count_visit(visits, what, &header.ticket);
    }

    fn thread(&self) -> String {
        let thread = self.agent.jvmti.thread(self.jni);
        thread.map_or_else(String::new, |(name, loader)| {
            self.jni.delete(loader);
            name
        })
    }

    fn record(&mut self) {
        if self.hit.count > self.agent.place.board.header().hits_per_site {
            return;
        }
        let stack = self.stack_while_cheap();
        let (site, count, thread) = (self.hit.site, self.hit.count, self.thread());
        self.agent.journal.write(RecordWhat::Hit {
            site,
            count,
            stack,
            thread,
        });
    }

    /// Evidence first, then the fault: whatever it does, the record is on the board.
    fn inject(&mut self, step: u32, fault: u32) {
        let (site, count, thread) = (self.hit.site, self.hit.count, self.thread());
        let (nth, access) = (self.nth, self.access.map_or(0, |a| a + 1));
        let state = self.hit.state.map_or(0, |s| s + 1);
        let (agent, stack) = (self.agent, self.walked());
        let (hash, frames) = (stack.hash, stack.text());
        agent.journal.write_evidence(RecordWhat::Fired {
            step,
            site,
            count,
            fault,
            stack: hash,
            thread,
            frames,
            state,
            nth,
            access,
        });
        let board = &agent.place.board;
        if board.header().hold_after == step + 1 {
            board.header().hold.store(1, Ordering::Release);
        }
        let Some(rec) = board.faults().get(fault as usize) else {
            return agent
                .journal
                .notice(format!("step {step}: fault {fault} is not on the board"));
        };
        match FaultKind::from_u32(rec.kind) {
            Some(FaultKind::Throw) => {
                let class = board.class_of(rec);
                if let Err(reason) = throw(agent.jvmti, self.jni, class) {
                    agent
                        .journal
                        .notice(format!("step {step}: cannot throw {class}: {reason}"));
                }
            }
            Some(FaultKind::Delay) => delay(&board.header().heals, rec.amount),
            Some(FaultKind::Crash) => die(),
            Some(FaultKind::Lab) => {
                self.question(step);
            }
            None => agent
                .journal
                .notice(format!("step {step}: unknown kind of fault {}", rec.kind)),
        }
    }

    fn ask(&mut self, step: u32) {
        self.stack_while_cheap();
        let Some(answer) = self.question(step) else {
            return;
        };
        let taken = answer != 0 && self.agent.place.board.take_step(step);
        if taken {
            self.inject(step, answer - 1);
        }
    }

    /// Waits for the lab; without an answer the target goes on, and people are told.
    fn question(&mut self, step: u32) -> Option<u32> {
        let place = &self.agent.place;
        let Hit { site, count, .. } = self.hit;
        let stack = self.stack.as_ref().map_or(0, |stack| stack.hash);
        let answer = ask(
            &place.board,
            Question {
                slot: place.slot,
                step,
                site,
                stack,
                count,
            },
        );
        if answer.is_none() {
            let ms = place.board.header().ask_deadline_ms;
            let text = format!("step {step}: the lab did not answer within {ms} ms; going on");
            self.agent.journal.notice(text);
        }
        answer
    }
}

/// Sleeps for so many virtual milliseconds, or until the lab heals. Both clock and sleep are those
/// that the target has: a preloaded clock scales them.
fn delay(heals: &AtomicU32, ms: u64) {
    let before = heals.load(Ordering::Acquire);
    let began = Instant::now();
    let whole = Duration::from_millis(ms);
    while heals.load(Ordering::Acquire) == before {
        let left = whole.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(DELAY_TURN));
    }
}

/// The whole process, at once, as by `kill -9`.
fn die() {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}
