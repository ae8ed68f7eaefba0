package topology

import (
	"cmp"
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

const (
	textLeft   = 34 // left offset of a box's text
	faultsTold = 8  // faults listed above a picture
	namesTold  = 8  // neighbours listed by name
	detailSize = 11 // font size of the second line
)

var toneWords = map[fleet.Severity]string{fleet.SeverityOK: "OK", fleet.SeverityWarn: "Warning", fleet.SeverityBad: "Failed", fleet.SeverityUnknown: "Unknown"}

// room is the available width of a box's text.
func (b Box) room() int {
	if b.marked() {
		return b.W - textLeft - 28
	}
	return b.W - textLeft - 8
}

// marked reports whether the box has an icon for its severity. Boxes without a fault have none.
func (b Box) marked() bool { return b.Severity != fleet.SeverityOK && b.Severity != fleet.SeverityIdle }

func (b Box) class() string {
	if b.Mine {
		return "mine"
	}
	return kit.Severity(b.Severity)
}

// line is the second line of a box.
func (n Node) line() string { return joined(n.Word, n.Detail) }

// second is the second line, cut to the width of the box. If a node without a fault has too little space for state and
// detail, the line shows the detail only.
func (b Box) second() string {
	if b.Severity == fleet.SeverityOK && b.Detail != "" && widthOf(b.line(), detailSize) > float64(b.room()) {
		return fit(b.Detail, detailSize, b.room())
	}
	return fit(b.line(), detailSize, b.room())
}

// title is the tooltip of a box, with everything known.
func (n Node) title() string {
	out := n.Kind + " " + n.Name
	if line := n.line(); line != "" {
		out += ": " + line
	}
	if n.Says != "" {
		out += "\n" + n.Says
	}
	return out
}

func lineClass(t fleet.Severity) string { return "l " + string(t) }

func wants(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}

// names lists a few nodes by name.
func names(nodes []Node) string {
	var out []string
	for _, n := range nodes[:min(len(nodes), namesTold)] {
		out = append(out, n.Name)
	}
	if len(nodes) > namesTold {
		out = append(out, "and "+strconv.Itoa(len(nodes)-namesTold)+" more")
	}
	return list(out)
}

// ordered are the nodes in the order of the list, column by column.
func (g Graph) ordered() []Node {
	out := slices.Clone(g.Nodes)
	slices.SortStableFunc(out, func(a, b Node) int { return cmp.Compare(a.Column, b.Column) })
	return out
}
