use super::{Class, Kind, PolicyError, PolicyTree, Program};

#[test]
fn one_queue_is_a_share_of_all() {
    let program = Program::new(&PolicyTree::queue());
    assert_eq!(program, Program::new(&PolicyTree::fair(1).unwrap()));
    assert_eq!((program.leaf(0), program.path(0).len()), (1, 1));
}

#[test]
fn queues_are_numbered_as_written_and_siblings_adjoin() {
    let policy = PolicyTree::priority(vec![
        PolicyTree::weighted(vec![
            (3, PolicyTree::queue()),
            (1, PolicyTree::fair(2).unwrap()),
        ])
        .unwrap(),
        PolicyTree::queue(),
    ])
    .unwrap();
    let program = Program::new(&policy);
    let kinds: Vec<_> = program.nodes().iter().map(|node| node.kind).collect();
    use Kind::{Priority, Queue, Weighted};
    let expected = [
        Priority,
        Weighted,
        Queue(3),
        Queue(0),
        Weighted,
        Queue(1),
        Queue(2),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(program.nodes()[3].weight, 3);
    assert_eq!(program.leaf(1), 5);
    let path = program.path(2).iter();
    let path: Vec<_> = path
        .map(|step| (step.below, step.weight, step.slot, step.priority))
        .collect();
    assert_eq!(path, [(6, 1, 2, false), (4, 1, 1, false), (1, 1, 0, true)]);
    let slots: Vec<_> = program.nodes().iter().map(|node| node.slot).collect();
    assert_eq!(slots, [0, 1, 3, 0, 2, 1, 2]);
    let classes = [(0, 1), (1, 2), (3, 1)].map(|(first, queues)| Class {
        first,
        queues,
        hosts: 0,
    });
    assert_eq!(program.classes(), classes);
    for (number, node) in program.nodes().iter().enumerate().skip(1) {
        assert!(usize::from(node.parent) < number);
        let parent = program.nodes()[usize::from(node.parent)];
        assert!(parent.children().contains(&number));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(PolicyTree::fair(0), Err(PolicyError::Empty));
    assert_eq!(PolicyTree::priority(vec![]), Err(PolicyError::Empty));
    let zero = PolicyTree::weighted(vec![(0, PolicyTree::queue())]);
    assert_eq!(zero, Err(PolicyError::Weight(0)));
    assert_eq!(PolicyTree::fair(2000), Err(PolicyError::Nodes(2001)));
    let mut deep = PolicyTree::queue();
    for _ in 0..8 {
        deep = PolicyTree::priority(vec![deep]).unwrap();
    }
    assert_eq!(PolicyTree::priority(vec![deep]), Err(PolicyError::Depth));
}
