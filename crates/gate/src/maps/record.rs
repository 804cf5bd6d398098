//! The value of a map, read and written by its fields: `build/layout.rs` generates their places.

use std::marker::PhantomData;

/// A field of a structure.
#[derive(Debug)]
pub(crate) struct Field<T> {
    at: usize,
    value: PhantomData<T>,
}

// A derived copy would need one of the value.
impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

/// Structures that follow each other within another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Array {
    pub(crate) at: usize,
    pub(crate) stride: usize,
    pub(crate) length: usize,
}

/// An integer in the machine's byte order, or an array of integers.
pub(crate) trait Value {
    const SIZE: usize;
    /// Bytes that are not there count as zeros.
    fn read(bytes: &[u8]) -> Self;
    fn write(&self, to: &mut [u8]);
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Value for $integer {
            const SIZE: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                bytes.first_chunk().copied().map_or(0, Self::from_ne_bytes)
            }

            fn write(&self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i32);

impl<T: Value, const N: usize> Value for [T; N] {
    const SIZE: usize = N * T::SIZE;

    fn read(bytes: &[u8]) -> Self {
        std::array::from_fn(|i| T::read(bytes.get(i * T::SIZE..).unwrap_or_default()))
    }

    fn write(&self, to: &mut [u8]) {
        for (value, to) in self.iter().zip(to.chunks_exact_mut(T::SIZE)) {
            value.write(to);
        }
    }
}

impl<T: Value> Field<T> {
    pub(crate) const fn at(at: usize) -> Self {
        let value = PhantomData;
        Self { at, value }
    }

    /// This field of one of the structures in an array.
    pub(crate) fn within(self, array: Array, index: usize) -> Self {
        assert!(index < array.length);
        Self::at(array.at + index * array.stride + self.at)
    }

    /// The field's value in a structure.
    pub(crate) fn of(self, bytes: &[u8]) -> T {
        T::read(bytes.get(self.at..).unwrap_or_default())
    }
}

/// A structure that is being written. Fields that are not written are zero.
#[derive(Debug)]
pub(crate) struct Record(Vec<u8>);

impl Record {
    pub(crate) fn new(size: usize) -> Self {
        Self(vec![0; size])
    }

    pub(crate) fn set<T: Value>(&mut self, field: Field<T>, value: T) {
        value.write(&mut self.0[field.at..field.at + T::SIZE]);
    }

    pub(crate) fn with<T: Value>(mut self, field: Field<T>, value: T) -> Self {
        self.set(field, value);
        self
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl From<Vec<u8>> for Record {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// An IPv6 address or mask as four words in network byte order.
pub(crate) fn network_words(address: u128) -> [u32; 4] {
    Value::read(&address.to_be_bytes())
}
