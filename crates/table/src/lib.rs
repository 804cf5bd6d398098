//! Tables: a column is declared once, with its name, type, unit, meaning and value.
