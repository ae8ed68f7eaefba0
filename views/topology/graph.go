// Package topology draws what hosts say of their networks: devices, bridges, networks and the VMs on them, from left to right. What is
// drawn is decided purely, as a graph; where it stands is found purely, too. The same graph is told as a list.
package topology

import (
	"slices"

	"quantix/internal/fleet"
)

// Node is a thing in a picture.
type Node struct {
	ID       string // within the picture
	Column   int
	Icon     string
	Kind     string // in the list: "NIC"
	Name     string
	Detail   string // one more line
	Severity fleet.Severity
	Word     string // its state
	Says     string // what is wrong with it, in whole; empty: nothing
	Href     string // empty: it has no page
	Mine     bool   // the one that the picture is about
}

// Edge is what joins two things.
type Edge struct {
	From, To string
	Severity fleet.Severity
	Says     string // what it is, or what is wrong with it
}

// Graph is what is drawn: Columns are the words above them, from left to right.
type Graph struct {
	Columns []string
	Nodes   []Node
	Edges   []Edge
}

// node is the node of that id; nil: there is none.
func (g *Graph) node(id string) *Node {
	if i := slices.IndexFunc(g.Nodes, func(n Node) bool { return n.ID == id }); i >= 0 {
		return &g.Nodes[i]
	}
	return nil
}

func (g *Graph) add(n Node) { g.Nodes = append(g.Nodes, n) }

// join draws a line between two things, once: of two the worse one stays.
func (g *Graph) join(e Edge) {
	for i, x := range g.Edges {
		if x.From == e.From && x.To == e.To {
			if e.rank() > x.rank() {
				g.Edges[i] = e
			}
			return
		}
	}
	g.Edges = append(g.Edges, e)
}

// Faults are the things that want a person, the worst first. What is only not heard is none.
func (g Graph) Faults() (out []Node) {
	for _, tone := range []fleet.Severity{fleet.SeverityBad, fleet.SeverityWarn} {
		for _, n := range g.Nodes {
			if n.Severity == tone && n.Says != "" {
				out = append(out, n)
			}
		}
	}
	return out
}

// Beside are the things that one is joined to, left and right of it.
func (g Graph) Beside(id string) (left, right []Node) {
	for _, e := range g.Edges {
		from, to := g.node(e.From), g.node(e.To)
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
