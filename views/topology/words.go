package topology

import (
	"cmp"
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

const (
	textLeft   = 34 // where a box's text begins
	faultsTold = 8  // above a picture
	namesTold  = 8  // of what a thing is joined to
	detailSize = 11 // of the font of a second line
)

var toneWords = map[fleet.Severity]string{fleet.SeverityOK: "well", fleet.SeverityWarn: "to look at", fleet.SeverityBad: "failed", fleet.SeverityUnknown: "not heard"}

// room is how wide a box's text may be.
func (b Box) room() int {
	if b.marked() {
		return b.W - textLeft - 28
	}
	return b.W - textLeft - 8
}

// marked reports whether the box shows its tone by an icon: where all is well it stays calm.
func (b Box) marked() bool { return b.Severity != fleet.SeverityOK && b.Severity != fleet.SeverityIdle }

func (b Box) class() string {
	if b.Mine {
		return "mine"
	}
	return kit.Severity(b.Severity)
}

// line is the second line of a box.
func (n Node) line() string { return joined(n.Word, n.Detail) }

// second is the second line as it fits: where all is well and there is no room for both, what it is says more than that it is well.
func (b Box) second() string {
	if b.Severity == fleet.SeverityOK && b.Detail != "" && widthOf(b.line(), detailSize) > float64(b.room()) {
		return fit(b.Detail, detailSize, b.room())
	}
	return fit(b.line(), detailSize, b.room())
}

// title is all that is known of a box.
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
		return "wants"
	}
	return "want"
}

// names are a few names of things.
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

// ordered are the nodes as the list tells them: column by column.
func (g Graph) ordered() []Node {
	out := slices.Clone(g.Nodes)
	slices.SortStableFunc(out, func(a, b Node) int { return cmp.Compare(a.Column, b.Column) })
	return out
}
