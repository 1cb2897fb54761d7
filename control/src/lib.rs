//! Control side of mrcnic.
