//! What the pictures show: the number of the programme, the height of the picture, the time on the
//! timeline to the second, and a bar that crosses the picture once a second.
//!
//! A picture is painted on [`CELLS_WIDE`] by [`CELLS_HIGH`] cells, whatever its resolution, and
//! each macroblock takes the colour of the cell it lies in.

use super::avc::{self, Colour, Grid};
use super::{PICTURES_PER_SECOND, fragment::Samples};
use crate::ladder::Resolution;
use crate::programme::{Kind, Programme};

/// Cells in a row: as many as the smallest resolution, 640 pixels, has macroblocks.
pub const CELLS_WIDE: usize = 40;

/// Rows of cells, the last cut in half by the edge of a 16:9 picture.
pub const CELLS_HIGH: usize = 23;

/// Where the bar runs.
const BAR_ROW: usize = 21;

/// Chroma of the backgrounds, twelve points around the colour wheel.
const HUES: [(u8, u8); 12] = [
    (178, 128),
    (172, 154),
    (154, 172),
    (128, 178),
    (102, 172),
    (84, 154),
    (78, 128),
    (84, 102),
    (102, 84),
    (128, 78),
    (154, 84),
    (172, 102),
];

/// The ten digits and a colon, five rows of three cells each, first row in the highest bits.
const GLYPHS: [u16; 11] = [
    0b111_101_101_101_111,
    0b010_110_010_010_111,
    0b111_001_111_100_111,
    0b111_001_111_001_111,
    0b101_101_111_001_001,
    0b111_100_111_001_111,
    0b111_100_111_101_111,
    0b111_001_001_001_001,
    0b111_101_111_101_111,
    0b111_101_111_001_111,
    0b000_010_000_010_000,
];

/// A painted picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture([[Colour; CELLS_WIDE]; CELLS_HIGH]);

impl Picture {
    /// Picture `index` (counted from the start of the timeline) of `programme` at `resolution`.
    pub fn paint(programme: Programme, resolution: Resolution, index: u64) -> Self {
        Self::paint_still(programme, resolution, index).with_bar(programme, index)
    }

    /// The part that is the same for all pictures of a second.
    fn paint_still(programme: Programme, resolution: Resolution, index: u64) -> Self {
        let (background, ink) = colours(programme);
        let mut picture = Self([[background; CELLS_WIDE]; CELLS_HIGH]);
        let number = programme.number.to_string();
        let scale = if number.len() <= 3 { 2 } else { 1 };
        picture.write(&number, 2, 2, scale, ink);
        picture.write(&resolution.height.to_string(), 24, 2, 1, ink);
        let second = index / PICTURES_PER_SECOND % 86_400;
        let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        picture.write(&clock, 4, 14, 1, ink);
        picture
    }

    /// The same with the bar where it is in picture `index`.
    fn with_bar(&self, programme: Programme, index: u64) -> Self {
        let mut picture = self.clone();
        let step = (index % PICTURES_PER_SECOND) as usize;
        let place = step * CELLS_WIDE / PICTURES_PER_SECOND as usize;
        picture.0[BAR_ROW][place] = colours(programme).1;
        picture
    }

    /// The colour of the cell at `column` and `row`, which are below [`CELLS_WIDE`] and
    /// [`CELLS_HIGH`].
    pub fn cell(&self, column: usize, row: usize) -> Colour {
        self.0[row][column]
    }

    /// Writes digits and colons with the first one's upper left cell at `column` and `row`; what
    /// goes over the edge is cut off.
    fn write(&mut self, text: &str, column: usize, row: usize, scale: usize, ink: Colour) {
        for (place, character) in text.chars().enumerate() {
            let glyph = GLYPHS[character.to_digit(10).unwrap_or(10) as usize];
            for (y, x) in (0..5 * scale).flat_map(|y| (0..3 * scale).map(move |x| (y, x))) {
                let bit = 14 - (y / scale * 3 + x / scale);
                let column = column + place * 4 * scale + x;
                if glyph >> bit & 1 == 1
                    && let Some(cell) =
                        self.0.get_mut(row + y).and_then(|cells| cells.get_mut(column))
                {
                    *cell = ink;
                }
            }
        }
    }
}

/// Background and ink: white on a dark colour for channels, black on a light one for titles.
fn colours(programme: Programme) -> (Colour, Colour) {
    // Five steps around the wheel keep neighbours apart and still visit all twelve.
    let (cb, cr) = HUES[programme.number as usize * 5 % HUES.len()];
    let ink = |y| Colour { y, cb: 128, cr: 128 };
    match programme.kind {
        Kind::Live => (Colour { y: 70, cb, cr }, ink(235)),
        Kind::OnDemand => (Colour { y: 180, cb, cr }, ink(16)),
    }
}

/// `count` encoded pictures from number `first` on; the first is a key frame, the others are changes.
pub fn samples(programme: Programme, resolution: Resolution, first: u64, count: u64) -> Samples {
    let grid = Grid::covering(resolution);
    let columns: Vec<usize> = (0..grid.columns).map(|x| x * CELLS_WIDE / grid.columns).collect();
    // Cells are square, so rows scale by the width as well.
    let rows: Vec<usize> =
        (0..grid.rows).map(|y| (y * CELLS_WIDE / grid.columns).min(CELLS_HIGH - 1)).collect();
    let mut samples = Samples::default();
    let mut still = Picture::paint_still(programme, resolution, first);
    let mut shown = still.with_bar(programme, first);
    let key_frame =
        avc::key_frame(grid, first / count.max(1), |x, y| shown.cell(columns[x], rows[y]));
    samples.push_unit(&key_frame);
    for index in 1..count {
        if (first + index).is_multiple_of(PICTURES_PER_SECOND) {
            still = Picture::paint_still(programme, resolution, first + index);
        }
        let next = still.with_bar(programme, first + index);
        let unit = avc::delta_frame(
            grid,
            index,
            |x, y| next.cell(columns[x], rows[y]),
            |y| next.0[rows[y]] != shown.0[rows[y]],
            |x, y| next.cell(columns[x], rows[y]) != shown.cell(columns[x], rows[y]),
        );
        samples.push_unit(&unit);
        shown = next;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Resolution = Resolution { width: 640, height: 360 };
    const CHANNEL: Programme = Programme { kind: Kind::Live, number: 7 };

    fn drawing(picture: &Picture, rows: std::ops::Range<usize>) -> Vec<String> {
        let ink = colours(CHANNEL).1;
        let mark = |colour: &Colour| if *colour == ink { '#' } else { '.' };
        picture.0[rows].iter().map(|row| row.iter().map(mark).collect()).collect()
    }

    #[test]
    fn the_clock_shows_the_time_on_the_timeline() {
        let at = (12 * 3600 + 34 * 60 + 56) * PICTURES_PER_SECOND;
        let picture = Picture::paint(CHANNEL, SMALL, at + 24);
        let expected = [
            ".....#..###.....###.#.#.....###.###.....",
            "....##....#..#....#.#.#..#..#...#.......",
            ".....#..###.....###.###.....###.###.....",
            ".....#..#....#....#...#..#....#.#.#.....",
            "....###.###.....###...#.....###.###.....",
        ];
        assert_eq!(drawing(&picture, 14..19), expected);
        assert_eq!(drawing(&picture, 21..22)[0].find('#'), Some(38));
    }

    #[test]
    fn colours_survive_the_encoder() {
        for number in 0..20 {
            for kind in [Kind::Live, Kind::OnDemand] {
                let (background, ink) = colours(Programme { kind, number });
                for colour in [background, ink] {
                    assert!(colour.cb % 2 == 0 && colour.cr % 2 == 0);
                    assert!((16..=235).contains(&colour.y));
                }
            }
        }
    }

    #[test]
    fn a_number_too_long_to_fit_is_cut_off() {
        let programme = Programme { kind: Kind::Live, number: u32::MAX };
        Picture::paint(programme, SMALL, u64::MAX);
    }

    #[test]
    fn there_is_one_sample_per_picture_and_the_first_is_the_largest() {
        let samples = samples(CHANNEL, SMALL, 150, 150);
        assert_eq!(samples.sizes.len(), 150);
        assert!(samples.sizes[1..].iter().all(|size| *size < samples.sizes[0]));
    }
}
