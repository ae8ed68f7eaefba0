package fleet

import "net/url"

// SavedView is a list as a person wants to find it again: tab, filter, order, columns, kept under a name.
type SavedView struct {
	ID    ViewID
	List  string // one that ViewQuery knows
	Name  string
	Query string // of the list's address, as ViewQuery writes it
}

// viewKeys are the keys of a list's address that say what it shows and how. A place in the list and what belongs to the frame
// around it are no part of a view.
var viewKeys = map[string][]string{
	"vms":      {"tab", "filter", "sort", "columns", "project", "limit"},
	"hosts":    {"tab", "filter", "sort", "columns", "limit"},
	"pools":    {"filter", "sort", "columns", "limit"},
	"networks": {"filter", "sort", "columns", "limit"},
	"tasks":    {"filter", "sort", "columns", "project", "limit"},
}

// ViewQuery is the part of a list's address that makes a view, always spelt in one way: views that show the same have the same
// text. The lists are vms, hosts, pools, networks and tasks; known is false for any other.
func ViewQuery(list string, address url.Values) (query string, known bool) {
	keys, known := viewKeys[list]
	kept := url.Values{}
	for _, k := range keys {
		if v := address.Get(k); v != "" {
			kept.Set(k, v)
		}
	}
	return kept.Encode(), known
}
