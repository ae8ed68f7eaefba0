package kit

// Pager leads through a list by cursors: on, back, and to its start.
type Pager struct {
	Text              string // "100 VMs on this page"
	First, Prev, Next string // addresses; empty: not possible
}

// PagerOf leads through a list of n rows on this page. At the start there is nothing before, so neither back nor first.
func PagerOf(l Link, n int, noun, prev, next string) Pager {
	out, l := Pager{Text: Count(n, noun) + " on this page"}, l.First()
	if prev != "" {
		out.First, out.Prev = l.String(), l.With("before", prev).String()
	}
	if next != "" {
		out.Next = l.With("after", next).String()
	}
	return out
}
