package fleet

import "net/url"

// SavedView is a user's named selection of a list's tab, filter, sort order and columns.
type SavedView struct {
	ID    ViewID
	List  string // a list that supports saved views: see SavedViewQuery
	Name  string
	Query string // query string of the list, as SavedViewQuery writes it
}

// SavedViewQuery returns those parameters of a list's query string that a view saves, in canonical form: equal views
// have equal text. It leaves out cursors and other parameters of the page. known is false if the list does not support
// saved views.
func SavedViewQuery(list string, address url.Values) (query string, known bool) {
	of, _ := ResourceTypeByPlural(list)
	kept := url.Values{}
	for _, k := range of.View {
		if v := address.Get(k); v != "" {
			kept.Set(k, v)
		}
	}
	return kept.Encode(), of.View != nil
}
