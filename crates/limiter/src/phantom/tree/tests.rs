use proptest::prelude::*;

use super::super::tests::fluid::policies;
use super::{Queue, Tree};
use crate::Program;

#[derive(Debug, Clone)]
enum Operation {
    Give(u64),
    Add(u16, u64),
    AddMagic(u16, u64),
    RemoveMagic(u16),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::{Add, AddMagic, Give, RemoveMagic};
    let bytes = || prop_oneof![1u64..20, 1u64..2000];
    let one = prop_oneof![
        3 => bytes().prop_map(Give),
        2 => (any::<u16>(), bytes()).prop_map(|(queue, bytes)| Add(queue, bytes)),
        2 => (any::<u16>(), bytes()).prop_map(|(queue, bytes)| AddMagic(queue, bytes)),
        2 => any::<u16>().prop_map(RemoveMagic),
    ];
    prop::collection::vec(one, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn books_balance(policy in policies(), operations in operations()) {
        let program = Program::new(&policy);
        let queues = program.queues() as u16;
        let mut tree = Tree::<64, 32>::new(1 << 60);
        // Magic bytes by a model that looks at every queue all the time.
        let mut magic = vec![0u64; program.queues()];
        for operation in operations {
            let before = tree.backlog();
            let queue = match operation {
                Operation::Give(_) => 0,
                Operation::Add(queue, _)
                | Operation::AddMagic(queue, _)
                | Operation::RemoveMagic(queue) => queue % queues,
            };
            let (path, queue) = (program.path(queue), usize::from(queue));
            match operation {
                Operation::Give(bytes) => {
                    tree.give(bytes);
                    prop_assert_eq!(tree.backlog(), before.saturating_sub(bytes));
                }
                Operation::Add(_, bytes) => {
                    tree.settle(&program, path);
                    tree.add(path, queue, bytes);
                    prop_assert_eq!(tree.backlog(), before + bytes);
                }
                Operation::AddMagic(_, bytes) => {
                    tree.settle(&program, path);
                    tree.add_magic(path, queue, bytes);
                    magic[queue] += bytes;
                }
                Operation::RemoveMagic(_) => {
                    tree.settle(&program, path);
                    tree.remove_magic(path, queue);
                    magic[queue] = 0;
                }
            }
            let mut settled = tree.clone();
            settled.settle_all(&program);
            settled.check(&program);
            for (queue, model) in magic.iter_mut().enumerate() {
                let path = program.path(queue as u16);
                *model = (*model).min(settled.length(path, queue));
                prop_assert_eq!(settled.magic(path, queue), *model);
            }
        }
        // In the end all is drained, to the last byte, by just what is owed.
        tree.give(tree.backlog());
        tree.settle_all(&program);
        tree.check(&program);
        prop_assert!(!tree.queues.iter().any(Queue::is_active));
    }
}
