use super::*;

fn node(name: &str, parent: Option<&str>, capacity: u64) -> Node {
    Node {
        name: name.into(),
        parent: parent.map(Into::into),
        capacity: PerDirection::new(|_| capacity),
    }
}

#[test]
fn nodes_keep_their_numbers_and_only_changes_are_made() {
    let none = Nodes::default();
    let first = none.next(&[node("a", None, 100), node("b", Some("a"), 50)]);
    assert_eq!(none.changes(&first).len(), 4);
    assert!(none.changes(&first).iter().all(|(.., fresh)| *fresh));
    assert!(first.changes(&first).is_empty());

    // One has another capacity, one is gone, and one is new: it does not get the number of the one that is gone.
    let second = first.next(&[node("c", Some("a"), 10), node("a", None, 200)]);
    let of = |nodes: &Nodes, name| nodes.number(Some(name), Direction::Down);
    assert_eq!(of(&second, "a"), of(&first, "a"));
    assert_ne!(of(&second, "c"), of(&first, "b"));
    let changes = first.changes(&second);
    let down: Vec<_> = changes
        .iter()
        .filter(|(number, ..)| number % 2 == 0)
        .collect();
    let new = |(number, node, fresh): &(u32, NetworkNode, bool)| {
        (*number, node.capacity.bits_per_second(), *fresh)
    };
    let wanted = [(of(&second, "a"), 200, false), (of(&second, "c"), 10, true)];
    assert_eq!(down.into_iter().map(new).collect::<Vec<_>>(), wanted);

    // Its number is free again afterwards.
    let third = second.next(&[node("a", None, 200), node("d", None, 10)]);
    assert_eq!(of(&third, "d"), of(&first, "b"));
}
