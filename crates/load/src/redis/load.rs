//! A load for Redis as memtier_benchmark makes it: threads with connections, each with a pipeline of
//! GETs and SETs whose keys are normally distributed.
//!
//! A pipeline is sent as a whole and its answers are read as a whole; the latency of each of its
//! operations is the time from sending it to its own answer.

use crate::error::LabError;
use crate::measurement::Latency;
use crate::random::Random;
use hdrhistogram::Histogram;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a server may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Longest latency told apart, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// Longest line of an answer.
const LINE_BYTES_MAX: usize = 512;

/// A load for one server.
#[derive(Clone, Debug)]
pub struct RedisLoad {
    /// The server.
    pub address: SocketAddr,
    /// Threads.
    pub threads: usize,
    /// Connections of each thread.
    pub connections: usize,
    /// Operations in a pipeline.
    pub pipeline: usize,
    /// GETs for each SET.
    pub gets_per_set: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Keys, numbered from 1.
    pub keys: u64,
    /// How long.
    pub duration: Duration,
    /// What keys follow from.
    pub seed: u64,
    /// Set from outside to end early.
    pub stop: Arc<AtomicBool>,
}

/// What one server did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RedisFigures {
    /// Seconds.
    pub seconds: f64,
    /// GETs that found something.
    pub hits: u64,
    /// GETs that did not.
    pub misses: u64,
    /// SETs.
    pub sets: u64,
    /// Bytes sent and received, requests and answers.
    pub bytes: u64,
    /// From sending an operation to its answer.
    pub latency: Latency,
    /// Connections that failed.
    pub failures: u64,
}

impl RedisFigures {
    /// Operations per second.
    pub fn operations_per_second(&self) -> f64 {
        (self.hits + self.misses + self.sets) as f64 / self.seconds.max(1e-9)
    }

    /// Kilobytes (1,024 bytes) of traffic per second, which the study calls memory bandwidth.
    pub fn kilobytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1024.0 / self.seconds.max(1e-9)
    }
}

impl RedisLoad {
    /// Writes every key once.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn fill(&self) -> Result<(), LabError> {
        let fill = || -> io::Result<()> {
            let mut connection = Connection::open(self)?;
            let mut key = 1;
            while key <= self.keys && !self.stop.load(Ordering::Relaxed) {
                connection.out.clear();
                let last = (key + self.pipeline as u64 - 1).min(self.keys);
                let count = (last - key + 1) as usize;
                for key in key..=last {
                    connection.set(key);
                }
                connection.stream.write_all(&connection.out)?;
                for _ in 0..count {
                    connection.answer()?;
                }
                key = last + 1;
            }
            Ok(())
        };
        fill().map_err(|error| LabError::LocalSystem {
            what: format!("Redis at {}", self.address),
            why: error.to_string(),
        })
    }

    /// Runs the load; blocks until it is over.
    pub fn run(&self) -> RedisFigures {
        let begun = Instant::now();
        let threads: Vec<_> = (0..self.threads)
            .map(|number| {
                let load = self.clone();
                std::thread::spawn(move || load.run_thread(number as u64, begun))
            })
            .collect();
        let mut sum = RedisFigures::default();
        let mut all = new_histogram();
        for thread in threads {
            let Ok((figures, histogram)) = thread.join() else {
                sum.failures += 1;
                continue;
            };
            sum.hits += figures.hits;
            sum.misses += figures.misses;
            sum.sets += figures.sets;
            sum.bytes += figures.bytes;
            sum.failures += figures.failures;
            sum.seconds = sum.seconds.max(figures.seconds);
            // Both have the same bounds.
            let _ = all.add(&histogram);
        }
        sum.latency = Latency::of(&all);
        sum
    }

    fn run_thread(&self, number: u64, begun: Instant) -> (RedisFigures, Histogram<u64>) {
        let mut figures = RedisFigures::default();
        let mut histogram = new_histogram();
        let mut random = Random::new(self.seed ^ (number << 32) ^ u64::from(self.address.port()));
        let opened: Vec<io::Result<Connection<'_>>> =
            (0..self.connections).map(|_| Connection::open(self)).collect();
        let mut connections = Vec::new();
        for connection in opened {
            match connection {
                Ok(connection) => connections.push(connection),
                Err(_) => figures.failures += 1,
            }
        }
        while begun.elapsed() < self.duration
            && !connections.is_empty()
            && !self.stop.load(Ordering::Relaxed)
        {
            // All pipelines are sent before the first is waited for.
            let mut broken = Vec::new();
            for (index, connection) in connections.iter_mut().enumerate() {
                if connection.send_pipeline(&mut random).is_err() {
                    broken.push(index);
                }
            }
            for (index, connection) in connections.iter_mut().enumerate() {
                if !broken.contains(&index)
                    && connection.take_answers(&mut figures, &mut histogram).is_err()
                {
                    broken.push(index);
                }
            }
            broken.sort_unstable();
            for index in broken.into_iter().rev() {
                connections.remove(index);
                figures.failures += 1;
            }
        }
        figures.seconds = begun.elapsed().as_secs_f64();
        (figures, histogram)
    }

    /// A key of a normal distribution over the whole range: the middle is the most popular, six
    /// deviations cover it, as memtier_benchmark has it.
    fn key(&self, random: &mut Random) -> u64 {
        let middle = self.keys as f64 / 2.0;
        let deviation = self.keys as f64 / 6.0;
        loop {
            let key = middle + random.normal() * deviation;
            if key >= 1.0 && key <= self.keys as f64 {
                return key as u64;
            }
        }
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("these bounds are in order")
}

/// What an answer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    Value,
    Nothing,
    Done,
}

struct Connection<'a> {
    load: &'a RedisLoad,
    stream: TcpStream,
    out: Vec<u8>,
    value: Vec<u8>,
    /// What was received, from `start` to `end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    sent: Instant,
    operations: usize,
    received: u64,
    until_set: u32,
}

impl<'a> Connection<'a> {
    fn open(load: &'a RedisLoad) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&load.address, SILENCE_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let value = (0..load.value_bytes).map(|n| b'a' + (n % 26) as u8).collect();
        Ok(Self {
            load,
            stream,
            out: Vec::new(),
            value,
            input: vec![0; 64 << 10],
            start: 0,
            end: 0,
            sent: Instant::now(),
            operations: 0,
            received: 0,
            until_set: load.gets_per_set,
        })
    }

    fn get(&mut self, key: u64) {
        let key = format!("key-{key}");
        // Writing into a Vec cannot fail.
        let _ = write!(self.out, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
    }

    fn set(&mut self, key: u64) {
        let key = format!("key-{key}");
        let length = self.value.len();
        let _ = write!(self.out, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${length}\r\n", key.len());
        self.out.extend_from_slice(&self.value);
        self.out.extend_from_slice(b"\r\n");
    }

    fn send_pipeline(&mut self, random: &mut Random) -> io::Result<()> {
        self.out.clear();
        for _ in 0..self.load.pipeline {
            let key = self.load.key(random);
            if self.until_set == 0 {
                self.set(key);
                self.until_set = self.load.gets_per_set;
            } else {
                self.get(key);
                self.until_set -= 1;
            }
        }
        self.operations = self.load.pipeline;
        self.sent = Instant::now();
        self.stream.write_all(&self.out)
    }

    fn take_answers(
        &mut self,
        figures: &mut RedisFigures,
        histogram: &mut Histogram<u64>,
    ) -> io::Result<()> {
        self.received = 0;
        for _ in 0..self.operations {
            match self.answer()? {
                Answer::Value => figures.hits += 1,
                Answer::Nothing => figures.misses += 1,
                Answer::Done => figures.sets += 1,
            }
            histogram.saturating_record((self.sent.elapsed().as_micros() as u64).max(1));
        }
        figures.bytes += self.out.len() as u64 + self.received;
        Ok(())
    }

    /// Reads one answer: a value, nothing (`$-1`), or `+OK`.
    fn answer(&mut self) -> io::Result<Answer> {
        let broken = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        loop {
            let bytes = &self.input[self.start..self.end];
            if let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") {
                let text = std::str::from_utf8(&bytes[..line]).map_err(|_| broken("no text"))?;
                match text.as_bytes().first() {
                    Some(b'+') => {
                        self.consume(line + 2);
                        return Ok(Answer::Done);
                    }
                    Some(b'$') if text == "$-1" => {
                        self.consume(line + 2);
                        return Ok(Answer::Nothing);
                    }
                    Some(b'$') => {
                        let length: usize =
                            text[1..].parse().map_err(|_| broken("a length that is no number"))?;
                        if length > self.load.value_bytes {
                            return Err(broken("a value longer than any that was set"));
                        }
                        let whole = line + 2 + length + 2;
                        if bytes.len() >= whole {
                            self.consume(whole);
                            return Ok(Answer::Value);
                        }
                    }
                    _ => return Err(broken(text)),
                }
            } else if bytes.len() > LINE_BYTES_MAX {
                return Err(broken("a line without an end"));
            }
            self.more()?;
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.received += bytes as u64;
    }

    fn more(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> RedisLoad {
        RedisLoad {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            threads: 1,
            connections: 1,
            pipeline: 5,
            gets_per_set: 4,
            value_bytes: 10,
            keys: 1000,
            duration: Duration::from_millis(100),
            seed: 1,
            stop: Arc::default(),
        }
    }

    #[test]
    fn keys_are_normal_around_the_middle_and_within_bounds() {
        let (load, mut random) = (load(), Random::new(1));
        let keys: Vec<u64> = (0..20_000).map(|_| load.key(&mut random)).collect();
        assert!(keys.iter().all(|key| (1..=1000).contains(key)));
        let near = keys.iter().filter(|key| key.abs_diff(500) <= 167).count() as f64;
        // 68 % within one deviation, and a little more because the tails are cut.
        assert!((0.66..0.71).contains(&(near / 20_000.0)), "{near}");
    }

    #[test]
    fn a_server_that_is_gone_is_a_failure_not_a_hang() {
        let figures = load().run();
        assert_eq!((figures.failures, figures.sets), (1, 0));
    }
}
