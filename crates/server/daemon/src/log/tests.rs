use std::sync::Mutex;

use super::*;
use crate::config::Format;

/// A sink whose octets the test reads.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log() -> (Log, Page) {
    let (page, choice) =
        (Page::default(), LogChoice { level: Level::Info, format: Format::Text, queries: false });
    (Log::with(&choice, true, page.clone()).unwrap(), page)
}

fn lines(log: &Log, page: &Page) -> Vec<String> {
    log.flush();
    let octets = page.0.lock().unwrap().clone();
    String::from_utf8(octets).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_level_decides_and_can_be_changed() {
    let (log, page) = log();
    log.event(Level::Debug, "detail", "not yet", &[]);
    log.set_level(Level::Debug);
    assert_eq!(log.clone().level(), Level::Debug);
    log.event(Level::Debug, "detail", "now", &[("number", &4)]);
    log.set_level(Level::Error);
    log.event(Level::Info, "detail", "no longer", &[]);
    assert!(!log.wants(Level::Warning) && log.wants(Level::Error));
    assert_eq!(lines(&log, &page), ["<7>level=debug event=detail message=now number=4"]);
}

#[test]
fn a_flood_is_counted() {
    let (log, page) = log();
    for _ in 0..1000 {
        log.event(Level::Warning, "flood", "again", &[]);
    }
    log.event(Level::Warning, "other", "heard", &[]);
    let lines = lines(&log, &page);
    let flood = lines.iter().filter(|line| line.contains("event=flood")).count();
    // Ten at once, and one for each second that this test may take.
    assert!((10..500).contains(&flood), "{flood}");
    assert!(lines.iter().any(|line| line.contains("event=other")), "{lines:?}");
}

#[test]
fn queries_have_a_switch_of_their_own() {
    let (log, page) = log();
    log.query(&[("name", &"not.example")]);
    log.set_queries(true);
    for _ in 0..50 {
        log.query(&[("client", &"::1"), ("name", &"www.example")]);
    }
    let lines = lines(&log, &page);
    assert_eq!(lines.len(), 50);
    assert_eq!(lines[0], "<6>level=info event=query client=::1 name=www.example");
}

#[test]
fn a_full_queue_keeps_nobody_waiting() {
    /// Lets nothing through until its other half is gone.
    struct Stuck(std::sync::mpsc::Receiver<()>, Page);
    impl Write for Stuck {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(octets)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (hold, held) = std::sync::mpsc::channel();
    let page = Page::default();
    let choice = LogChoice { level: Level::Info, format: Format::Json, queries: true };
    let log = Log::with(&choice, false, Stuck(held, page.clone())).unwrap();
    for _ in 0..QUEUE_LINES + 100 {
        log.query(&[]);
    }
    drop(hold);
    let lines = lines(&log, &page);
    let lost = lines.iter().find(|line| line.contains("read too slowly")).unwrap();
    assert!(lost.contains("\"lost\":\"100\"") || lost.contains("\"lost\":\"99\""), "{lost}");
}
