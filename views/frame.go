// Package views holds the pages and fragments as templ components, one noun a file. They get ready values and ask nothing.
package views

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Frame is what stands around the page of a person who is signed in. A handler sets the first part; web fills the rest.
type Frame struct {
	Title   string          // of the browser's tab: "web-01"
	Here    []string        // keys of what the page is about, outermost first: "host:<id>", "vm:<id>"; marks the tree's row
	Project fleet.ProjectID // that the page is cut to; empty: all
	Scripts []string        // further modules of this page: "js/console.js"

	Actor       fleet.Actor
	Now         time.Time // when the page was made
	Path        string    // of the request
	Query       url.Values
	ProjectName string // of Project; empty: there is none that the person may see
	Running     int    // tasks that wait or run
	Tree        TreeLevel
	Dock        Dock
	Quiet       bool // an error page: draw no more than is known without asking
}

// May reports whether to show what needs a right in any project.
func (f Frame) May(r policy.Right) bool { return policy.May(f.Actor, r, "") }

func (f Frame) projectName() string {
	if f.Project == "" {
		return "All projects"
	}
	return cmp.Or(f.ProjectName, "No such project")
}

// CutByProject reports whether the page at path is a list that can be cut to a project.
func CutByProject(path string) bool {
	t, _ := fleet.Listed(strings.TrimPrefix(path, "/"))
	return t.Path == path && t.ByProject()
}

func (f Frame) switcher() Switcher {
	s := Switcher{Project: f.Project}
	if CutByProject(f.Path) {
		s.Back = Link{f.Path, f.Query}
	}
	return s
}

// TreeViewsOf are the names of the views that the actor may see.
func TreeViewsOf(a fleet.Actor) []string {
	var out []string
	for _, v := range fleet.TreeViews {
		if policy.May(a, v.Right, "") {
			out = append(out, v.Name)
		}
	}
	return out
}

// TreeLevel is one level of the inventory tree, or one page of it.
type TreeLevel struct {
	View    string // name of a fleet.TreeView
	Group   string // view "vms": the label key that groups a project's VMs; empty: none
	Node    string // whose children these are; empty: the root
	Items   []TreeItem
	Next    string // cursor of the level's next page
	Here    []string
	Partial bool // a later page of the level: the rows alone
}

// TreeItem is one row of the tree.
type TreeItem struct {
	Key, Kind, ID, HostID, Name, Icon string
	Tone                              fleet.Tone
	Word                              string // of the phase
	Count                             int
	HasChildren                       bool
	Open                              *TreeLevel // its children, where they are known already
}

// Dock is the list of recent tasks at the bottom of every page.
type Dock struct {
	All   bool // of all people, not only one's own
	Tasks []fleet.Task
	Now   time.Time
}

// Link is an address whose query can be changed one value at a time.
type Link struct {
	Path  string
	Query url.Values
}

// With gives the link with one more value of the query; an empty one takes the name out.
func (l Link) With(name, value string) Link {
	q := url.Values{}
	maps.Copy(q, l.Query)
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	return Link{l.Path, q}
}

// Without gives the link without these names.
func (l Link) Without(names ...string) Link {
	for _, n := range names {
		l = l.With(n, "")
	}
	return l
}

// First gives the link to the first page of the list.
func (l Link) First() Link { return l.Without("after", "before") }

// At gives the same query at another path.
func (l Link) At(path string) Link { return Link{path, l.Query} }

// String is the address.
func (l Link) String() string {
	if q := l.Query.Encode(); q != "" {
		return l.Path + "?" + q
	}
	return l.Path
}

// Errors says what is wrong with a form: one sentence for it as a whole, and one a field by the field's JSON path.
type Errors struct {
	Form   string
	Fields map[string]string
}

// At is the sentence for a field; empty where nothing is wrong with it.
func (e Errors) At(path string) string { return e.Fields[path] }

// Under is the sentence for a field, or for the first by name of those below it.
func (e Errors) Under(path string) string {
	if text := e.Fields[path]; text != "" {
		return text
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if strings.HasPrefix(name, path+".") {
			return e.Fields[name]
		}
	}
	return ""
}

// Any reports whether anything is wrong.
func (e Errors) Any() bool { return e.Form != "" || len(e.Fields) > 0 }

// names lists the query's names but some, sorted.
func (l Link) names(but ...string) []string {
	out := slices.Sorted(maps.Keys(l.Query))
	return slices.DeleteFunc(out, func(n string) bool { return slices.Contains(but, n) })
}
