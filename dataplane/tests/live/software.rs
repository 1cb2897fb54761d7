//! What users do wrong.
