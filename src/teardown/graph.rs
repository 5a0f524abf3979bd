//! The arrays of a machine, and what stands on what. Pure: filled by `look`, read by `plan`.

use crate::sys::md::{Array, Name, State, Version};
use crate::text::Text;

/// Arrays in the table; what is beyond it is looked at once these are done.
pub(super) const ARRAYS: usize = 256;
/// Edges: a volume has one, and few arrays stand on others.
const EDGES: usize = 2 * ARRAYS;

/// Who uses an array, or what a worker had to say of it. As long as it may be in an error that clippy lets pass.
pub(super) type Words = Text<88>;

/// What an array is to a teardown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Holds the disks of volumes, and no data of its own.
    Container,
    /// A volume whose metadata mdmon keeps: it has a clean and a dirty state.
    Redundant,
    /// A volume that cannot be dirty: RAID0, or linear.
    Plain,
    /// The kernel keeps its metadata, or it has none.
    Native,
}

/// One array.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) array: Array,
    pub(super) kind: Kind,
    /// What people call it (`Volume0`); empty where nobody has said.
    pub(super) label: Text<40>,
    /// The first user that is no array of this table, in words; empty without one.
    pub(super) user: Words,
    /// What a worker had to say of it.
    pub(super) words: Words,
    /// mdadm reshapes it.
    pub(super) reshaped: bool,
    /// Only of a container: its mdmon lives.
    pub(super) mdmon: bool,
}

impl Node {
    pub(super) fn new(array: Array, label: Text<40>) -> Self {
        let kind = match &array.version {
            Version::Container(_) => Kind::Container,
            Version::Volume { .. } if !array.is_redundant() => Kind::Plain,
            Version::Volume { .. } => Kind::Redundant,
            Version::None | Version::Native(_) | Version::Other => Kind::Native,
        };
        Self {
            array,
            kind,
            label,
            user: Text::new(),
            words: Text::new(),
            reshaped: false,
            mdmon: false,
        }
    }

    /// The container a volume lies in.
    pub(super) fn container(&self) -> Option<&Name> {
        match &self.array.version {
            Version::Volume { container, .. } => Some(container),
            _ => None,
        }
    }

    /// Whether a write has made it dirty, or may (`clean`): then mdmon must be there to see it stopped.
    pub(super) fn needs_mdmon(&self, clean: bool) -> bool {
        let blocked = matches!(self.array.version, Version::Volume { blocked: true, .. });
        let writable = match self.array.state {
            State::Active | State::WritePending | State::ActiveIdle => true,
            State::Clean => clean,
            _ => false,
        };
        self.kind == Kind::Redundant && writable && !blocked
    }
}

/// All of them.
pub(super) struct Graph {
    nodes: heapless::Vec<Node, ARRAYS>,
    /// The first stands on the second, and goes before it.
    edges: heapless::Vec<(u16, u16), EDGES>,
}

impl Graph {
    pub(super) const fn new() -> Self {
        Self {
            nodes: heapless::Vec::new(),
            edges: heapless::Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.edges.clear();
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    pub(super) fn node_mut(&mut self, at: usize) -> Option<&mut Node> {
        self.nodes.get_mut(at)
    }

    /// Adds an array; false if there is no room.
    pub(super) fn add(&mut self, node: Node) -> bool {
        self.nodes.push(node).is_ok()
    }

    /// Brings containers and volumes together, once all are there.
    pub(super) fn link_volumes(&mut self) {
        for at in 0..self.nodes.len() {
            let container = self.nodes.get(at).and_then(Node::container);
            if let Some(below) = container.and_then(|name| self.find(name.as_str())) {
                self.stand_on(at, below);
            }
        }
    }

    /// `above` uses `below`. An edge without room is a user whose name is lost, not one that is not there.
    pub(super) fn stand_on(&mut self, above: usize, below: usize) {
        let edge = (index(above), index(below));
        if above != below && !self.edges.contains(&edge) && self.edges.push(edge).is_err() {
            self.hold(below, format_args!("in use by another array"));
        }
    }

    /// Somebody else uses it: the first one named is the one that is told.
    pub(super) fn hold(&mut self, at: usize, user: core::fmt::Arguments<'_>) {
        if let Some(node) = self.nodes.get_mut(at).filter(|node| node.user.is_empty()) {
            node.user = Text::of(user);
        }
    }

    /// Where the array that the kernel calls `name` stands.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.nodes
            .iter()
            .position(|n| n.array.name.as_str() == name)
    }

    /// What stands on the array at `at`.
    pub(super) fn above(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let at = index(at);
        self.edges
            .iter()
            .filter(move |(_, below)| *below == at)
            .map(|(above, _)| usize::from(*above))
    }

    /// The container of the volume at `at`.
    pub(super) fn container_of(&self, at: usize) -> Option<usize> {
        self.find(self.node(at)?.container()?.as_str())
    }
}

/// There are fewer than 2^16 places.
fn index(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// An array as lines call it: `md126 (Volume0)`.
pub(super) struct Called<'a>(pub(super) &'a Node);

impl core::fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.array.name.as_str())?;
        if self.0.label.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.0.label)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::Dev;

    /// An array as a test says it: `md126 external:/md127/0 raid1 active`.
    pub(in crate::teardown) fn node(text: &str) -> Node {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, version, level, state) = (word(), word(), word(), word());
        let array = Array {
            name: Text::of(format_args!("{name}")),
            dev: Dev::default(),
            version: Version::parse(version.as_bytes()),
            state: State::parse(state.as_bytes()),
            level: Text::of(format_args!("{level}")),
            raid_disks: 2,
            degraded: 0,
        };
        Node::new(array, Text::new())
    }

    pub(in crate::teardown) fn graph(nodes: &[&str]) -> Graph {
        let mut graph = Graph::new();
        for text in nodes {
            assert!(graph.add(node(text)));
        }
        graph.link_volumes();
        graph
    }

    #[test]
    fn kinds() {
        let kind = |text| node(text).kind;
        assert_eq!(kind("md127 external:imsm  inactive"), Kind::Container);
        assert_eq!(
            kind("md126 external:/md127/0 raid1 active"),
            Kind::Redundant
        );
        assert_eq!(
            kind("md126 external:-md127/0 raid5 readonly"),
            Kind::Redundant
        );
        assert_eq!(kind("md126 external:/md127/0 raid0 clean"), Kind::Plain);
        assert_eq!(kind("md0 1.2 raid1 clean"), Kind::Native);
        assert_eq!(kind("md0 none raid0 clean"), Kind::Native);
    }

    #[test]
    fn only_what_may_be_dirty_needs_mdmon() {
        let needs = |text| node(text).needs_mdmon(true);
        assert!(needs("md126 external:/md127/0 raid1 active"));
        assert!(needs("md126 external:/md127/0 raid1 clean"));
        assert!(!needs("md126 external:/md127/0 raid1 read-auto"));
        let still = |text| node(text).needs_mdmon(false);
        assert!(still("md126 external:/md127/0 raid1 active"));
        assert!(!still("md126 external:/md127/0 raid1 clean"));
        assert!(!needs("md126 external:-md127/0 raid1 clean"));
        assert!(!needs("md126 external:/md127/0 raid0 clean"));
        assert!(!needs("md0 1.2 raid1 active"));
    }

    #[test]
    fn volumes_stand_on_their_container_and_a_user_is_told_once() {
        let mut g = graph(&[
            "md125 external:/md127/1 raid0 clean",
            "md126 external:/md127/0 raid1 clean",
            "md127 external:imsm  inactive",
            "md124 external:/md99/0 raid1 clean",
        ]);
        assert!(g.above(2).eq([0, 1]));
        assert_eq!((g.container_of(1), g.container_of(3)), (Some(2), None));
        g.stand_on(1, 1);
        g.stand_on(0, 2);
        assert_eq!(g.above(2).count() + g.above(1).count(), 2);
        g.hold(1, format_args!("mounted on {}", "/mnt"));
        g.hold(1, format_args!("swap"));
        assert_eq!(g.nodes()[1].user.as_str(), "mounted on /mnt");
    }
}
