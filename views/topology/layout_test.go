package topology_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views/topology"
)

// checkPicture fails if boxes overlap, if a box leaves the picture or its column, or if a line does not lead to the
// right.
func checkPicture(t *testing.T, p topology.Picture) {
	t.Helper()
	at := map[string]topology.Box{}
	columns := map[int]bool{}
	for _, h := range p.Heads {
		columns[h.X] = true
	}
	for i, b := range p.Boxes {
		at[b.ID] = b
		if b.X < 0 || b.Y < 28 || b.X+b.W > p.W || b.Y+b.H > p.H || !columns[b.X] {
			t.Errorf("%s is at %d,%d in a picture of %dx%d", b.ID, b.X, b.Y, p.W, p.H)
		}
		for _, o := range p.Boxes[:i] {
			if o.X < b.X+b.W && b.X < o.X+o.W && o.Y < b.Y+b.H && b.Y < o.Y+o.H {
				t.Errorf("%s and %s overlap", b.ID, o.ID)
			}
		}
	}
	for _, l := range p.Lines {
		var x, y int
		if _, err := fmt.Sscanf(l.Path, "M%d %d", &x, &y); err != nil {
			t.Errorf("the path %q has no start", l.Path)
		}
		if l.Y < 28 || l.Y > p.H || l.X < x {
			t.Errorf("the sign of %s > %s is at %d,%d", l.From, l.To, l.X, l.Y)
		}
	}
}

func box(t *testing.T, p topology.Picture, id string) topology.Box {
	t.Helper()
	for _, b := range p.Boxes {
		if b.ID == id {
			return b
		}
	}
	t.Fatalf("%s is not drawn", id)
	return topology.Box{}
}

func newGraph(columns int, nodes map[string]int, order []string, edges ...string) topology.Graph {
	g := topology.Graph{}
	for c := range columns {
		g.Columns = append(g.Columns, fmt.Sprint("column ", c))
	}
	for _, id := range order {
		g.Nodes = append(g.Nodes, topology.Node{ID: id, Name: id, Column: nodes[id], Severity: fleet.SeverityOK})
	}
	for _, e := range edges {
		g.Edges = append(g.Edges, topology.Edge{From: e[:1], To: e[1:], Severity: fleet.SeverityOK})
	}
	return g
}

func TestLayoutAvoidsCrossingsAndOverlaps(t *testing.T) {
	t.Parallel()
	two := map[string]int{"a": 0, "b": 0, "c": 0, "x": 1, "y": 1, "z": 1, "p": 2}
	t.Run("row order avoids crossing lines", func(t *testing.T) {
		t.Parallel()
		p := topology.LayOut(newGraph(2, two, []string{"a", "b", "c", "x", "y", "z"}, "az", "by", "cx"))
		checkPicture(t, p)
		for _, pair := range []string{"az", "by", "cx"} {
			if from, to := box(t, p, pair[:1]), box(t, p, pair[1:]); from.Y != to.Y {
				t.Errorf("%s: rows at %d and %d, want the same row", pair, from.Y, to.Y)
			}
		}
	})
	t.Run("node is level with its first right neighbour", func(t *testing.T) {
		t.Parallel()
		p := topology.LayOut(newGraph(2, two, []string{"a", "x", "y", "z"}, "ax", "ay", "az"))
		checkPicture(t, p)
		if a, x := box(t, p, "a"), box(t, p, "x"); a.Y != x.Y {
			t.Errorf("the node is at %d, its first neighbour at %d", a.Y, x.Y)
		}
	})
	t.Run("empty columns are left out", func(t *testing.T) {
		t.Parallel()
		p := topology.LayOut(newGraph(3, two, []string{"a", "p"}, "ap"))
		checkPicture(t, p)
		if len(p.Heads) != 2 || p.Heads[1].Text != "column 2" || len(p.Lines) != 1 {
			t.Errorf("the picture is %+v", p)
		}
	})
	t.Run("line avoids boxes between its ends", func(t *testing.T) {
		t.Parallel()
		p := topology.LayOut(newGraph(3, two, []string{"a", "x", "y", "z", "p"}, "ax", "ay", "az", "ap"))
		checkPicture(t, p)
		for _, l := range p.Lines {
			var x, y, c1, c2, c3, c4, tx, ty int
			if _, err := fmt.Sscanf(l.Path, "M%d %dC%d %d %d %d %d %d", &x, &y, &c1, &c2, &c3, &c4, &tx, &ty); err != nil {
				t.Fatalf("%q: %v", l.Path, err)
			}
			for _, b := range p.Boxes {
				if l.To == "p" && b.X == tx && ty > b.Y-2 && ty < b.Y+b.H+2 {
					t.Errorf("the line to p passes through %s", b.ID)
				}
			}
		}
	})
	t.Run("edge within one column is left out", func(t *testing.T) {
		t.Parallel()
		p := topology.LayOut(newGraph(2, two, []string{"a", "b", "x"}, "ab", "aq", "xa"))
		checkPicture(t, p)
		if len(p.Lines) != 1 {
			t.Errorf("%d lines are drawn, want one: the reversed edge from x to a", len(p.Lines))
		}
		checkPicture(t, topology.LayOut(topology.Graph{}))
	})
}

// TestRandomGraphsHaveNoOverlaps checks that random graphs have no overlapping boxes and a stable layout.
func TestRandomGraphsHaveNoOverlaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := topology.Graph{Columns: []string{"1", "2", "3", "4", "5"}}
		for i := range r.IntN(90) {
			g.Nodes = append(g.Nodes, topology.Node{ID: strconv.Itoa(i), Column: r.IntN(5)})
		}
		for range r.IntN(150) {
			g.Edges = append(g.Edges, topology.Edge{From: strconv.Itoa(r.IntN(90)), To: strconv.Itoa(r.IntN(90)), Severity: fleet.SeverityBad})
		}
		p := topology.LayOut(g)
		checkPicture(t, p)
		if again := topology.LayOut(g); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d has two layouts", seed)
		}
		if len(p.Boxes) != len(g.Nodes) {
			t.Fatalf("seed %d: %d boxes of %d", seed, len(p.Boxes), len(g.Nodes))
		}
	}
}

func TestHostGraphLayoutHasAllColumns(t *testing.T) {
	t.Parallel()
	p := topology.LayOut(topology.HostGraph(bondedServer(), now))
	checkPicture(t, p)
	if len(p.Heads) != 6 || len(p.Boxes) != 15 {
		t.Errorf("%d columns, %d boxes", len(p.Heads), len(p.Boxes))
	}
}

// BenchmarkLayOut measures the layout of a host with the maximum number of drawn objects. The picture is rebuilt on
// every wake-up.
func BenchmarkLayOut(b *testing.B) {
	in := bondedServer()
	for i := range diagram.TopologyVMs {
		in.VMs = append(in.VMs, newVMView(fmt.Sprint("vm-", i), "network default", "bridge br0"))
	}
	for b.Loop() {
		topology.LayOut(topology.HostGraph(in, now))
	}
}
