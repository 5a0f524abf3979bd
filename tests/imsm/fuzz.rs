//! The fuzz bodies over their corpus and over mutations of it. A panic, an overflow or a hang is a failure.

use crate::bodies;
use std::fs;
use std::path::Path;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let inputs: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(inputs.len() >= 10, "the corpus of {name} is not there");
    inputs
}

/// Numbers that are the same in every run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

const INTERESTING: [u8; 8] = [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 10];

fn mutated(inputs: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = inputs[dice.below(inputs.len())].clone();
    for _ in 0..=dice.below(6) {
        let len = input.len();
        // Mostly where the metadata is, which is little of the whole.
        let used: Vec<usize> = (0..len).filter(|&i| input[i] != 0).collect();
        let near = used.get(dice.below(used.len())).copied().unwrap_or(0) + dice.below(6);
        let at = if dice.below(8) == 0 {
            dice.below(len)
        } else {
            near.min(len.saturating_sub(1))
        };
        match dice.below(6) {
            0 => input.truncate(at),
            1 => drop(input.drain(..at.min(64))),
            2 => {
                let other = &inputs[dice.below(inputs.len())];
                let n = dice.below(64).min(len - at.min(len)).min(other.len());
                let from = dice.below(other.len() - n + 1);
                input[at..at + n].copy_from_slice(&other[from..from + n]);
            }
            3 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = INTERESTING[dice.below(INTERESTING.len())];
                }
            }
        }
        if input.is_empty() {
            input.push(2);
        }
    }
    input
}

fn run(name: &str, body: fn(&[u8]), mutations: usize) {
    let inputs = corpus(name);
    inputs.iter().for_each(|input| body(input));
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..mutations {
        body(&mutated(&inputs, &mut dice));
    }
}

#[test]
fn parse_takes_anything() {
    run("parse", bodies::parse, 10_000);
}

#[test]
fn assemble_takes_anything() {
    run("assemble", bodies::assemble, 10_000);
}
