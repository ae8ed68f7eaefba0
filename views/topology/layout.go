package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Measures of a picture, in pixels.
const (
	boxWidth      = 152
	boxHeight     = 44
	laneHeight    = 8 // height of a line that passes a column
	rowGap        = 12
	columnGap     = 36
	headHeight    = 28
	pictureMargin = 4
	// signDistance is the distance of a fault sign from the end of its line, so that the signs of several lines do not
	// overlap.
	signDistance = 18
)

// Box is a node with its position.
type Box struct {
	Node
	X, Y, W, H int
}

// Line is an edge with its path: from the right side of a box to the left side of a box in a column further right.
type Line struct {
	Edge
	Path string
	X, Y int // position of a sign on the line
}

// ColumnHeader is a column header with its position.
type ColumnHeader struct {
	X    int
	Text string
}

// Picture is a graph with the positions of all its parts.
type Picture struct {
	W, H  int
	Heads []ColumnHeader
	Boxes []Box
	Lines []Line
}

// LayOut computes the layout of the graph; the same graph always gives the same picture. It omits columns without
// nodes, and edges within one column. It sorts the nodes of each column so that few lines cross, and places each node
// as level as possible with its first neighbour to the right. It draws an edge that leads to the left in the opposite
// direction.
func LayOut(g Graph) Picture {
	column, heads := drawnColumns(g)
	at := map[string]int{}
	for i, n := range g.Nodes {
		at[n.ID] = i
	}
	rows := make(columnItems, len(heads))
	of := make([]*columnItem, len(g.Nodes))
	for i := range g.Nodes {
		of[i] = &columnItem{node: i}
		rows[column[i]] = append(rows[column[i]], of[i])
	}
	type way struct {
		edge Edge
		via  []*columnItem
	}
	var ways []way
	lanes := map[[2]int]*columnItem{} // by node and column: lines of one node share a lane
	for _, e := range g.Edges {
		from, ok := at[e.From]
		to, ok2 := at[e.To]
		if !ok || !ok2 || column[from] == column[to] {
			continue
		}
		if column[from] > column[to] {
			from, to = to, from
		}
		via := []*columnItem{of[from]}
		for c := column[from] + 1; c < column[to]; c++ {
			lane := lanes[[2]int{from, c}]
			if lane == nil {
				lane = &columnItem{node: -1, from: from}
				lanes[[2]int{from, c}] = lane
				rows[c] = append(rows[c], lane)
			}
			via = append(via, lane)
		}
		via = append(via, of[to])
		for i := range via[1:] {
			linkNeighbours(via[i], via[i+1])
		}
		ways = append(ways, way{e, via})
	}
	rows = rows.sorted()
	high := rows.setPositions()

	out := Picture{W: 2*pictureMargin + len(heads)*(boxWidth+columnGap) - columnGap, H: headHeight + int(high) + 2*pictureMargin}
	left := func(c int) int { return pictureMargin + c*(boxWidth+columnGap) }
	for c, text := range heads {
		out.Heads = append(out.Heads, ColumnHeader{left(c), text})
	}
	top := func(i *columnItem) int { return headHeight + pictureMargin + int(i.center-i.height()/2) }
	for c, row := range rows {
		for _, i := range row {
			if i.node >= 0 {
				out.Boxes = append(out.Boxes, Box{g.Nodes[i.node], left(c), top(i), boxWidth, boxHeight})
			}
		}
	}
	middle := func(i *columnItem) int { return headHeight + pictureMargin + int(i.center) }
	for _, w := range ways {
		out.Lines = append(out.Lines, linePath(w.edge, column[w.via[0].node], w.via, left, middle))
	}
	slices.SortStableFunc(out.Lines, func(a, b Line) int { return cmp.Compare(a.drawingOrder(), b.drawingOrder()) }) // faults are drawn on top
	return out
}

// linkNeighbours records two items as neighbours on a path, unless they already are.
func linkNeighbours(a, b *columnItem) {
	if !slices.Contains(a.right, b) {
		a.right, b.left = append(a.right, b), append(b.left, a)
	}
}

// drawnColumns returns each node's column among the drawn columns, and the headers of the drawn columns.
func drawnColumns(g Graph) (of []int, heads []string) {
	used := make([]bool, len(g.Columns))
	for _, n := range g.Nodes {
		used[n.Column] = true
	}
	place := make([]int, len(g.Columns))
	for c, text := range g.Columns {
		if place[c] = len(heads); used[c] {
			heads = append(heads, text)
		}
	}
	of = make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		of[i] = place[n.Column]
	}
	return of, heads
}

// linePath is the path of an edge: curves between columns, straight lines through columns that it passes.
func linePath(e Edge, c int, via []*columnItem, left func(int) int, middle func(*columnItem) int) Line {
	var path strings.Builder
	out := Line{Edge: e}
	x, y := left(c)+boxWidth, middle(via[0])
	fmt.Fprintf(&path, "M%d %d", x, y)
	for k, i := range via[1:] {
		toX, toY := left(c+1+k), middle(i)
		fmt.Fprintf(&path, "C%d %d %d %d %d %d", x+columnGap/2, y, toX-columnGap/2, toY, toX, toY)
		out.X, out.Y = toX-signDistance, toY
		x, y = toX, toY
		if i.node < 0 {
			x += boxWidth
			fmt.Fprintf(&path, "H%d", x)
		}
	}
	out.Path = path.String()
	return out
}

// drawingOrder is the rank of a line: lines with a higher rank are drawn on top.
func (e Edge) drawingOrder() int {
	return slices.Index([]fleet.Severity{fleet.SeverityIdle, fleet.SeverityOK, fleet.SeverityUnknown, fleet.SeverityWarn, fleet.SeverityBad}, e.Severity)
}
