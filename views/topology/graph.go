// Package topology draws reported networks: devices, bridges, networks and their VMs, from left to right. Building the
// graph and laying it out are pure functions. The same graph is also rendered as a list.
package topology

import (
	"slices"

	"quantix/internal/fleet"
)

// Node is a network object in a picture: a device, a network, a port group or a VM.
type Node struct {
	ID          string // unique in the picture
	Column      int
	Icon        string
	Kind        string // label in the list: "Physical NIC"
	Name        string
	Detail      string // an additional line
	Severity    fleet.Severity
	Word        string // state in one word
	Explanation string // full text of the fault; empty: none
	Href        string // empty: no page
	IsSubject   bool   // the object that the picture is about
}

// Edge connects two nodes.
type Edge struct {
	From, To    string
	Severity    fleet.Severity
	Description string // description of the connection or of its fault
}

// Graph is the content of a picture. Columns are the column headers, from left to right.
type Graph struct {
	Columns []string
	Nodes   []Node
	Edges   []Edge
}

// nodeByID is the node with the id; nil: none.
func (g *Graph) nodeByID(id string) *Node {
	if i := slices.IndexFunc(g.Nodes, func(n Node) bool { return n.ID == id }); i >= 0 {
		return &g.Nodes[i]
	}
	return nil
}

func (g *Graph) addNode(n Node) { g.Nodes = append(g.Nodes, n) }

// addEdge adds an edge. Of two edges between the same nodes, it keeps the one with the worse severity.
func (g *Graph) addEdge(e Edge) {
	for i, x := range g.Edges {
		if x.From == e.From && x.To == e.To {
			if e.drawingOrder() > x.drawingOrder() {
				g.Edges[i] = e
			}
			return
		}
	}
	g.Edges = append(g.Edges, e)
}

// Faults are the nodes that need attention, worst first. A node with an unknown state is no fault.
func (g Graph) Faults() (out []Node) {
	for _, tone := range []fleet.Severity{fleet.SeverityBad, fleet.SeverityWarn} {
		for _, n := range g.Nodes {
			if n.Severity == tone && n.Explanation != "" {
				out = append(out, n)
			}
		}
	}
	return out
}

// Neighbours returns the neighbours of a node, to the left and to the right.
func (g Graph) Neighbours(id string) (left, right []Node) {
	for _, e := range g.Edges {
		from, to := g.nodeByID(e.From), g.nodeByID(e.To)
		switch {
		case from == nil || to == nil:
		case e.To == id:
			left = append(left, *from)
		case e.From == id:
			right = append(right, *to)
		}
	}
	return left, right
}
