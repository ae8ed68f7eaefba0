package topology

import (
	"cmp"
	"slices"
)

// columnItem is an entry of a column in the layout: a node, or a line that crosses the column on its way to a later
// one.
type columnItem struct {
	node   int // index of the node; -1: a line that crosses the column and starts at the node with the index from
	from   int
	center float64
	left   []*columnItem // neighbours in the column before
	right  []*columnItem
}

func (i *columnItem) height() float64 {
	if i.node < 0 {
		return laneHeight
	}
	return boxHeight
}

type columnItems [][]*columnItem

// sorted returns the order of items with the fewest line crossings among the orders that eight sweeps over the columns
// produce.
func (l columnItems) sorted() columnItems {
	best, least := l.clone(), l.crossings()
	for sweep := 0; sweep < 8 && least > 0; sweep++ {
		forward := sweep%2 == 0
		for k := range l {
			c := k
			if !forward {
				c = len(l) - 1 - k
			}
			l[c] = l.reorderedColumn(c, forward)
		}
		if n := l.crossings(); n < least {
			best, least = l.clone(), n
		}
	}
	return best
}

func (l columnItems) clone() columnItems {
	out := make(columnItems, len(l))
	for i, row := range l {
		out[i] = slices.Clone(row)
	}
	return out
}

// reorderedColumn returns a column sorted by the average position of each item's neighbours. An item without neighbours keeps
// its place.
func (l columnItems) reorderedColumn(c int, forward bool) []*columnItem {
	beside := c - 1
	if !forward {
		beside = c + 1
	}
	if beside < 0 || beside >= len(l) {
		return l[c]
	}
	place := map[*columnItem]int{}
	for i, x := range l[beside] {
		place[x] = i
	}
	row := l[c]
	mean := map[*columnItem]float64{}
	for i, x := range row {
		near := x.left
		if !forward {
			near = x.right
		}
		if len(near) == 0 {
			mean[x] = float64(i) * float64(len(l[beside])) / float64(len(row))
			continue
		}
		sum := 0
		for _, n := range near {
			sum += place[n]
		}
		mean[x] = float64(sum) / float64(len(near))
	}
	row = slices.Clone(row)
	slices.SortStableFunc(row, func(a, b *columnItem) int { return cmp.Compare(mean[a], mean[b]) })
	return row
}

// crossings returns the number of line crossings between neighbouring columns.
func (l columnItems) crossings() (n int) {
	for c := 1; c < len(l); c++ {
		place := map[*columnItem]int{}
		for i, x := range l[c] {
			place[x] = i
		}
		var before []int // ends of the lines that begin at items further up
		for _, x := range l[c-1] {
			ends := make([]int, len(x.right))
			for i, r := range x.right {
				ends[i] = place[r]
				for _, b := range before {
					if b > ends[i] {
						n++
					}
				}
			}
			before = append(before, ends...)
		}
	}
	return n
}

// setPositions assigns each item a vertical position, close to its neighbours and without overlap. It returns the
// picture's height.
func (l columnItems) setPositions() float64 {
	for _, row := range l {
		y := 0.0
		for _, x := range row {
			x.center = y + x.height()/2
			y += x.height() + rowGap
		}
	}
	for pass := range 6 {
		for k := range l {
			c := k
			if pass%2 == 1 {
				c = len(l) - 1 - k
			}
			alignColumn(l[c], pass%2 == 0)
		}
	}
	low, high := 0.0, 0.0
	first := true
	for _, row := range l {
		for _, x := range row {
			if top := x.center - x.height()/2; first || top < low {
				low, first = top, false
			}
			high = max(high, x.center+x.height()/2)
		}
	}
	for _, row := range l {
		for _, x := range row {
			x.center = float64(int(x.center - low + 0.5))
		}
	}
	return high - low + 1
}

// alignColumn moves a column's items as close to their preferred positions as their order and the gaps allow.
func alignColumn(row []*columnItem, forward bool) {
	type block struct{ sum, n float64 }
	offset, at := make([]float64, len(row)), 0.0
	var blocks []block // adjacent items, merged while a block overlaps the one before
	for i, x := range row {
		offset[i] = at + x.height()/2
		at += x.height() + rowGap
		blocks = append(blocks, block{x.preferredCenter(forward) - offset[i], 1})
		for k := len(blocks) - 1; k > 0 && blocks[k-1].sum*blocks[k].n >= blocks[k].sum*blocks[k-1].n; k-- {
			blocks[k-1].sum, blocks[k-1].n = blocks[k-1].sum+blocks[k].sum, blocks[k-1].n+blocks[k].n
			blocks = blocks[:k]
		}
	}
	i := 0
	for _, b := range blocks {
		for range int(b.n) {
			row[i].center = b.sum/b.n + offset[i]
			i++
		}
	}
}

// preferredCenter is the item's preferred position. Forward, it is the average of the neighbours to the left; backward,
// it is level with the first neighbour to the right.
func (i *columnItem) preferredCenter(forward bool) float64 {
	near := i.left
	if !forward {
		near = i.right
	}
	if len(near) == 0 {
		return i.center
	}
	sum, first := 0.0, near[0].center
	for _, n := range near {
		sum, first = sum+n.center, min(first, n.center)
	}
	if !forward {
		return first
	}
	return sum / float64(len(near))
}
