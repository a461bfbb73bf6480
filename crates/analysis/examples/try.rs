//! Tries the analysis on a class path: JDK home, packages, pattern of sites to print, paths.
fn main() {
    let mut args = std::env::args().skip(1);
    let jdk = std::path::PathBuf::from(args.next().unwrap());
    let packages = args.next().unwrap().split(',').map(String::from).collect();
    let pattern = args.next().unwrap();
    let paths = args.map(Into::into).collect();
    let request = temblor_analysis::Request::new(paths, &jdk, packages);
    let t = std::time::Instant::now();
    let a = temblor_analysis::analyze(&request).unwrap();
    println!("{:?} {:?}", t.elapsed(), a.effort);
    let c = &a.catalog;
    let st: Vec<_> = c.sites.iter().filter(|s| s.io.is_some()).collect();
    println!(
        "sites {} throwing {} io {} removed {} messages {} meta {} maybe-mem {}",
        c.sites.len(),
        c.sites.iter().filter(|s| !s.exceptions.is_empty()).count(),
        st.len(),
        c.removed.len(),
        c.messages.len(),
        c.meta_accesses.len(),
        c.sites.iter().filter(|s| s.may_be_memory).count()
    );
    for d in a.diagnostics.iter().take(5) {
        println!("{} {}", d.place, d.message);
    }
    for s in c.sites.iter().filter(|s| s.name.contains(&pattern)) {
        println!(
            "{} line {:?}\n    {:?} {:?} {:?} mem={} {:?}",
            s.name,
            s.line,
            s.exceptions,
            s.io.map(|i| (i.medium, i.direction)),
            s.io_target,
            s.may_be_memory,
            s.origins
                .iter()
                .map(|o| o.place.as_str())
                .collect::<Vec<_>>()
        );
    }
    for r in c.removed.iter().filter(|s| s.name.contains(&pattern)) {
        println!("REMOVED {} line {:?} {}", r.name, r.line, r.why);
    }
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", s.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
