//! A table in LaTeX with the booktabs package.

use super::Table;
use super::files::shown;

/// Columns with longer cells break their lines.
const LINE_CHARACTERS: usize = 40;
/// Tables with more columns are set in small type.
const COLUMNS: usize = 7;
/// Tables with more rows go on over several pages.
const ROWS: usize = 40;

/// The table with its caption and a label.
pub(super) fn latex(table: &Table, caption: &str) -> String {
    let head = table.columns.iter().map(|(title, _)| escaped(title)).collect::<Vec<_>>().join(" & ");
    let mut body = String::new();
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| escaped(shown(cell))).collect();
        body += &format!("    {} \\\\\n", cells.join(" & "));
    }
    let (columns, caption, name) = (columns(table), escaped(caption), table.name);
    let size = if table.columns.len() > COLUMNS { "\\scriptsize\\setlength{\\tabcolsep}{2.5pt}" } else { "" };
    if table.rows.len() > ROWS {
        return format!(
            "% Needs \\usepackage{{booktabs,longtable}} and, before 2020, \\usepackage{{textcomp}}.\n\
             {{{size}\n\\begin{{longtable}}{{{columns}}}\n  \\caption{{{caption}}}\\label{{tab:sextant-{name}}} \\\\\n    \
             \\toprule\n    {head} \\\\\n    \\midrule\n  \\endfirsthead\n    \\toprule\n    {head} \\\\\n    \
             \\midrule\n  \\endhead\n{body}    \\bottomrule\n\\end{{longtable}}}}\n"
        );
    }
    let size = if size.is_empty() { String::new() } else { format!("  {size}\n") };
    format!(
        "% Needs \\usepackage{{booktabs}} and, before 2020, \\usepackage{{textcomp}}.\n\
         \\begin{{table}}\n  \\centering\n  \\caption{{{caption}}}\n  \\label{{tab:sextant-{name}}}\n{size}  \
         \\begin{{tabular}}{{{columns}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n{body}    \\bottomrule\n  \
         \\end{{tabular}}\n\\end{{table}}\n"
    )
}

/// Numbers stand on the right; long texts share half of a line.
fn columns(table: &Table) -> String {
    let longest = |at: usize| {
        table
            .rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| shown(cell).chars().count())
            .max()
            .unwrap_or(0)
    };
    let long: Vec<bool> =
        (0..table.columns.len()).map(|at| !table.columns[at].1 && longest(at) > LINE_CHARACTERS).collect();
    let share = 0.6 / long.iter().filter(|long| **long).count().max(1) as f64;
    let columns = table.columns.iter().zip(&long).map(|((_, number), long)| match (number, long) {
        (true, _) => "r".to_owned(),
        (false, true) => format!("p{{{share:.2}\\linewidth}}"),
        (false, false) => "l".to_owned(),
    });
    columns.collect()
}

/// Text with nothing left that LaTeX would act on.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '"' => out += "\\textquotedbl{}",
            '[' => out += "{[}",
            'µ' => out += "\\textmu{}",
            '–' => out += "--",
            '→' => out += "$\\rightarrow$",
            '≥' => out += "$\\geq$",
            '×' => out += "$\\times$",
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => out.extend(['\\', c]),
            '\n' | '\t' | '\u{a0}' => out.push(' '),
            // Letters of Latin alphabets have a glyph in the usual fonts; any other character would end the
            // run.
            c if c.is_control() => out.push('?'),
            c if !c.is_ascii() && !('À'..='ž').contains(&c) => out.push('?'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_are_escaped() {
        assert_eq!(escaped("a_b & 3 % of $x^2 \\input{y}"), {
            "a\\_b \\& 3 \\% of \\$x\\textasciicircum{}2 \\textbackslash{}input\\{y\\}"
        });
        assert_eq!(escaped("60.1 µs"), "60.1 \\textmu{}s");
        assert_eq!(escaped("✓ kept [x]"), "? kept {[}x]");
    }
}
