//! One trial of the simulated target: a script of requests, and the steps of a plan evaluated at
//! each of them as the agent does it.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::board::spec::{context_key, place_key, state_key};
use temblor_model::history::{Baseline, Reached};
use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::SiteId;
use temblor_model::visit::{Visit, summed};
use temblor_model::{FNV_START, fnv64, fnv64_from};

use super::{NODES, Simulated};
use crate::delays;

/// A hit of a site.
#[derive(Clone, Debug)]
pub struct Request {
    /// Index in the list of nodes.
    pub node: usize,
    pub site: SiteId,
    pub stack: String,
    pub state: Option<u32>,
    /// The access of data about nodes that is just before it.
    pub access: Option<u32>,
    pub stack_hash: u64,
}

impl Request {
    pub fn new(site: SiteId, stack: &str, state: Option<u32>) -> Request {
        Request {
            node: 0,
            site,
            stack: stack.into(),
            state,
            access: None,
            stack_hash: u64::from_str_radix(stack, 16).unwrap(),
        }
    }

    fn visit(&self, first: u32) -> Visit {
        Visit {
            node: NODES[self.node].into(),
            state: self.state,
            site: self.site,
            hits: 1,
            first,
            in_memory: false,
        }
    }

    fn is_like(&self, other: &Request) -> bool {
        (self.node, self.site, self.stack_hash) == (other.node, other.site, other.stack_hash)
    }
}

/// What trials come by. They differ in the order of nodes, and in who leads.
#[derive(Default)]
pub struct Scripts {
    all: Vec<Script>,
    /// What follows a fault at this site, or at any, on the same node.
    after: Vec<(Option<SiteId>, Request)>,
}

/// What one trial comes by, as long as nothing fires.
struct Script {
    requests: Vec<Request>,
    visits: Vec<Visit>,
}

impl Scripts {
    /// `stage` gives the state of a context's hit, and the access before it.
    pub fn new(
        baseline: &Baseline,
        stage: impl Fn(&Reached, u32) -> (Option<u32>, Option<u32>),
        after: Vec<(Option<SiteId>, Request)>,
    ) -> Scripts {
        let all = (0..NODES.len()).map(|first| {
            let mut requests = Vec::new();
            for r in &baseline.reached {
                let node = NODES.iter().position(|n| *n == r.node).unwrap();
                let turn = (node + first) % NODES.len();
                if r.runs < baseline.runs && turn > 0 {
                    continue;
                }
                for hit in 0..r.least {
                    let (state, access) = stage(r, hit);
                    let request = Request {
                        node,
                        access,
                        ..Request::new(r.site, &r.stack, state)
                    };
                    requests.push(((hit, r.site, turn), request));
                }
            }
            requests.sort_by_key(|(key, _)| *key);
            let requests: Vec<Request> = requests.into_iter().map(|(_, r)| r).collect();
            Script {
                visits: visits(&requests),
                requests,
            }
        });
        Scripts {
            all: all.collect(),
            after,
        }
    }

    /// As baselines tell them: the most hits of a run.
    pub fn clean_visits(&self) -> Vec<Visit> {
        let mut most: BTreeMap<_, Visit> = BTreeMap::new();
        for visit in self.all.iter().flat_map(|script| &script.visits) {
            let key = (&visit.node, visit.state, visit.site);
            let kept = most.entry(key).or_insert_with(|| visit.clone());
            kept.hits = kept.hits.max(visit.hits);
            kept.first = kept.first.min(visit.first);
        }
        most.into_values().collect()
    }
}

/// What a sequence of requests comes by; `first` is the place in the sequence.
pub fn visits(requests: &[Request]) -> Vec<Visit> {
    let one = |(first, request): (u32, &Request)| request.visit(first);
    summed((0..).zip(requests).map(one).collect())
}

/// A fault that fired.
pub struct Shot {
    pub step: u32,
    pub fault: Fault,
    /// None for a fault of the lab's.
    pub request: Option<Request>,
    /// Which hit of the site and stack it was on its node, and which of these in its state.
    pub nth: u32,
    pub nth_in_state: u32,
}

/// What a trial did.
#[derive(Default)]
pub struct Ran {
    pub shots: Vec<Shot>,
    pub unreached: Vec<u32>,
    pub visits: Vec<Visit>,
}

/// Runs a plan.
pub fn run(target: &Simulated, trial: u64, plan: &Plan) -> Ran {
    // Which one is not the policy's to foresee.
    let chosen = fnv64(&trial.to_le_bytes()) >> 32;
    let script = &target.scripts.all[chosen as usize % NODES.len()];
    let mut agent = Agent::new(target, plan);
    let mut caused: Vec<Visit> = Vec::new();
    for (i, request) in script.requests.iter().enumerate() {
        if agent.is_done() {
            break;
        }
        if !agent.hit(request, &script.requests[..=i]) {
            continue;
        }
        // What a fault causes comes at once, and may be hit itself.
        let mut next = Some(request.clone());
        while let Some(cause) = next.take() {
            let causes = |(at, _): &&(Option<SiteId>, _)| at.is_none_or(|at| at == cause.site);
            for (_, after) in target.scripts.after.iter().filter(causes) {
                let request = Request {
                    node: cause.node,
                    ..after.clone()
                };
                caused.push(request.visit(i as u32));
                if agent.hit(&request, &[]) {
                    next = Some(request);
                }
            }
        }
    }
    let fired = agent.shots.len() as u32;
    let mut visits = Vec::new();
    if plan.steps.iter().any(|s| s.when.is_online()) {
        visits.clone_from(&script.visits);
        caused.into_iter().for_each(|visit| add(&mut visits, visit));
    }
    Ran {
        unreached: (fired..plan.steps.len() as u32).collect(),
        shots: agent.shots,
        visits,
    }
}

/// Keeps what [`summed`] gave in order.
fn add(visits: &mut Vec<Visit>, visit: Visit) {
    let key = |v: &Visit| (v.node.clone(), v.state, v.site);
    match visits.binary_search_by_key(&key(&visit), key) {
        Ok(at) => visits[at].hits += visit.hits,
        Err(at) => visits.insert(at, visit),
    }
}

/// Evaluates the steps of a plan.
pub struct Agent<'a> {
    target: &'a Simulated,
    plan: &'a Plan,
    /// The site of each step, where it has one.
    sites: Vec<Option<SiteId>>,
    /// The node and the state of each step that goes by states.
    in_states: Vec<Option<(usize, Option<u32>)>>,
    /// What each step does not count as new, or the sites that it looks at.
    sets: Vec<BTreeSet<u64>>,
    /// By site: whether a step that looks for new contexts looks at it.
    looks: Vec<bool>,
    /// Matching hits of the current step.
    count: u32,
    /// New ones that the current step has come by.
    new: BTreeSet<u64>,
    pub shots: Vec<Shot>,
}

impl<'a> Agent<'a> {
    pub fn new(target: &'a Simulated, plan: &'a Plan) -> Agent<'a> {
        let id = |name: &str| target.catalog.by_name(name).map(|s| s.id);
        let whens = || plan.steps.iter().map(|s| &s.when);
        let site = |when: &Trigger| match when {
            Trigger::Hit { site, .. } => Some(id(site).expect("a site of the catalog")),
            Trigger::InState { site, .. } => site.as_deref().and_then(id),
            _ => None,
        };
        let hex = |name: &String| u64::from_str_radix(name, 16).unwrap();
        let set = |when: &Trigger| match when {
            Trigger::NewState { known, .. } | Trigger::NewContext { known, .. } => {
                known.iter().map(hex).collect()
            }
            Trigger::AfterAccess { known, .. } => known.iter().map(|a| u64::from(*a)).collect(),
            Trigger::AnyOf { sites } => sites.iter().filter_map(|s| id(s)).map(u64::from).collect(),
            _ => BTreeSet::new(),
        };
        let state_id = |name: &String| target.catalog.states.iter().position(|s| s.name == *name);
        let in_state = |when: &Trigger| match when {
            Trigger::InState { node, state, .. } => {
                let node = NODES.iter().position(|n| Some(*n) == node.as_deref());
                let state = state.as_ref().map(|name| state_id(name).unwrap() as u32);
                Some((node.expect("a node of the target"), state))
            }
            _ => None,
        };
        let mut looks = vec![false; target.catalog.sites.len()];
        for when in whens() {
            if let Trigger::NewContext { among, .. } = when {
                let sites = target.catalog.among(*among);
                sites.iter().for_each(|s| looks[s.id as usize] = true);
            }
        }
        Agent {
            target,
            plan,
            looks,
            sites: whens().map(site).collect(),
            in_states: whens().map(in_state).collect(),
            sets: whens().map(set).collect(),
            count: 0,
            new: BTreeSet::new(),
            shots: Vec::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.shots.len() == self.plan.steps.len()
    }

    /// Whether the current step fires at this request; `before` ends with it.
    pub fn hit(&mut self, request: &Request, before: &[Request]) -> bool {
        let step = self.shots.len();
        let Some(planned) = self.plan.steps.get(step) else {
            return false;
        };
        if let Trigger::After { .. } = planned.when {
            self.shoot(planned.fault.clone(), None, &[]);
            return self.hit(request, before);
        }
        if self.sites[step].is_some_and(|site| site != request.site) {
            return false;
        }
        // What has no fault here uses up nothing that is new.
        let Some(fault) = self.fault(&planned.fault, request) else {
            return false;
        };
        if !self.matches(&planned.when, step, request) {
            return false;
        }
        self.shoot(fault, Some(request), before);
        true
    }

    fn shoot(&mut self, fault: Fault, request: Option<&Request>, before: &[Request]) {
        let like = |r: &&Request| request.is_some_and(|request| r.is_like(request));
        let same_state = |r: &&Request| request.is_some_and(|request| r.state == request.state);
        self.shots.push(Shot {
            step: self.shots.len() as u32,
            fault,
            request: request.cloned(),
            nth: before.iter().filter(like).count().max(1) as u32,
            nth_in_state: before.iter().filter(like).filter(same_state).count().max(1) as u32,
        });
        self.count = 0;
        self.new.clear();
    }

    fn matches(&mut self, when: &Trigger, step: usize, request: &Request) -> bool {
        let catalog = &self.target.catalog;
        match when {
            Trigger::Hit {
                node,
                stack,
                state,
                nth,
                ..
            } => {
                let name = request.state.map(|s| &catalog.states[s as usize].name);
                let on_node = node.as_ref().is_none_or(|n| n == NODES[request.node]);
                let here = stack.as_ref().is_none_or(|s| *s == request.stack);
                let fits = on_node && here && (state.is_none() || state.as_ref() == name);
                self.count += u32::from(fits);
                fits && self.count == *nth
            }
            Trigger::InState { rate, .. } => {
                self.count += 1;
                let focused = self.in_states[step] == Some((request.node, request.state));
                focused && self.draw(step) < *rate
            }
            Trigger::Random { rate, node: None } => {
                self.count += 1;
                self.draw(step) < *rate
            }
            Trigger::NewState { nth, .. } => {
                let node = fnv64(NODES[request.node].as_bytes());
                self.is_new(step, state_key(node, request.state), *nth)
            }
            Trigger::NewContext { nth, by, .. } => {
                let node = fnv64(NODES[request.node].as_bytes());
                let place = place_key(*by, node, request.state, || request.stack_hash);
                let looks = self.looks[request.site as usize];
                looks && self.is_new(step, context_key(request.site, place), *nth)
            }
            Trigger::AfterAccess { nth, .. } => request
                .access
                .is_some_and(|access| self.is_new(step, u64::from(access), *nth)),
            Trigger::AnyOf { .. } => {
                let of_site = |s: &Shot| s.request.as_ref().map(|r| r.site);
                let is_fresh = !self.shots.iter().any(|s| of_site(s) == Some(request.site));
                is_fresh && self.sets[step].contains(&u64::from(request.site))
            }
            other => panic!("the simulated agent does not know {other}"),
        }
    }

    /// The `nth` of those that are new.
    fn is_new(&mut self, step: usize, key: u64, nth: u32) -> bool {
        let is_new = !self.sets[step].contains(&key) && self.new.insert(key);
        is_new && self.new.len() as u32 == nth
    }

    fn draw(&self, step: usize) -> f64 {
        let mut hash = fnv64_from(FNV_START, &self.plan.seed.to_le_bytes());
        hash = fnv64_from(hash, &(step as u32).to_le_bytes());
        hash = fnv64_from(hash, &self.count.to_le_bytes());
        hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (hash >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The fault itself, or the site's own.
    fn fault(&self, fault: &Fault, request: &Request) -> Option<Fault> {
        let catalog = &self.target.catalog;
        let site = &catalog.sites[request.site as usize];
        match fault {
            Fault::Any => {
                let throw = |exception: &String| Fault::Throw {
                    exception: exception.clone(),
                };
                let mut own: Vec<Fault> = site.exceptions.iter().map(throw).collect();
                own.extend(site.can_be_slow().then_some(Fault::Delay { ms: 60_000 }));
                own.push(Fault::Crash);
                let key = [self.plan.seed, u64::from(request.site)].map(u64::to_le_bytes);
                let drawn = fnv64(&key.concat()) >> 32;
                Some(own.swap_remove(drawn as usize % own.len()))
            }
            Fault::SiteDelay { .. } => {
                let ms = delays::of_site(fault, site, Some(&self.target.baseline))?;
                Some(Fault::Delay { ms })
            }
            fault => Some(fault.clone()),
        }
    }
}
