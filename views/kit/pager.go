package kit

// Pager links to the first, previous and next page of a cursor-paged list.
type Pager struct {
	Text              string // "100 VMs on this page"
	First, Prev, Next string // addresses; empty: not possible
}

// NewPager is the pager of a list with n rows on the current page. The first page has no first and no previous link.
func NewPager(l Link, n int, singular, prev, next string) Pager {
	out, l := Pager{Text: CountText(n, singular) + " on this page"}, l.FirstPage()
	if prev != "" {
		out.First, out.Prev = l.String(), l.With("before", prev).String()
	}
	if next != "" {
		out.Next = l.With("after", next).String()
	}
	return out
}
