// Package shell is what stands around a page: the layout with its top bar, tree and dock, and the pages of refusals.
package shell

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Frame is what stands around the page of a person who is signed in. A handler sets the first part; web fills the rest.
type Frame struct {
	Title   string          // of the browser's tab: "web-01"
	Here    []string        // keys of what the page is about, outermost first: "host:<id>", "vm:<id>"; marks the tree's row
	Project fleet.ProjectID // that the page is cut to; empty: all
	Scripts []string        // further modules of this page: "bundle/console.js"

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
func (f Frame) May(r policy.Permission) bool { return policy.May(f.Actor, r, "") }

// user marks the page as the person's who is signed in.
func (f Frame) user() templ.Attributes {
	if f.Actor.UserID == "" {
		return nil
	}
	return templ.Attributes{"data-user": string(f.Actor.UserID)}
}

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
