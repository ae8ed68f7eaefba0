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
	maxFaults  = 8  // faults listed above a picture
	maxNames   = 8  // neighbours listed by name
	detailSize = 11 // font size of the second line
)

var severityWords = map[fleet.Severity]string{fleet.SeverityOK: "OK", fleet.SeverityWarn: "Warning", fleet.SeverityBad: "Failed", fleet.SeverityUnknown: "Unknown"}

// textWidth is the available width of a box's text.
func (b Box) textWidth() int {
	if b.hasIcon() {
		return b.W - textLeft - 28
	}
	return b.W - textLeft - 8
}

// hasIcon reports whether the box has an icon for its severity. Only boxes with a warning, a fault or an unknown state
// have one.
func (b Box) hasIcon() bool {
	return b.Severity != fleet.SeverityOK && b.Severity != fleet.SeverityIdle
}

func (b Box) class() string {
	if b.IsSubject {
		return "mine"
	}
	return kit.SeverityClass(b.Severity)
}

// stateAndDetail is the second line of a box.
func (n Node) stateAndDetail() string { return joinText(n.Word, n.Detail) }

// secondLine is the second line, cut to the width of the box. If a node without a fault has too little space for state
// and detail, the line shows the detail only.
func (b Box) secondLine() string {
	if b.Severity == fleet.SeverityOK && b.Detail != "" && textWidthOf(b.stateAndDetail(), detailSize) > float64(b.textWidth()) {
		return cutToWidth(b.Detail, detailSize, b.textWidth())
	}
	return cutToWidth(b.stateAndDetail(), detailSize, b.textWidth())
}

// tooltip is the tooltip of a box: its kind, name, state and details, and the full text of its fault.
func (n Node) tooltip() string {
	out := n.Kind + " " + n.Name
	if line := n.stateAndDetail(); line != "" {
		out += ": " + line
	}
	if n.Explanation != "" {
		out += "\n" + n.Explanation
	}
	return out
}

func lineClass(t fleet.Severity) string { return "l " + string(t) }

func needOrNeeds(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}

// nodeNamesText lists a few nodes by name.
func nodeNamesText(nodes []Node) string {
	var out []string
	for _, n := range nodes[:min(len(nodes), maxNames)] {
		out = append(out, n.Name)
	}
	if len(nodes) > maxNames {
		out = append(out, "and "+strconv.Itoa(len(nodes)-maxNames)+" more")
	}
	return joinWords(out)
}

// nodesInListOrder returns the nodes column by column, as in the list below the picture.
func (g Graph) nodesInListOrder() []Node {
	out := slices.Clone(g.Nodes)
	slices.SortStableFunc(out, func(a, b Node) int { return cmp.Compare(a.Column, b.Column) })
	return out
}
