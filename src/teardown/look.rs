//! Reads the arrays and who uses them into the graph. Nothing here blocks: sysfs and proc files that answer at once.

use log::warn;
use rustix::io::Errno;

use super::graph::{ARRAYS, Graph, Kind, Node};
use crate::errno::Cause;
use crate::path;
use crate::sys::md::{map, mdmon};
use crate::sys::{Root, disks, md, occupied};
use crate::text::Text;

/// Fills the graph. True: there are more arrays than it holds.
pub(super) fn look(root: &Root, graph: &mut Graph) -> Result<bool, Errno> {
    graph.clear();
    let mut more = false;
    let listed = md::arrays(root, &mut |array| {
        more |= !graph.add(Node::new(array, Text::new()));
        !more
    });
    match listed {
        // Without a single block device there is no array either.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    graph.link_volumes();
    label(root, graph);
    for at in 0..graph.nodes().len() {
        of_one(root, graph, at);
    }
    let claims = occupied::claims(root, &mut |array, user| {
        if let Some(at) = graph.find(array.as_str()) {
            graph.hold(at, user);
        }
    });
    if let Err(errno) = claims {
        // Each array is claimed once more before it is stopped: what is mounted is found out then.
        warn!("what is mounted cannot be read: {}", Cause(errno));
    }
    Ok(more)
}

/// What people call the arrays: the last part of the path that mdadm or quell has written down.
fn label(root: &Root, graph: &mut Graph) {
    // Without a map the kernel's names must do.
    let _ = map::read(root, &mut |entry| {
        if let Some(node) = graph
            .find(entry.name.as_str())
            .and_then(|at| graph.node_mut(at))
        {
            let last = entry.path.as_str().rsplit('/').next().unwrap_or_default();
            if last != node.array.name.as_str() {
                node.label = Text::of(format_args!("{last}"));
            }
        }
    });
}

fn of_one(root: &Root, graph: &mut Graph, at: usize) {
    let Some(node) = graph.node_mut(at) else {
        return;
    };
    let name = node.array.name.clone();
    match node.kind {
        Kind::Container => node.mdmon = mdmon::pid(root, name.as_str()).is_some(),
        _ => node.reshaped = md::sync_action(root, name.as_str()).as_str() == "reshape",
    }
    let mut above: heapless::Vec<disks::Name, ARRAYS> = heapless::Vec::new();
    // Without a folder of holders there are none.
    let _ = disks::holders(root, name.as_str(), &mut |holder| {
        let _ = above.push(holder.clone());
    });
    for holder in &above {
        match graph.find(holder.as_str()) {
            Some(upper) => graph.stand_on(upper, at),
            None => held(root, graph, at, holder),
        }
    }
}

fn held(root: &Root, graph: &mut Graph, at: usize, holder: &disks::Name) {
    let mut buf = [0; 128];
    match root.read(path!("/sys/block/{holder}/dm/name").as_str(), &mut buf) {
        Ok(name) => {
            let name = crate::text::Printable(name);
            graph.hold(at, format_args!("under {holder} ({name})"));
        }
        Err(_) => graph.hold(at, format_args!("{holder} stands on it")),
    }
}
