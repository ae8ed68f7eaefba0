package fleet

import "net/url"

// SavedView is a list as a person wants to find it again: tab, filter, order, columns, kept under a name.
type SavedView struct {
	ID    ViewID
	List  string // one that ViewQuery knows
	Name  string
	Query string // of the list's address, as ViewQuery writes it
}

// ViewQuery is the part of a list's address that makes a view, always spelt in one way: views that show the same have the same
// text. A place in the list and what belongs to the frame around it are no part of a view. known is false where views of the list
// are not kept.
func ViewQuery(list string, address url.Values) (query string, known bool) {
	of, _ := Listed(list)
	kept := url.Values{}
	for _, k := range of.View {
		if v := address.Get(k); v != "" {
			kept.Set(k, v)
		}
	}
	return kept.Encode(), of.View != nil
}
