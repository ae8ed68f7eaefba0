package kit

import "cmp"

// Tab is one view of an object or list.
type Tab struct {
	Key      string // how an address says it
	Text     string
	Href     string
	Count    string // "" shows none
	Severity string // of the count; "" is muted
	Here     bool
}

// TabsAt are tabs with where each leads, and which of them is here: the page's address l with a tab's key as name. The first is
// the page's own, and needs no key; one that has an address already keeps it.
func TabsAt(l Link, name, here string, tabs ...Tab) []Tab {
	for i := range tabs {
		t := &tabs[i]
		t.Here = t.Key == here
		switch {
		case t.Href != "":
		case i == 0:
			t.Href = l.Without(name).String()
		default:
			t.Href = l.With(name, t.Key).String()
		}
	}
	return tabs
}

// TabKeys are the keys of tabs.
func TabKeys(tabs []Tab) []string {
	keys := make([]string, len(tabs))
	for i, t := range tabs {
		keys[i] = t.Key
	}
	return keys
}

func (t Tab) tone() string { return cmp.Or(t.Severity, "muted") }
