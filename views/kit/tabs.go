package kit

import (
	"strconv"
)

func TabNames(tabs []Tab) []string {
	names := make([]string, len(tabs))
	for i, t := range tabs {
		names[i] = t.Href
	}
	return names
}

// TabsAt are the tabs of an object's page; counts stand beside some of them.
func TabsAt(path string, tabs []Tab, here string, counts map[string]int) []Tab {
	out := make([]Tab, len(tabs))
	for i, t := range tabs {
		out[i] = Tab{Text: t.Text, Href: path, Here: t.Href == here}
		if i > 0 {
			out[i].Href += "?tab=" + t.Href
		}
		if n, ok := counts[t.Href]; ok {
			out[i].Count = strconv.Itoa(n)
		}
	}
	return out
}

// Tab is one view of an object or list.
type Tab struct {
	Text, Href string
	Count      string // "" shows none
	Tone       string // of the count; "" is muted
	Here       bool
}

func countClass(t string) string {
	if t == "" {
		return "muted"
	}
	return t
}
